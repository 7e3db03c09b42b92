package delivery_test

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestOrderOfCandidateSteps: a stranger's request runs 1, 2, 5, 6, 7, 8, then its
// sender is authenticated, then 9 and 10 (06#receive-pipeline, Contact
// candidates). Each case is wrong for its step and for those behind it; every
// failure is drop, and nothing is pinned or looked up.
func TestOrderOfCandidateSteps(t *testing.T) {
	faults := []stepFault{
		{"5 window", func(s *scene) { s.draft.at = s.world.now + wire.TimestampWindowSeconds + 1 }, delivery.Dropped, fault.StaleTimestamp, false},
		{"6 prekey", func(s *scene) { s.draft.key = parseKey(s.t, newPrekey()) }, delivery.Dropped, fault.UnknownPrekey, false},
		{"6 ciphertext", func(s *scene) { s.draft.sealed = garble }, delivery.Dropped, fault.DecryptionFailed, false},
		{"7 digest", func(s *scene) { s.draft.content.SchemaDigest = packet.PrekeyID(nil) }, delivery.Dropped, fault.UnsupportedSchema, false},
		{"8 body", func(s *scene) { s.draft.content.Body = s.draft.content.Body.Without("note") }, delivery.Dropped, fault.InvalidBody, false},
		{"kind", func(s *scene) {
			s.draft.content.Body = s.draft.content.Body.With("kind", wire.NewString(admission.Accepted))
		}, delivery.Dropped, fault.NotPermitted, false},
		{"source", func(s *scene) {
			s.draft.content.Body = s.draft.content.Body.With("source", s.world.agents[s.alice.id.ACEID()])
		}, delivery.Dropped, fault.InvalidAuthorization, false},
		{"signature", func(s *scene) { s.draft.signed = forge }, delivery.Dropped, fault.InvalidSignature, false},
		{"permit", func(s *scene) {
			s.draft.content.Body = s.draft.content.Body.With("permit", newPermit(s.t, s.alice.id, s.bob.id.ACEID(), s.world.now).Value())
		}, delivery.Dropped, fault.InvalidAuthorization, false},
		{"9 duplicate", func(s *scene) {
			s.alice.update(func(tx *store.Tx) error { return addSeen(tx, s.seen()) })
		}, delivery.Duplicate, "", false},
		{"9 horizon", func(s *scene) {
			s.alice.update(func(tx *store.Tx) error { return tx.SetSeenHorizon(s.draft.at) })
		}, delivery.Dropped, fault.ReplayHorizon, false},
		{"none", func(*scene) {}, delivery.Delivered, "", false},
	}
	for i, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			s := &scene{t: t, world: w, alice: w.newEndpoint(t, "open", nil), bob: w.newIdentity(t)}
			s.bob.open()
			s.bob.publish("")
			message, _ := s.alice.set.Type(profile.ContactType)
			s.draft = draft{
				from: s.bob.id, to: s.alice.id.ACEID(), id: suite.NewMessageID(), at: w.now, key: s.alice.publishedKey(),
				content: packet.Content{
					Type: message.Type, SchemaDigest: message.Digest, Prekey: newPrekey(), Body: s.bob.requestBody(s.alice, profile.TextID, 600),
				},
			}
			for _, wrong := range faults[i:] {
				wrong.spoil(s)
			}
			got := s.alice.takeValue(s.draft.seal(t))
			if got.Outcome != c.outcome || got.Code != c.code {
				t.Fatalf("got %s %q, want %s %q", got.Outcome, got.Code, c.outcome, c.code)
			}
			if len(w.posted) > 0 || w.asked > 0 || s.alice.pin(s.bob) != "" || s.alice.heldOf(s.bob) != nil {
				t.Errorf("%d packets posted, %d lookups, or a pin or prekey is kept", len(w.posted), w.asked)
			}
			if held := s.alice.held(s.bob); held != (c.outcome == delivery.Delivered) {
				t.Errorf("the request is held: %t", held)
			}
		})
	}
}

// behind is alice, who holds bob as admitted under a key that he has replaced,
// and whose refresh fails for good.
func behind(t *testing.T) (w *world, alice, bob *endpoint) {
	w, alice, bob = friends(t)
	w.now += 10
	bob.delegate(bob.id.State())
	bob.open()
	bob.publish("")
	w.lookup = fault.New(fault.UnknownPeer, "unknown")
	return w, alice, bob
}

// TestContactOfAPeerBehindItsPin: a contact packet of any kind can bring a pin up
// that step 3 could not, through its source alone and only once it has passed
// step 9 and the checks of step 10; other packets are dropped
// (06#receive-pipeline, Contact candidates).
func TestContactOfAPeerBehindItsPin(t *testing.T) {
	contact := func(s *scene, kind string) {
		body := s.bob.requestBody(s.alice, profile.TextID, 600).With("kind", wire.NewString(kind))
		message, _ := s.alice.set.Type(profile.ContactType)
		s.draft.content = packet.Content{Type: message.Type, SchemaDigest: message.Digest, Prekey: newPrekey(), Body: body}
	}
	for _, c := range []struct {
		name    string
		spoil   func(s *scene)
		outcome delivery.Outcome
		code    fault.Code
		moves   bool
	}{
		{"a request", func(*scene) {}, delivery.Delivered, "", true},
		{"an acceptance", func(s *scene) { contact(s, admission.Accepted) }, delivery.Delivered, "", true},
		{"a duplicate", func(s *scene) {
			s.alice.update(func(tx *store.Tx) error { return addSeen(tx, s.seen()) })
		}, delivery.Duplicate, "", false},
		{"beyond the horizon", func(s *scene) {
			s.alice.update(func(tx *store.Tx) error { return tx.SetSeenHorizon(s.draft.at) })
		}, delivery.Dropped, fault.ReplayHorizon, false},
		{"a profile that is not shared", func(s *scene) {
			s.draft.content.Body = s.draft.content.Body.With("profile", wire.NewString(profile.DelegationID))
		}, delivery.Dropped, fault.InvalidBody, false},
		{"a permit of another", func(s *scene) {
			s.draft.content.Body = s.draft.content.Body.With("permit", newPermit(s.t, s.alice.id, s.bob.id.ACEID(), s.world.now).Value())
		}, delivery.Dropped, fault.InvalidAuthorization, false},
		{"a source of the former key", func(s *scene) {
			s.draft.content.Body = s.draft.content.Body.With("source", s.world.agents["former"])
		}, delivery.Dropped, fault.StalePeerBinding, false},
		{"a forged one", func(s *scene) { s.draft.signed = forge }, delivery.Dropped, fault.InvalidSignature, false},
		{"a text", func(s *scene) {
			message, _ := s.alice.set.Type(profile.TextType)
			s.draft.content = packet.Content{Type: message.Type, SchemaDigest: message.Digest, Prekey: newPrekey(), Body: textBody("x")}
		}, delivery.Dropped, fault.NotPermitted, false},
		{"an unknown prekey", func(s *scene) { s.draft.key = parseKey(s.t, newPrekey()) }, delivery.Dropped, fault.UnknownPrekey, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, alice, bob := behind(t)
			s := &scene{t: t, world: w, alice: alice, bob: bob}
			s.draft = draft{from: bob.id, to: alice.id.ACEID(), id: suite.NewMessageID(), at: w.now, key: alice.publishedKey()}
			w.agents["former"] = formerAgent(t, alice, bob)
			contact(s, admission.Request)
			c.spoil(s)
			pin := alice.pin(bob)
			got := alice.takeValue(s.draft.seal(t))
			if got.Outcome != c.outcome || got.Code != c.code {
				t.Fatalf("got %s %q, want %s %q", got.Outcome, got.Code, c.outcome, c.code)
			}
			if moved := alice.pin(bob) != pin; moved != c.moves {
				t.Errorf("the pin moved: %t", moved)
			}
			if alice.heldOf(bob) != nil {
				t.Error("the prekey of a sender that no pin authenticated is held")
			}
			alice.wantState(bob, string(admission.Admitted))
		})
	}
}

// formerAgent is the descriptor that alice keeps of bob.
func formerAgent(t *testing.T, alice, bob *endpoint) (v wire.Value) {
	t.Helper()
	alice.view(func(tx *store.Tx) error {
		raw, err := tx.Descriptor(bob.id.ACEID())
		if err != nil {
			return err
		}
		a, err := descriptor.DecodeStored(raw)
		if err == nil {
			v = a.Value()
		}
		return err
	})
	return v
}

// TestSourceBehindThePin: a source that a superseded key has signed is no source,
// although the packet is signed by the key that the pin names
// (06#receive-pipeline, Contact candidates: the pin rules of 01#pinning).
func TestSourceBehindThePin(t *testing.T) {
	w, alice, bob := behind(t)
	w.lookup = nil
	former := formerAgent(t, alice, bob)
	if _, err := alice.node.Lookup(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	body := bob.requestBody(alice, profile.TextID, 600)
	if got := alice.take(sealTo(alice, bob.id, profile.ContactType, body.With("source", former), w.now)); got.Outcome != delivery.Dropped || got.Code != fault.InvalidAuthorization {
		t.Errorf("the former source: %+v", got)
	}
	if got := alice.take(sealTo(alice, bob.id, profile.ContactType, body, w.now)); got.Outcome != delivery.Delivered {
		t.Errorf("the new one: %+v", got)
	}
}

// TestContactOfAPeerWithoutAPin: a pending peer whose log is not pinned is
// authenticated from its source too, without a lookup (06#receive-pipeline,
// Contact candidates).
func TestContactOfAPeerWithoutAPin(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "", nil), w.newEndpoint(t, "", nil)
	alice.update(func(tx *store.Tx) error {
		return tx.SetContact(store.Contact{Peer: bob.id.ACEID(), State: string(admission.Pending), Profile: profile.TextID, Since: w.now, ExpiresAt: w.now + 60})
	})
	body := bob.requestBody(alice, profile.TextID, 600).With("kind", wire.NewString(admission.Accepted))
	if got := alice.take(sealTo(alice, bob.id, profile.ContactType, body, w.now)); got.Outcome != delivery.Delivered {
		t.Fatalf("got %+v", got)
	}
	alice.wantState(bob, string(admission.Admitted))
	if alice.pin(bob) == "" || w.asked > 0 {
		t.Errorf("pinned %t after %d lookups", alice.pin(bob) != "", w.asked)
	}
}

// TestCandidateMovesTheIssuerOn: the issuer rule of peer prekeys holds for a
// packet that opened, also when its sender is not authenticated
// (06#receive-pipeline, Peer prekeys).
func TestCandidateMovesTheIssuerOn(t *testing.T) {
	w, alice, bob := behind(t)
	message, _ := alice.set.Type(profile.TextType)
	offered := alice.slots(bob)[store.SlotOffered]
	d := draft{
		from: bob.id, to: alice.id.ACEID(), id: suite.NewMessageID(), at: w.now, key: parseKey(t, offered),
		content: packet.Content{Type: message.Type, SchemaDigest: message.Digest, Prekey: newPrekey(), Body: textBody("x")},
	}
	if got := alice.takeValue(d.seal(t)); got.Outcome != delivery.Dropped || got.Code != fault.NotPermitted {
		t.Errorf("got %+v", got)
	}
	if !bytes.Equal(alice.slots(bob)[store.SlotInUse], offered) || alice.heldOf(bob) != nil {
		t.Error("the offered key is not in use, or the one it carried is held")
	}
}

// TestRequestIsTakenOnce: a contact packet that comes again is a duplicate, which
// is answered no second time (06#receive-pipeline step 9).
func TestRequestIsTakenOnce(t *testing.T) {
	w := newWorld()
	text := profile.OfficialByID(profile.TextID)
	alice, bob := w.newEndpoint(t, "open", map[string]string{text.ID: text.Digest}), w.newEndpoint(t, "", nil)
	request := bob.request(alice, profile.TextID, 600)
	for _, c := range []struct {
		outcome delivery.Outcome
		posted  int
	}{{delivery.Delivered, 1}, {delivery.Duplicate, 1}} {
		if got := alice.take(request); got.Outcome != c.outcome || len(w.posted) != c.posted {
			t.Errorf("got %+v, %d packets posted", got, len(w.posted))
		}
	}
}
