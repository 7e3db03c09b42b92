package interop

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestSkippedVectors says what happens to the cases that TestVectors leaves
// out, so that the lists of them cannot outlive their reasons.
func TestSkippedVectors(t *testing.T) {
	want := map[string]string{}
	for name := range openEitherWay {
		want[name] = "" // this X25519 refuses nothing
	}
	for name := range signedWithGivenRandomness {
		want[name] = `"cannot_evaluate"`
	}
	for name := range want {
		kind, _, _ := strings.Cut(name, ": ")
		doc := loadVectors(t, filepath.Join(vectorDir, kind+".json"))
		found := false
		for _, c := range doc.member(t, "cases").Items() {
			v := vector{c}
			if s, _ := v.member(t, "name").AsString(); kind+": "+s != name {
				continue
			}
			found = true
			answer := Evaluate(kind, expand(t, v.member(t, "input"), doc), doc.member(t, "now"))
			got := ""
			if e, failed := answer.Get("error"); failed {
				got = string(e.Canonical())
			}
			if got != want[name] {
				t.Errorf("%s: error %s, want %s", name, got, want[name])
			}
		}
		if !found {
			t.Errorf("%s: no such case", name)
		}
	}
}
