package descriptor_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
)

// An erc8004 claim holds when the registration file's services name the agent
// (04#card-record).
func TestClaimsACE(t *testing.T) {
	id := "ace:sha256:" + strings.Repeat("ab", 32)
	for name, c := range map[string]struct {
		file    string
		want    bool
		invalid bool
	}{
		"named":                {`{"type":"x","services":[{"name":"web","endpoint":"https://a.example"},{"name":"ACE","endpoint":"` + id + `","version":"1"}]}`, true, false},
		"another agent":        {`{"services":[{"name":"ACE","endpoint":"` + id[:len(id)-1] + `"}]}`, false, false},
		"another case":         {`{"services":[{"name":"ACE","endpoint":"` + strings.ToUpper(id) + `"}]}`, false, false},
		"another service":      {`{"services":[{"name":"ace","endpoint":"` + id + `"}]}`, false, false},
		"members of two":       {`{"services":[{"name":"ACE"},{"endpoint":"` + id + `"}]}`, false, false},
		"no array":             {`{"services":{"name":"ACE","endpoint":"` + id + `"}}`, false, false},
		"no services":          {`{"Services":[{"name":"ACE","endpoint":"` + id + `"}]}`, false, false},
		"elements of any kind": {`{"services":[1,null,[],"ACE",{"name":1,"endpoint":[]},{"name":"ACE","endpoint":"` + id + `"}],"x":1.5}`, true, false},
		"an array":             {`[{"services":[{"name":"ACE","endpoint":"` + id + `"}]}]`, false, true},
		"a member twice":       {`{"services":[],"services":[{"name":"ACE","endpoint":"` + id + `"}]}`, false, true},
		"deep":                 {`{"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, false, true},
		"nothing":              {``, false, true},
	} {
		got, err := descriptor.ClaimsACE([]byte(c.file), id)
		if got != c.want || (err != nil) != c.invalid {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
}
