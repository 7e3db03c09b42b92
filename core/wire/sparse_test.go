package wire_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/wire"
)

var keep = wire.Keep{Depth: 1, Members: 2, Name: "v"}

func TestParseSparse(t *testing.T) {
	for text, want := range map[string]string{
		`null`:                                    `null`,
		`[1,[2],{"a":3}]`:                         `[]`,
		`{"b":1,"a":"x"}`:                         `{"a":"x","b":1}`,
		`{"b":1,"a":2,"c":3}`:                     `{"a":2,"b":1}`,
		`{"b":1,"a":2,"c":3,"v":4}`:               `{"a":2,"b":1,"v":4}`,
		`{"v":4,"b":1,"a":2}`:                     `{"b":1,"v":4}`,
		`{"a":{"c":{"d":1}},"b":{"c":[1],"d":2}}`: `{"a":{"c":{}},"b":{"c":[],"d":2}}`,
		`{"\u0076":{"\u0076":true,"b":1.50}}`:     `{"v":{"b":1.5,"v":true}}`,
		`{"a":1,"b":2,"c":{"d":[[{"e":{}}]]}}`:    `{"a":1,"b":2}`,
		` { } `:                                   `{}`,
		`[ ]`:                                     `[]`,
	} {
		v, err := wire.ParseSparse([]byte(text), wire.MaxJSONDepth, keep)
		if err != nil || string(v.Canonical()) != want {
			t.Errorf("%s: %s, %v", text, v.Canonical(), err)
		}
	}
}

// TestParseSparseRefuses: what is left out has been read all the same.
func TestParseSparseRefuses(t *testing.T) {
	for _, text := range []string{
		``, `[1,]`, `[1 2]`, `[`, `{"a":1`, `{"a" 1}`, `{a:1}`, `{"a":1,}`, `{"a":1}x`, "[\"\xff\"]", `[1e400]`, `["\ud800"]`,
		`{"a":1,"b":2,"c":1,"c":2}`, `{"a":1,"b":2,"a":3}`, `{"a":1,"b":2,"c":{"d":1,"\u0064":1}}`, `[{"a":1,"a":2}]`, `{"v":1,"a":1,"b":1,"v":1}`,
		strings.Repeat("[", 34) + strings.Repeat("]", 34), `{"a":1,"b":2,"c":` + strings.Repeat(`{"a":`, 33) + `1` + strings.Repeat("}", 33) + `}`,
	} {
		_, err := wire.Parse([]byte(text), wire.MaxJSONDepth)
		_, sparseErr := wire.ParseSparse([]byte(text), wire.MaxJSONDepth, keep)
		if err == nil || sparseErr == nil || err.Error() != sparseErr.Error() {
			t.Errorf("%s: %v, in full %v", text, sparseErr, err)
		}
	}
}

// FuzzParseSparse: it accepts what Parse accepts.
func FuzzParseSparse(f *testing.F) {
	f.Add([]byte(`{"a":{"c":[1,{"d":2}]},"b":"\u0041","v":[null,true,-1.5e3]}`))
	f.Add([]byte(`{"a":1,"b":2,"c":3,"c":4}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := wire.Parse(data, 5)
		sparse, sparseErr := wire.ParseSparse(data, 5, keep)
		if (err == nil) != (sparseErr == nil) {
			t.Fatalf("%v, in full %v", sparseErr, err)
		}
		if err == nil && v.Kind() != sparse.Kind() {
			t.Fatalf("%s became %s", v.Kind(), sparse.Kind())
		}
	})
}
