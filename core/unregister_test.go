package core_test

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
)

// An unregistered identity is found by nobody and comes back with the next
// publication, whose timestamp has to be after the barrier (07#registration),
// also within the same second.
func TestUnregisterAndBack(t *testing.T) {
	r := newRelay(t)
	a, b := newAgent(t, r, descriptor.CardRecord{}), newAgent(t, r, descriptor.CardRecord{})
	ctx := t.Context()
	if _, err := b.PinnedLog(ctx, a.ACEID()); !errors.Is(err, fault.UnknownPeer) {
		t.Errorf("before any lookup: %v", err)
	}
	for range 3 {
		if _, err := a.Publish(ctx, core.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Lookup(ctx, a.ACEID()); err != nil {
			t.Fatal(err)
		}
		if known, err := a.Unregister(ctx); err != nil || !known {
			t.Fatalf("Unregister: %v, %v", known, err)
		}
		if s, err := a.Status(ctx, core.StatusOptions{}); err != nil || s.Registered || s.DescriptorExpires != 0 {
			t.Errorf("status: %+v, %v", s, err)
		}
		if _, err := b.Lookup(ctx, a.ACEID()); !errors.Is(err, fault.UnknownPeer) {
			t.Errorf("lookup: %v", err)
		}
		if known, err := a.Unregister(ctx); err != nil || known {
			t.Errorf("twice: %v, %v", known, err)
		}
	}
	pin, err := b.PinnedLog(ctx, a.ACEID())
	if err != nil || pin.LastHash() != a.config.Identity.State().LastHash() {
		t.Errorf("pin: %v", err)
	}
}

// The simulation unregistered an identity whose new signing key its relay had not
// seen: the relay refused that as future_seq.
func TestUnregisterWithANewKey(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, descriptor.CardRecord{})
	a.publish(false)
	a.delegate(r)
	if known, err := a.Unregister(t.Context()); err != nil || !known {
		t.Errorf("Unregister: %v, %v", known, err)
	}
}
