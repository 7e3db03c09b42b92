package profile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

const emptyObject = `{"type":"object","properties":{},"required":[],"additionalProperties":false}`

func manifest(id string, types ...string) string {
	messages := make([]string, len(types))
	for i, name := range types {
		messages[i] = fmt.Sprintf(`{"type":%q,"schema":%s}`, name, emptyObject)
	}
	return fmt.Sprintf(`{"id":%q,"messages":[%s]}`, id, strings.Join(messages, ","))
}

func parse(t *testing.T, text string) *profile.Manifest {
	t.Helper()
	m, err := profile.ParseManifest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParseManifest(t *testing.T) {
	m := parse(t, manifest("example:p:1", "example:a:1", "example:b:1"))
	if m.ID != "example:p:1" || len(m.Messages) != 2 || m.Messages[1].Type != "example:b:1" {
		t.Errorf("parsed as %+v", m)
	}
	if m.Messages[0].Digest == m.Messages[1].Digest {
		t.Error("the message digest does not bind the type")
	}
	again := parse(t, string(m.Raw()))
	if again.Digest != m.Digest {
		t.Errorf("digest of Raw is %s, want %s", again.Digest, m.Digest)
	}
}

// Schemas in full are in the logic vectors; this is what lies around them.
func TestParseManifestRefuses(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	open := `{"type":"object","properties":{},"required":[],"additionalProperties":true,"enum":[{"x":%s}]}`
	with := func(schema string) string {
		return `{"id":"example:p:1","messages":[{"type":"example:a:1","schema":` + schema + `}]}`
	}
	tests := []struct{ name, text, want string }{
		{"empty text", "", "unexpected end"},
		{"not an object", "[]", "not an object"},
		{"unknown member", `{"id":"example:p:1","messages":[],"x":1}`, "messages"},
		{"no messages", `{"id":"example:p:1","messages":[]}`, "0 elements"},
		{"type twice", manifest("example:p:1", "example:a:1", "example:a:1"), "messages[1].type"},
		{"reserved id", manifest("ace:p:1", "example:a:1"), "manifest.id"},
		{"reserved type", manifest("example:p:1", "ace:text:1"), "messages[0].type"},
		{"an official manifest", manifest(profile.TextID, profile.TextType), "reserved"},
		{"root schema no object", with(`{"type":"string"}`), "messages[0].schema.type"},
		{"missing keyword is named", with(`{"type":"object"}`), "schema.additionalProperties: missing"},
		{"missing items is named", with(`{"type":"object","properties":{"a":{"type":"array"}},"required":[],"additionalProperties":true}`), `["a"].items: missing`},
		{"bad items and an enum", with(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"x"},"enum":[[1]]}},"required":[],"additionalProperties":true}`), `items.type`},
		{"enum deeper than any size allows", with(fmt.Sprintf(open, deep(40000))), "nested deeper"},
		{"enum too large", with(fmt.Sprintf(open, deep(32760))), "canonical size"},
		{"text too large", manifest("example:p:1", "example:a:1") + strings.Repeat(" ", 1<<20), "text of"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := profile.ParseManifest([]byte(tt.text))
			if fault.CodeOf(err) != fault.InvalidArgument {
				t.Fatalf("error %v, want code invalid_argument", err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q does not name %q", err, tt.want)
			}
		})
	}
	// 08 does not bound the depth of an enum's members.
	parse(t, with(fmt.Sprintf(open, deep(30000))))
}

func TestParseSchemaRefuses(t *testing.T) {
	nested := func(edges int) string {
		return strings.Repeat(`{"type":"array","items":`, edges) + `{"type":"null"}` + strings.Repeat("}", edges)
	}
	object := func(properties, required string) string {
		return `{"type":"object","additionalProperties":false,"properties":` + properties + `,"required":` + required + `}`
	}
	tests := []struct{ text, want string }{
		{nested(8), ""},
		{nested(9), "more than 8 edges"},
		{object(`{"a":{"type":"null"}}`, `["a"]`), ""},
		{object(`{"a":{"type":"null"}}`, `["a","a"]`), `"a" is there twice`},
		{object(`{"a":{"type":"null"}}`, `["b"]`), `"b" is not in properties`},
		{object(`{"":{"type":"null"}}`, `[1]`), "element 0 is no string"},
		{object(`[]`, `[]`), "schema.properties"},
		{object(`{"a":{"type":"x"}}`, `[]`), `schema.properties["a"].type`},
		{`{"type":"integer","minimum":2,"maximum":1}`, "minimum is greater"},
		{`{"type":"integer","minimum":0.5}`, "schema.minimum"},
		{`{"type":"string","maxLength":-1}`, "schema.maxLength"},
		{`{"type":"string","maximum":1}`, "unknown member"},
		{`{"type":"string","enum":[]}`, "schema.enum"},
		{`{"type":"string","enum":["a",1]}`, "schema.enum: element 1: is a number"},
		{`{"type":"string","enum":["a","a"]}`, ""},
	}
	for _, tt := range tests {
		v, err := wire.Parse([]byte(tt.text), wire.MaxJSONDepth)
		if err != nil {
			t.Fatal(err)
		}
		_, err = profile.ParseSchema(v)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one naming %q", tt.text, err, tt.want)
		}
	}
}

func TestSchemaErrors(t *testing.T) {
	const text = `{"type":"object","additionalProperties":false,"required":["n"],"properties":{
		"n":{"type":"integer","minimum":1,"maximum":3},
		"s":{"type":"string","maxLength":2,"enum":["a","b"]},
		"l":{"type":"array","maxItems":2,"items":{"type":"object","additionalProperties":true,"required":[],"properties":{"b":{"type":"boolean"}}}}
	}}`
	node, err := wire.Parse([]byte(text), wire.MaxJSONDepth)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := profile.ParseSchema(node)
	if err != nil {
		t.Fatal(err)
	}
	if !schema.Value().Equal(node) {
		t.Errorf("Value is %s", schema.Value().Canonical())
	}
	tests := []struct{ value, want string }{
		{`{"n":1,"s":"a","l":[{"b":true,"x":[null]}]}`, ""},
		{`[]`, "value: is an array, not an object"},
		{`{}`, `value: lacks the required member "n"`},
		{`{"n":1,"z":1}`, `value: unknown member "z"`},
		{`{"n":4}`, `value["n"]: not an integer in [1, 3]`},
		{`{"n":"1"}`, `value["n"]: is a string, not an integer`},
		{`{"n":1,"s":"abc"}`, `value["s"]: longer than 2 characters`},
		{`{"n":1,"s":"c"}`, `value["s"]: not one of the values of enum`},
		{`{"n":1,"s":null}`, `value["s"]: is null, not a string`},
		{`{"n":1,"l":[{},{},{}]}`, `value["l"]: more than 2 elements`},
		{`{"n":1,"l":[{},{"b":0}]}`, `value["l"][1]["b"]: is a number, not a boolean`},
	}
	for _, tt := range tests {
		v, err := wire.Parse([]byte(tt.value), wire.MaxJSONDepth)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := schema.Match(v); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Match(%s) = %q, want %q", tt.value, got, tt.want)
		}
	}
}

// TestManifestSize: the bound is on the canonical JSON, not on the text
// (08#manifest-format).
func TestManifestSize(t *testing.T) {
	const head = `{"id":"example:p:1","messages":[{"schema":{"additionalProperties":true,"enum":[{"x":"`
	const tail = `"}],"properties":{},"required":[],"type":"object"},"type":"example:a:1"}]}`
	largest := head + strings.Repeat("x", wire.MaxManifestBytes-len(head)-len(tail)) + tail
	m := parse(t, " "+largest+" ")
	if string(m.Raw()) != largest {
		t.Fatal("the text is not canonical: the test does not look")
	}
	_, err := profile.ParseManifest([]byte(strings.Replace(largest, `:"x`, `:"xx`, 1)))
	if fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("one byte more: %v", err)
	}
}
