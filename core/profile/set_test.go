package profile_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
)

func TestSetHoldsCore(t *testing.T) {
	s := profile.NewSet()
	if all := s.Manifests(); len(all) != 1 || all[0].ID != profile.CoreID {
		t.Fatalf("a new set holds %v", all)
	}
	if _, ok := s.Type(profile.ReceiptType); !ok {
		t.Error("no receipt type")
	}
	if _, ok := s.Profile(profile.TextID); ok {
		t.Error("text is installed by itself")
	}
}

func TestInstall(t *testing.T) {
	s := profile.NewSet()
	first := parse(t, manifest("example:p:1", "example:a:1"))
	for _, m := range []*profile.Manifest{first, parse(t, manifest("example:p:1", "example:b:1")), profile.Official()[1]} {
		if err := s.Install(m); err != nil {
			t.Fatal(err)
		}
	}
	if m, ok := s.Profile("example:p:1"); !ok || m != first {
		t.Error("Profile does not return the manifest installed first")
	}
	// 08#installation-and-announcement: a type is defined once.
	for name, m := range map[string]*profile.Manifest{
		"the same again":   first,
		"one of two types": parse(t, manifest("example:q:1", "example:c:1", "example:b:1")),
		"core again":       profile.Official()[0],
	} {
		if err := s.Install(m); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: error %v, want invalid_argument", name, err)
		}
	}
	if _, ok := s.Type("example:c:1"); ok {
		t.Error("a refused manifest was installed in part")
	}
	if n := len(s.Manifests()); n != 4 {
		t.Errorf("%d manifests, want 4", n)
	}
}

func TestInstalled(t *testing.T) {
	s := profile.NewSet()
	m := parse(t, manifest("example:p:1", "example:a:1"))
	if err := s.Install(m); err != nil {
		t.Fatal(err)
	}
	msg := m.Messages[0]
	if got, ok := s.Installed(msg.Type, msg.Digest); !ok || got != msg {
		t.Error("an installed type is not found by type and digest")
	}
	if _, ok := s.Installed(msg.Type, m.Digest); ok {
		t.Error("found under another digest")
	}
	if _, ok := s.Installed("example:b:1", msg.Digest); ok {
		t.Error("found under another type")
	}
}
