package interop

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// profileCases runs the cases of one file of logic vectors whose inputs are
// about manifests.
func profileCases(t *testing.T, file string, answer func(t *testing.T, r *wire.Reader, kind string) wire.Value) {
	doc := loadVectors(t, filepath.Join(vectorDir, "logic", file))
	cases := doc.member(t, "cases").Items()
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, item := range cases {
		c := vector{item}
		name, _ := c.member(t, "name").AsString()
		t.Run(name, func(t *testing.T) {
			r := wire.NewReader(c.member(t, "input"), "input")
			got := answer(t, r, r.String("kind"))
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if want := c.member(t, "expect"); !got.Equal(want) {
				t.Errorf("got %s, want %s", got.Canonical(), want.Canonical())
			}
		})
	}
}

// TestLogicSchemaDialect covers 08#manifest-format, 08#schema-dialect and
// 08#installation-and-announcement.
func TestLogicSchemaDialect(t *testing.T) {
	profileCases(t, "schema-dialect.json", func(t *testing.T, r *wire.Reader, kind string) wire.Value {
		switch kind {
		case "manifest":
			return manifestAnswer(t, r)
		case "install":
			return installAnswer(t, r)
		case "match":
			return matchAnswer(t, r)
		}
		t.Fatalf("unknown kind %q", kind)
		return wire.Value{}
	})
}

// TestLogicDigests covers 08#digests.
func TestLogicDigests(t *testing.T) {
	profileCases(t, "digests.json", func(t *testing.T, r *wire.Reader, kind string) wire.Value {
		if kind != "digest" {
			t.Fatalf("unknown kind %q", kind)
		}
		m := anyManifest(t, r.String("manifest_json"))
		var digests []wire.Member
		for _, msg := range m.Messages {
			digests = append(digests, str(msg.Type, msg.Digest))
		}
		answer := []wire.Member{str("profile_digest", m.Digest), wire.M("message_digests", wire.NewObject(digests...))}
		if v, ok := r.Optional("show_canonical"); ok && v.Equal(wire.NewBool(true)) {
			answer = append(answer, str("canonical", string(m.Raw())))
		}
		return wire.NewObject(answer...)
	})
}

func manifestAnswer(t *testing.T, r *wire.Reader) wire.Value {
	text := r.String("manifest_json")
	if v, ok := r.Optional("official"); ok && v.Equal(wire.NewBool(true)) {
		anyManifest(t, text)
		return facts(boolean("valid", true))
	}
	_, err := profile.ParseManifest([]byte(text))
	if err != nil {
		return facts(boolean("valid", false), str("error", string(fault.CodeOf(err))))
	}
	return facts(boolean("valid", true))
}

// anyManifest returns a valid manifest, official or not.
func anyManifest(t *testing.T, text string) *profile.Manifest {
	t.Helper()
	v, err := wire.Parse([]byte(text), wire.MaxJSONDepth)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range profile.Official() {
		if bytes.Equal(m.Raw(), v.Canonical()) {
			return m
		}
	}
	m, err := profile.ParseManifest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func installAnswer(t *testing.T, r *wire.Reader) wire.Value {
	set := profile.NewSet()
	for _, item := range r.Array("installed_json", 0, 64) {
		text, _ := item.AsString()
		m := anyManifest(t, text)
		if m.ID == profile.CoreID {
			continue // every set starts with it
		}
		if err := set.Install(m); err != nil {
			t.Fatal(err)
		}
	}
	err := set.Install(anyManifest(t, r.String("manifest_json")))
	if err != nil && fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("refused with code %q", fault.CodeOf(err))
	}
	return facts(boolean("accepted", err == nil))
}

func matchAnswer(t *testing.T, r *wire.Reader) wire.Value {
	node, err := wire.Parse([]byte(r.String("schema_json")), wire.MaxJSONDepth)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := profile.ParseSchema(node)
	if err != nil {
		t.Fatal(err)
	}
	value, err := wire.Parse([]byte(r.String("value_json")), wire.MaxJSONDepth)
	return facts(boolean("match", err == nil && schema.Match(value) == nil))
}
