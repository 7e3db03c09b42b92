package cli

import (
	"errors"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
)

// kinds is a manifest with a member of every kind.
const kinds = `{"id":"example:k:1","messages":[{"type":"example:k:1","schema":{"type":"object","additionalProperties":false,"required":[],"properties":{
	"s":{"type":"string"},"n":{"type":"integer"},"b":{"type":"boolean"},"z":{"type":"null"},"a":{"type":"array","items":{"type":"integer"}},
	"o":{"type":"object","additionalProperties":false,"required":[],"properties":{"n":{"type":"integer"},"s":{"type":"string"}}},
	"open":{"type":"object","additionalProperties":true,"required":[],"properties":{"n":{"type":"integer"}}}}}}]}`

func TestSetBody(t *testing.T) {
	m, err := profile.ParseManifest([]byte(kinds))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		set  []string
		want string // "" for wrong usage
	}{
		{"nothing", nil, `{}`},
		{"text", []string{"s=10"}, `{"s":"10"}`},
		{"empty text", []string{"s="}, `{"s":""}`},
		{"equals sign", []string{"s=a=b"}, `{"s":"a=b"}`},
		{"integer", []string{"n=-7"}, `{"n":-7}`},
		{"no integer", []string{"n=1.5"}, ""},
		{"too large", []string{"n=9007199254740992"}, ""},
		{"boolean", []string{"b=true"}, `{"b":true}`},
		{"false", []string{"b=false"}, `{"b":false}`},
		{"no boolean", []string{"b=yes"}, ""},
		{"null", []string{"z=null"}, `{"z":null}`},
		{"array", []string{"a=[1,2]"}, `{"a":[1,2]}`},
		{"no JSON", []string{"a=[1"}, ""},
		{"inside", []string{"o.n=1", "o.s=1"}, `{"o":{"n":1,"s":"1"}}`},
		{"object", []string{`o={"n":1}`}, `{"o":{"n":1}}`},
		{"object and inside", []string{`o={"n":1}`, "o.s=x"}, `{"o":{"n":1,"s":"x"}}`},
		{"twice inside", []string{"o.n=1", "o.n=2"}, ""},
		{"inside and object", []string{"o.n=1", `o={}`}, ""},
		{"open", []string{"open.n=1", "open.x=1", "open.y.z=1"}, `{"open":{"n":1,"x":"1","y":{"z":"1"}}}`},
		{"open text and inside", []string{"open.x=1", "open.x.y=1"}, ""},
		{"inside text", []string{"s.x=1"}, ""},
		{"unknown", []string{"t=1"}, ""},
		{"unknown inside", []string{"o.t=1"}, ""},
		{"no name", []string{"=1"}, ""},
		{"no value", []string{"s"}, ""},
		{"no UTF-8", []string{"s=\xff"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, err := (&app{}).setBody(m.Messages[0].Schema, tt.set, nil)
			if tt.want == "" {
				if !errors.Is(err, fault.InvalidArgument) || exitOf(err) != exitUsage {
					t.Errorf("%s: %v", body.Canonical(), err)
				}
				return
			}
			if err != nil || string(body.Canonical()) != tt.want {
				t.Errorf("%s: %v", body.Canonical(), err)
			}
		})
	}
}

func TestShortTypes(t *testing.T) {
	var short []string
	for _, m := range profile.Official() {
		for _, msg := range m.Messages {
			found, ok := official().messageType(shortType(msg.Type))
			if ok != (m.ID != profile.CoreID) || ok && found.Type != msg.Type {
				t.Errorf("%s: %v", msg.Type, ok)
			}
			short = append(short, shortType(msg.Type))
		}
	}
	slices.Sort(short)
	if unique := slices.Compact(slices.Clone(short)); len(unique) != len(short) {
		t.Errorf("a short name stands for two types: %q", short)
	}
	if got := shortType("example:k:1"); got != "example:k:1" {
		t.Errorf("the type of a third party became %q", got)
	}
}
