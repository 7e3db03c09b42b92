package profile_test

import (
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// governs is a rule that lets everything pass.
type governs []string

func (g governs) Types() []string { return g }
func (governs) Check(profile.State, profile.Event, wire.Value) error {
	return nil
}
func (governs) Commit(profile.State, profile.Event, wire.Value) error { return nil }

func TestGovern(t *testing.T) {
	s := profile.NewSet()
	if err := s.Install(parse(t, manifest("example:p:1", "example:a:1", "example:b:1", "example:c:1"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Govern(governs{"example:a:1"}); err != nil {
		t.Fatal(err)
	}
	for name, rule := range map[string]governs{
		"a type that is not installed": {"example:b:1", "example:z:1"},
		"a type of another rule":       {"example:b:1", "example:a:1"},
		// A receipt or contact packet is never governed, whatever its threadId.
		"receipts": {"example:b:1", profile.ReceiptType},
		"contacts": {"example:b:1", profile.ContactType},
	} {
		if err := s.Govern(rule); fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := s.Rule("example:b:1"); ok {
			t.Fatalf("%s: a refused rule governs", name)
		}
	}
	if err := s.Govern(governs{"example:b:1"}); err != nil {
		t.Fatal(err)
	}
	if got := s.Governed(); !slices.Equal(got, []string{"example:a:1", "example:b:1"}) {
		t.Errorf("governed: %q", got)
	}
	for name, want := range map[string]bool{"example:a:1": true, "example:b:1": true, "example:c:1": false, profile.ReceiptType: false} {
		if _, ok := s.Rule(name); ok != want {
			t.Errorf("%s is governed: %v", name, ok)
		}
	}
}
