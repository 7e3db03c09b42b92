package delivery_test

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// draft is a packet before it is sealed, so that it can be spoilt.
type draft struct {
	from    *kel.Identity
	to, id  string
	at      int64
	content packet.Content
	key     *suite.EncapsulationKey
	sealed  func(*packet.Packet)               // spoils the packet, the signature goes with it
	signed  func(*packet.Packet)               // spoils the packet behind its signature
	value   func(packet wire.Value) wire.Value // spoils its JSON
}

func (d *draft) seal(t *testing.T) wire.Value {
	t.Helper()
	p, err := packet.Seal(d.from, d.to, d.id, d.at, d.content.Value().Canonical(), d.key)
	if err != nil {
		t.Fatal(err)
	}
	if d.sealed != nil {
		d.sealed(p)
		p.Signature, err = d.from.Sign(kel.ActionPacket, d.at, packet.SignaturePayload(p.To, p.MessageID, p.Prekey, p.KEMCiphertext, p.Payload))
		if err != nil {
			t.Fatal(err)
		}
	}
	if d.signed != nil {
		d.signed(p)
	}
	v := p.Value()
	if d.value != nil {
		v = d.value(v)
	}
	return v
}

// garble spoils the ciphertext.
func garble(p *packet.Packet) {
	p.Payload = bytes.Clone(p.Payload)
	p.Payload[0] ^= 1
}

func unknownMember(v wire.Value) wire.Value { return v.With("x", wire.NewInt(1)) }

func parseKey(t *testing.T, public []byte) *suite.EncapsulationKey {
	t.Helper()
	key, err := suite.ParseEncapsulationKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// takeValue lets one entry through the pipeline.
func (e *endpoint) takeValue(v wire.Value) delivery.Result {
	e.t.Helper()
	_, told := e.receivePage([]delivery.Entry{{StreamID: "1-0", Packet: v}})
	return told[0]
}

// contentOf returns the content of a packet to the published prekey of e.
func (e *endpoint) contentOf(p *packet.Packet) *packet.Content {
	e.t.Helper()
	var content *packet.Content
	e.view(func(tx *store.Tx) error {
		own, err := delivery.LoadPublished(tx)
		if err != nil {
			return err
		}
		defer delivery.DestroyPublished(own)
		if p.Prekey != own.Current.ID {
			e.t.Fatal("the packet is not encrypted to the published prekey")
		}
		key := suite.NewDecapsulationKey(own.Current.Seed)
		defer key.Destroy()
		plaintext, err := p.Open(key)
		if err != nil {
			return err
		}
		content, err = packet.ParseContent(plaintext)
		return err
	})
	return content
}

// heldOf returns the public key of the peer prekey held of a peer, nil for none.
func (e *endpoint) heldOf(peer *endpoint) (key []byte) {
	e.t.Helper()
	e.view(func(tx *store.Tx) error {
		held, _, err := tx.HeldPrekey(peer.id.ACEID())
		key = held.PublicKey
		return err
	})
	return key
}

func (e *endpoint) seenEntries() (entries []store.Seen) {
	e.t.Helper()
	e.view(func(tx *store.Tx) (err error) {
		entries, err = tx.SeenEntries()
		return err
	})
	return entries
}

// stepFault is one thing that is wrong for a step of the pipeline.
type stepFault struct {
	name    string
	spoil   func(s *scene)
	outcome delivery.Outcome
	code    fault.Code
	opens   bool // step 6 has opened the packet before it is noticed
}

// scene is alice, who receives a governed message of bob, encrypted to the peer
// prekey that she offered him. Everything can be wrong with it at once.
type scene struct {
	t          *testing.T
	world      *world
	alice, bob *endpoint
	former     *kel.Identity // bob before his latest delegation
	draft      draft
}

func newScene(t *testing.T) *scene {
	w, alice, bob := traders(t)
	s := &scene{t: t, world: w, alice: alice, bob: bob, former: bob.id}
	w.now++
	message, _ := alice.set.Type(commerce.RFQ)
	s.draft = draft{
		from: bob.id, to: alice.id.ACEID(), id: suite.NewMessageID(), at: w.now,
		content: packet.Content{Type: message.Type, SchemaDigest: message.Digest, ThreadID: "t", Body: members("need", "x"), Prekey: newPrekey()},
		key:     parseKey(t, alice.slots(bob)[store.SlotOffered]),
	}
	return s
}

func (s *scene) seen() store.Seen {
	return store.Seen{Timestamp: s.draft.at, Peer: s.bob.id.ACEID(), MessageID: s.draft.id}
}

// delegate gives bob a new key, and reports false when he got one before.
func (s *scene) delegate() bool {
	if s.bob.id != s.former {
		return false
	}
	s.bob.delegate(s.former.State())
	return true
}

// stepFaults are in the order of the table of 06#receive-pipeline.
var stepFaults = []stepFault{
	{"1 decode", func(s *scene) { s.draft.value = unknownMember }, delivery.Dropped, fault.InvalidPacket, false},
	{"1 recipient", func(s *scene) { s.draft.to = wire.ACEID(packet.PrekeyID(nil)) }, delivery.Dropped, fault.WrongRecipient, false},
	{"2 blocked", func(s *scene) {
		s.alice.update(func(tx *store.Tx) error {
			return tx.SetContact(store.Contact{Peer: s.bob.id.ACEID(), State: string(admission.Blocked)})
		})
	}, delivery.Dropped, fault.NotPermitted, false},
	{"3 refresh for now impossible", func(s *scene) {
		if s.delegate() {
			s.draft.from = s.bob.id
			s.world.lookup = fault.New(fault.RelayUnavailable, "down")
		}
	}, delivery.Retry, fault.RelayUnavailable, false},
	{"4 superseded key", func(s *scene) {
		if !s.delegate() {
			return
		}
		s.bob.publish("")
		if _, err := s.alice.node.Lookup(s.t.Context(), s.bob.id.ACEID(), s.world.now); err != nil {
			s.t.Fatal(err)
		}
	}, delivery.Dropped, fault.StalePeerBinding, false},
	{"4 signature", func(s *scene) { s.draft.signed = forge }, delivery.Dropped, fault.InvalidSignature, false},
	{"5 window", func(s *scene) { s.draft.at = s.world.now + wire.TimestampWindowSeconds + 1 }, delivery.Dropped, fault.StaleTimestamp, false},
	{"6 prekey", func(s *scene) { s.draft.key = parseKey(s.t, newPrekey()) }, delivery.Rejected, fault.UnknownPrekey, false},
	{"6 ciphertext", func(s *scene) { s.draft.sealed = garble }, delivery.Dropped, fault.DecryptionFailed, false},
	{"7 digest", func(s *scene) { s.draft.content.SchemaDigest = packet.PrekeyID(nil) }, delivery.Rejected, fault.UnsupportedSchema, true},
	{"8 body", func(s *scene) { s.draft.content.Body = members("price", "1") }, delivery.Rejected, fault.InvalidBody, true},
	{"9 duplicate", func(s *scene) {
		s.alice.update(func(tx *store.Tx) error { return tx.AddSeen(s.seen()) })
	}, delivery.Duplicate, "", true},
	{"9 horizon", func(s *scene) {
		s.alice.update(func(tx *store.Tx) error { return tx.SetSeenHorizon(s.draft.at) })
	}, delivery.Dropped, fault.ReplayHorizon, true},
	{"10 busy", func(s *scene) {
		s.alice.update(func(tx *store.Tx) error {
			return tx.AddOutbox(store.OutboxEntry{
				MessageID: suite.NewMessageID(), Peer: s.bob.id.ACEID(), Type: commerce.RFQ, ThreadID: "t", State: store.Pending, Content: []byte("{}"),
			})
		})
	}, delivery.Rejected, fault.ThreadBusy, true},
	{"10 rule", func(s *scene) {
		s.alice.update(func(tx *store.Tx) error {
			first := profile.ThreadEntry{Type: commerce.RFQ, MessageID: suite.NewMessageID(), From: s.bob.id.ACEID()}
			return delivery.Threads(tx, profile.CommerceID, s.alice.id.ACEID()).Append(s.bob.id.ACEID(), "t", first, string(commerce.Requested), false)
		})
	}, delivery.Rejected, commerce.TransitionNotAllowed, true},
	{"10 capacity", func(s *scene) {
		s.alice.room = 1
		s.alice.replaceNet(&endpointNet{s.world, s.alice.id.ACEID()})
		s.alice.update(func(tx *store.Tx) error {
			return tx.AddMessage(store.Message{MessageID: suite.NewMessageID(), Peer: s.bob.id.ACEID(), Body: []byte("{}")})
		})
	}, delivery.Hold, fault.ReceiverCapacity, true},
	{"none", func(*scene) {}, delivery.Delivered, "", true},
}

// TestOrderOfSteps: the first failure decides (06#receive-pipeline). Each case is
// wrong for its step and for those behind it. What the disposition says is done,
// the prekey rules take effect exactly once the packet has opened, and nothing
// else is kept of a packet that was not delivered.
func TestOrderOfSteps(t *testing.T) {
	for i, c := range stepFaults {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			for _, wrong := range stepFaults[i:] {
				wrong.spoil(s)
			}
			s.check(t, c)
		})
	}
}

func (s *scene) check(t *testing.T, c stepFault) {
	t.Helper()
	v := s.draft.seal(t)
	offered, posted, seen := s.alice.slots(s.bob)[store.SlotOffered], len(s.world.posted), s.alice.seenEntries()
	_, before := s.alice.history(s.bob)
	got := s.alice.takeValue(v)
	if got.Outcome != c.outcome || got.Code != c.code {
		t.Fatalf("got %s %q, want %s %q", got.Outcome, got.Code, c.outcome, c.code)
	}
	s.checkReceipt(t, c, posted)
	delivered := c.outcome == delivery.Delivered
	_, after := s.alice.history(s.bob)
	if (got.Message != nil) != delivered || (len(after) > len(before)) != delivered || (len(s.alice.seenEntries()) > len(seen)) != delivered {
		t.Errorf("message %v, thread %v, seen %v", got.Message, after, s.alice.seenEntries())
	}
	if held := bytes.Equal(s.alice.heldOf(s.bob), s.draft.content.Prekey); held != c.opens {
		t.Errorf("the carried prekey is held: %t", held)
	}
	if used := bytes.Equal(s.alice.slots(s.bob)[store.SlotInUse], offered); used != c.opens {
		t.Errorf("the offered prekey is in use: %t", used)
	}
}

// checkReceipt expects the one receipt that the outcome calls for, if any.
func (s *scene) checkReceipt(t *testing.T, c stepFault, before int) {
	t.Helper()
	receipts := s.world.posted[before:]
	due := c.outcome == delivery.Delivered || c.outcome == delivery.Duplicate || c.outcome == delivery.Rejected
	if !due || len(receipts) != 1 {
		if due || len(receipts) > 0 {
			t.Errorf("%d packets posted", len(receipts))
		}
		return
	}
	body, err := delivery.DecodeReceipt(s.bob.contentOf(receipts[0]).Body)
	if err != nil {
		t.Fatal(err)
	}
	want := delivery.ReceiptBody{MessageID: s.draft.id, Outcome: delivery.OutcomeDelivered, Permit: body.Permit}
	if c.outcome == delivery.Rejected {
		want.Outcome, want.Code = delivery.OutcomeRejected, string(c.code)
	}
	if c.code == fault.UnknownPrekey {
		want.Prekey = packet.PrekeyID(s.draft.key.PublicKey())
	}
	if !body.Value().Equal(want.Value()) {
		t.Errorf("receipt %s, want %s", body.Value().Canonical(), want.Value().Canonical())
	}
}

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
			s.alice.update(func(tx *store.Tx) error { return tx.AddSeen(s.seen()) })
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
			s.alice.update(func(tx *store.Tx) error { return tx.AddSeen(s.seen()) })
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

// TestPinRefreshIsOnePerSender: within PIN_REFRESH_INTERVAL_SECONDS a second
// refresh for one sender is suppressed, and none for another
// (06#receive-pipeline step 3).
func TestPinRefreshIsOnePerSender(t *testing.T) {
	w, alice, bob := friends(t)
	carol := w.newEndpoint(t, "open", nil)
	befriend(carol, alice)
	w.now += 10
	for _, e := range []*endpoint{bob, carol} {
		e.delegate(e.id.State())
		e.open()
		e.publish("")
	}
	w.lookup = fault.New(fault.RelayUnavailable, "down")
	for _, c := range []struct {
		name  string
		from  *endpoint
		after int64
		asks  bool
	}{
		{"the first", bob, 0, true},
		{"another sender", carol, 0, true},
		{"a second too early", bob, wire.PinRefreshIntervalSeconds - 1, false},
		{"in time", bob, 1, true},
		{"the other again", carol, 0, true},
		{"at once", bob, 0, false},
	} {
		w.now += c.after
		asked := w.asked
		r := alice.take(sealTo(alice, c.from.id, profile.TextType, textBody("x"), w.now))
		if asks := w.asked > asked; asks != c.asks || r.Outcome != delivery.Retry && r.Outcome != delivery.Quarantined {
			t.Errorf("%s: asked a relay %t, %+v", c.name, asks, r)
		}
	}
}

// TestRefreshThatLeavesThePinBehind: when the relay serves the pinned log, still
// behind the packet's delegation, a text is dropped and a contact packet goes on
// as a candidate (06#receive-pipeline step 3).
func TestRefreshThatLeavesThePinBehind(t *testing.T) {
	w, alice, bob := behind(t)
	body := bob.requestBody(alice, profile.TextID, 600)
	w.lookup, w.agents[bob.id.ACEID()] = nil, formerAgent(t, alice, bob)
	if got := alice.take(sealTo(alice, bob.id, profile.TextType, textBody("x"), w.now)); got.Outcome != delivery.Dropped || got.Code != fault.NotPermitted {
		t.Errorf("a text: %+v", got)
	}
	w.now += wire.PinRefreshIntervalSeconds
	pin, asked := alice.pin(bob), w.asked
	if got := alice.take(sealTo(alice, bob.id, profile.ContactType, body, w.now)); got.Outcome != delivery.Delivered {
		t.Errorf("a contact packet: %+v", got)
	}
	if alice.pin(bob) == pin || w.asked == asked {
		t.Errorf("the pin moved: %t, after %d lookups", alice.pin(bob) != pin, w.asked-asked)
	}
}

// TestPrekeyOpensOnlyItsPeersPackets: a peer prekey opens packets of the peer it
// was offered to, to others it is unknown (06#receive-pipeline step 6).
func TestPrekeyOpensOnlyItsPeersPackets(t *testing.T) {
	w, alice, bob := friends(t)
	carol := w.newEndpoint(t, "open", nil)
	befriend(carol, alice)
	message, _ := alice.set.Type(profile.TextType)
	for _, c := range []struct {
		from    *endpoint
		outcome delivery.Outcome
		code    fault.Code
	}{{carol, delivery.Rejected, fault.UnknownPrekey}, {bob, delivery.Delivered, ""}} {
		d := draft{
			from: c.from.id, to: alice.id.ACEID(), id: suite.NewMessageID(), at: w.now, key: parseKey(t, alice.slots(bob)[store.SlotOffered]),
			content: packet.Content{Type: message.Type, SchemaDigest: message.Digest, Prekey: newPrekey(), Body: textBody("x")},
		}
		if got := alice.takeValue(d.seal(t)); got.Outcome != c.outcome || got.Code != c.code {
			t.Errorf("got %+v, want %s %q", got, c.outcome, c.code)
		}
	}
}

// TestSupersededPrekeyEnds: a published prekey opens packets until
// OFFLINE_WINDOW_SECONDS have passed since another took its place, and then is
// unknown although its seed is still there (06#receive-pipeline step 6).
func TestSupersededPrekeyEnds(t *testing.T) {
	for _, c := range []struct {
		after   int64
		outcome delivery.Outcome
		code    fault.Code
	}{{wire.OfflineWindowSeconds - 1, delivery.Delivered, ""}, {wire.OfflineWindowSeconds, delivery.Rejected, fault.UnknownPrekey}} {
		w, alice, bob := friends(t)
		p := sealTo(alice, bob.id, profile.TextType, textBody("x"), w.now)
		alice.publish("open")
		w.now += c.after
		bob.publish("")
		if got := alice.take(p); got.Outcome != c.outcome || got.Code != c.code {
			t.Errorf("after %d s: got %+v", c.after, got)
		}
	}
}

// TestMalformedContentAndItsPrekey: content that step 7 refuses has its prekey
// recorded, unless that is what is malformed; the key that opened it is in use
// either way (06#receive-pipeline, Peer prekeys).
func TestMalformedContentAndItsPrekey(t *testing.T) {
	for _, c := range []struct {
		name    string
		spoil   func(content wire.Value) wire.Value
		records bool
	}{
		{"unknown member", unknownMember, true},
		{"no prekey", func(v wire.Value) wire.Value { return v.Without("prekey") }, false},
		{"short prekey", func(v wire.Value) wire.Value {
			return v.With("prekey", wire.NewString(wire.EncodeBase64(make([]byte, wire.PrekeyBytes-1))))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, alice, bob := friends(t)
			message, _ := alice.set.Type(profile.TextType)
			content := packet.Content{Type: message.Type, SchemaDigest: message.Digest, Prekey: newPrekey(), Body: textBody("x")}
			offered := alice.slots(bob)[store.SlotOffered]
			p, err := packet.Seal(bob.id, alice.id.ACEID(), suite.NewMessageID(), w.now, c.spoil(content.Value()).Canonical(), parseKey(t, offered))
			if err != nil {
				t.Fatal(err)
			}
			if got := alice.take(p); got.Outcome != delivery.Rejected || got.Code != fault.InvalidBody {
				t.Errorf("got %+v", got)
			}
			if held := alice.heldOf(bob); c.records && !bytes.Equal(held, content.Prekey) || !c.records && held != nil {
				t.Errorf("held: %t", held != nil)
			}
			if !bytes.Equal(alice.slots(bob)[store.SlotInUse], offered) {
				t.Error("the key that opened it is not in use")
			}
		})
	}
}
