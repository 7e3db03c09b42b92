package interop

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/wire"
)

const vectorDir = "../../testdata/vectors"

// openEitherWay names the cases whose outcome the specification leaves to the
// X25519 primitive (03#x-wing): with or without a refusal of an all-zero share.
var openEitherWay = map[string]bool{
	"xwing: decapsulate with an all-zero X25519 share": true,
	"xwing: encapsulate to an all-zero X25519 key":     true,
}

// signedWithGivenRandomness names the cases that give the randomness of a
// hedged signature. The product takes none (02#signatures), so core/suite alone
// checks them, below its exported API.
var signedWithGivenRandomness = map[string]bool{
	"mldsa: sign 0 packet": true,
	"mldsa: sign 1 packet": true,
}

// TestVectors runs every case of the wire files through the evaluators that
// `ace interop eval` uses.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(vectorDir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no vector files: %v", err)
	}
	known := evaluators()
	if len(files) != len(known) {
		t.Errorf("%d vector files, %d evaluators", len(files), len(known))
	}
	for _, file := range files {
		kind := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(kind, func(t *testing.T) { runVectorFile(t, kind, file) })
	}
}

func runVectorFile(t *testing.T, kind, file string) {
	if _, ok := evaluators()[kind]; !ok {
		t.Fatalf("no evaluator for %s", kind)
	}
	doc := loadVectors(t, file)
	cases := doc.member(t, "cases").Items()
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for _, c := range cases {
		v := vector{c}
		name, _ := v.member(t, "name").AsString()
		t.Run(name, func(t *testing.T) {
			if openEitherWay[kind+": "+name] {
				t.Skip("open either way (03#x-wing)")
			}
			if signedWithGivenRandomness[kind+": "+name] {
				t.Skip("checked in core/suite: its randomness is given")
			}
			input := expand(t, v.member(t, "input"), doc)
			want := expand(t, v.member(t, "expect"), doc)
			codeOnly, _ := c.Get("codeOnly")
			got := Evaluate(kind, input, doc.member(t, "now"))
			if why := unsatisfied(want, got, codeOnly.Equal(wire.NewBool(true))); why != "" {
				t.Error(why)
			}
		})
	}
}

// vector is a vector file or one case of it.
type vector struct{ wire.Value }

func (v vector) member(t *testing.T, name string) wire.Value {
	t.Helper()
	m, ok := v.Get(name)
	if !ok {
		t.Fatalf("no member %q", name)
	}
	return m
}

func loadVectors(t *testing.T, file string) vector {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	v, err := wire.Parse(data, 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range v.Members() {
		switch m.Key {
		case "description", "now", "refs", "identities", "cases", "traces":
		default:
			t.Fatalf("unknown member %q of %s", m.Key, file)
		}
	}
	return vector{v}
}

// expand replaces the macros $ref, $repeat and $concat anywhere in v.
func expand(t *testing.T, v wire.Value, doc vector) wire.Value {
	t.Helper()
	switch v.Kind() {
	case wire.Array:
		items := make([]wire.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = expand(t, item, doc)
		}
		return wire.NewArray(items...)
	case wire.Object:
		if len(v.Members()) == 1 {
			if m, ok := macro(t, v.Members()[0], doc); ok {
				return m
			}
		}
		members := make([]wire.Member, len(v.Members()))
		for i, m := range v.Members() {
			members[i] = wire.M(m.Key, expand(t, m.Value, doc))
		}
		return wire.NewObject(members...)
	}
	return v
}

func macro(t *testing.T, m wire.Member, doc vector) (wire.Value, bool) {
	t.Helper()
	switch m.Key {
	case "$ref":
		name, _ := m.Value.AsString()
		ref, ok := doc.member(t, "refs").Get(name)
		if !ok {
			t.Fatalf("no ref %q", name)
		}
		return expand(t, ref, doc), true
	case "$repeat":
		text, _ := m.Value.Items()[0].AsString()
		n, _ := m.Value.Items()[1].AsInt()
		return wire.NewString(strings.Repeat(text, int(n))), true
	case "$concat":
		var b strings.Builder
		for _, part := range m.Value.Items() {
			s, ok := expand(t, part, doc).AsString()
			if !ok {
				t.Fatal("$concat of something that is no string")
			}
			b.WriteString(s)
		}
		return wire.NewString(b.String()), true
	}
	return wire.Value{}, false
}

// unsatisfied says why an answer does not satisfy what a case expects: the
// same code, or every stated fact, where null is the same as absent.
func unsatisfied(want, got wire.Value, codeOnly bool) string {
	gotError, failed := got.Get("error")
	if gotError.Equal(wire.NewString("cannot_evaluate")) {
		return "cannot_evaluate"
	}
	if wantError, ok := want.Get("error"); ok {
		switch {
		case !failed:
			return "accepted, want " + string(wantError.Canonical())
		case codeOnly, wantError.Equal(wire.NewString("invalid")), wantError.Equal(gotError):
			return ""
		}
		return "got " + string(gotError.Canonical()) + ", want " + string(wantError.Canonical())
	}
	if failed {
		return "got " + string(gotError.Canonical()) + ", want acceptance"
	}
	for _, m := range want.Members() {
		fact, _ := got.Get(m.Key)
		if !fact.Equal(m.Value) {
			return m.Key + ": got " + string(fact.Canonical()) + ", want " + string(m.Value.Canonical())
		}
	}
	return ""
}
