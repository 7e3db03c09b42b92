package profile_test

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// FuzzManifest reads a manifest and matches a body with its schemas. What is
// accepted reads back from its canonical form as the same.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(manifest("example:p:1", "example:a:1")), []byte(`{}`))
	f.Fuzz(func(t *testing.T, text, body []byte) {
		m, err := profile.ParseManifest(text)
		if err != nil {
			if fault.CodeOf(err) != fault.InvalidArgument {
				t.Fatalf("code %q", fault.CodeOf(err))
			}
			return
		}
		again, err := profile.ParseManifest(m.Raw())
		if err != nil {
			t.Fatalf("refuses its own canonical form: %v", err)
		}
		if again.Digest != m.Digest || !bytes.Equal(again.Raw(), m.Raw()) {
			t.Fatal("the canonical form reads as another manifest")
		}
		v, err := wire.Parse(body, wire.MaxJSONDepth)
		if err != nil {
			return
		}
		for i, msg := range m.Messages {
			if (msg.Schema.Match(v) == nil) != (again.Messages[i].Schema.Match(v) == nil) {
				t.Fatal("two readings of one schema disagree")
			}
		}
	})
}
