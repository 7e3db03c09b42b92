package delivery_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// A peer whose signing key has ended is sent nothing, however long its
// descriptor is still valid (01#verifier-rules rule 5).
func TestUnusablePeer(t *testing.T) {
	w := newWorld()
	alice, bob := w.newIdentity(t), w.newEndpoint(t, "", nil)
	w.now++
	alice.delegateUntil(alice.id.State(), w.now+100)
	alice.open()
	alice.publish("open")
	request := delivery.ContactRequest{To: alice.id.ACEID(), Profile: profile.TextID, Home: relay}
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	w.now += 100
	if _, err := bob.node.SendRequest(t.Context(), request, w.now); !errors.Is(err, fault.InvalidKEL) || len(w.posted) != 0 {
		t.Errorf("at notAfter: %v, %d packets", err, len(w.posted))
	}
	bob.wantState(alice, "")
	w.now--
	if _, err := bob.node.SendRequest(t.Context(), request, w.now); err != nil || len(w.posted) != 1 {
		t.Errorf("in the last second: %v, %d packets", err, len(w.posted))
	}
}

// A pin stays when the descriptor under it has expired and none can be had, and a
// log cut short takes no event away from it (01#pinning).
func TestPinOutlivesItsDescriptor(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	short := alice.id.State().Value()
	w.now++
	alice.delegate(alice.id.State())
	alice.open()
	alice.publish("open")
	lookup := func() error {
		_, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now)
		return err
	}
	if err := lookup(); err != nil {
		t.Fatal(err)
	}
	pin := bob.storedPin(alice)
	if !bytes.Equal(pin.KEL, alice.id.State().Raw()) || pin.FetchedAt != w.now {
		t.Fatal("the log that was looked up is not pinned")
	}
	// Not a newer descriptor: one that the pin would judge alike.
	w.now++
	w.agents[alice.id.ACEID()] = w.agents[alice.id.ACEID()].With("kel", short)
	if err := lookup(); err != nil {
		t.Fatal(err)
	}
	if got := bob.storedPin(alice); !bytes.Equal(got.KEL, pin.KEL) || got.FetchedAt != w.now {
		t.Error("a prefix of the pinned log does more than to refresh its time")
	}
	w.now += 86400
	w.lookup = fault.New(fault.RelayUnavailable, "down")
	asked := w.asked
	_, err := bob.node.SendRequest(t.Context(), delivery.ContactRequest{To: alice.id.ACEID(), Profile: profile.TextID, Home: relay}, w.now)
	if !errors.Is(err, fault.RelayUnavailable) || w.asked == asked {
		t.Errorf("an expired descriptor is not refreshed: %v", err)
	}
	if _, err := bob.node.Prune(t.Context(), w.now+100*wire.OfflineWindowSeconds); err != nil {
		t.Fatal(err)
	}
	if got := bob.storedPin(alice); !bytes.Equal(got.KEL, pin.KEL) {
		t.Error("the pin is gone or has lost events")
	}
}

func (e *endpoint) storedPin(of *endpoint) (pin store.Pin) {
	e.t.Helper()
	e.view(func(tx *store.Tx) (err error) {
		pin, _, err = tx.Pin(of.id.ACEID())
		return err
	})
	return pin
}

// A log that forks from the pinned one is kel_conflict wherever it comes from,
// and changes neither the pin nor what is kept under it (01#pinning).
func TestForkChangesNothing(t *testing.T) {
	w := newWorld()
	alice, bob := w.newIdentity(t), w.newEndpoint(t, "", nil)
	inception, err := kel.Verify(wire.NewArray(alice.id.State().Value().Items()[0]), w.now)
	if err != nil {
		t.Fatal(err)
	}
	thief := *alice
	thief.path += ".thief"
	alice.open()
	alice.publish("open")
	befriend(bob, alice)
	w.now++
	thief.delegate(inception)
	thief.open()
	thief.publish("open")

	kept := func() []byte {
		var b bytes.Buffer
		bob.view(func(tx *store.Tx) error {
			raw, err := tx.Descriptor(alice.id.ACEID())
			b.Write(raw)
			return err
		})
		b.Write(bob.storedPin(alice).KEL)
		b.Write(bob.permit(alice, store.PermitHeld).Raw)
		return b.Bytes()
	}
	before := kept()
	forked := w.agents[alice.id.ACEID()]
	agent, err := descriptor.DecodeStored(forked.Canonical())
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]func() error{
		"looked up": func() error {
			_, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now)
			return err
		},
		"card": func() error {
			_, err := bob.node.AdoptCard(t.Context(), alice.id.ACEID(), thief.card(descriptor.CardRecord{}, w.now), w.now)
			return err
		},
		"invitee": func() error {
			_, err := bob.node.Invite(t.Context(), alice.id.ACEID(), forked, 60, w.now)
			return err
		},
		"invitation": func() error {
			i := admission.NewInvitation(agent, newPermit(t, thief.id, bob.id.ACEID(), w.now))
			_, err := bob.node.Import(t.Context(), i, w.now)
			return err
		},
	} {
		if err := do(); !errors.Is(err, fault.KELConflict) {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(kept(), before) {
			t.Errorf("%s: what is kept has changed", name)
		}
	}
}

// A stored pin is verified again whenever it is loaded (01#pinning).
func TestCorruptPin(t *testing.T) {
	for _, c := range []struct {
		name string
		log  func(alice, bob *endpoint) []byte
	}{
		{"the log of another", func(_, bob *endpoint) []byte { return bob.id.State().Raw() }},
		{"no JSON", func(alice, _ *endpoint) []byte { return alice.id.State().Raw()[1:] }},
		{"no events", func(*endpoint, *endpoint) []byte { return []byte("[]") }},
		{"an event from the future", func(alice, _ *endpoint) []byte {
			alice.world.now += wire.TimestampWindowSeconds + 1
			alice.delegate(alice.id.State())
			alice.world.now -= wire.TimestampWindowSeconds + 1
			return alice.id.State().Raw()
		}},
		{"signatures exchanged", func(alice, _ *endpoint) []byte {
			events := alice.id.State().Value().Items()
			sig, _ := events[1].Get("sig")
			return wire.NewArray(events[0].With("sig", sig), events[1]).Canonical()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, alice, bob := friends(t)
			bob.update(func(tx *store.Tx) error {
				return tx.SetPin(alice.id.ACEID(), store.Pin{KEL: c.log(alice, bob), FetchedAt: w.now})
			})
			_, err := bob.node.Enqueue(t.Context(), delivery.Message{To: alice.id.ACEID(), Type: profile.TextType, Body: textBody("x")}, w.now)
			if !errors.Is(err, fault.StorageFailed) {
				t.Errorf("Enqueue: %v", err)
			}
		})
	}
}
