package core_test

import (
	"errors"
	"strings"
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

// What the owner has taken from the relay comes back with the owner's word only:
// upkeep, listening, pulling, connecting and blocking register nothing.
func TestUnregisteredStaysSo(t *testing.T) {
	r := newRelay(t)
	alice, bob, carol := newAgent(t, r, descriptor.CardRecord{}), newAgent(t, r, open()), newAgent(t, r, open())
	carol.publish(false)
	befriend(alice, bob)
	ctx := t.Context()
	if _, err := alice.Unregister(ctx); err != nil {
		t.Fatal(err)
	}
	alice.reopen(func(*core.Config) {})
	for name, do := range map[string]func() error{
		"publish unasked": func() error {
			_, err := alice.Publish(ctx, core.PublishOptions{Unasked: true})
			return err
		},
		"pull":    func() error { _, err := alice.Pull(ctx, 0, nil); return err },
		"listen":  func() error { return alice.Listen(ctx, func(core.Event) {}) },
		"connect": func() error { _, err := alice.Connect(ctx, carol.ACEID(), "ace:text:1", ""); return err },
		"block":   func() error { _, err := alice.Block(ctx, newAgent(t, r, open()).ACEID()); return err },
	} {
		if err := do(); !errors.Is(err, core.ErrWithdrawn) || !errors.Is(err, fault.NotRegistered) {
			t.Errorf("%s: %v", name, err)
		}
	}
	alice.delegate(r)
	if report := alice.healthy(); !report.Withdrawn || report.Published.Registered != "" || report.Published.Descriptor {
		t.Errorf("upkeep did %+v", report)
	}
	if _, err := bob.Lookup(ctx, alice.ACEID()); !errors.Is(err, fault.UnknownPeer) {
		t.Errorf("lookup: %v", err)
	}
	s, err := alice.Status(ctx, core.StatusOptions{})
	if warned := strings.Join(s.Warnings, "\n"); err != nil || s.Registered || !strings.Contains(warned, "unregistered") || !strings.Contains(warned, "not confirmed 1 of") {
		t.Errorf("status: %+v, %v", s, err)
	}
	alice.publish(false)
	if report := alice.healthy(); report.Withdrawn || report.Blocks != 1 {
		t.Errorf("upkeep after a publication did %+v", report)
	}
	if _, err := bob.Lookup(ctx, alice.ACEID()); err != nil {
		t.Errorf("lookup: %v", err)
	}
}

// A relay that cannot be asked has forgotten nothing: the identity is registered
// as before.
func TestUnregisterAtARelayThatIsAway(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, descriptor.CardRecord{})
	a.publish(false)
	a.reopen(func(c *core.Config) { c.Transport = &refusing{path: "/v1/unregister", times: 1} })
	if _, err := a.Unregister(t.Context()); !errors.Is(err, fault.RelayUnavailable) {
		t.Fatalf("unregister: %v", err)
	}
	if withdrawn, err := a.Withdrawn(t.Context()); err != nil || withdrawn {
		t.Errorf("withdrawn: %v, %v", withdrawn, err)
	}
	a.healthy()
}
