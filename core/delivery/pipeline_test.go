package delivery_test

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
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
		s.alice.update(func(tx *store.Tx) error { return addSeen(tx, s.seen()) })
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

// addSeen records a message without the bounds of the seen store.
func addSeen(tx *store.Tx, e store.Seen) error {
	state, err := tx.SeenState(e.Peer)
	if err != nil {
		return err
	}
	return tx.AddSeen(e, &state)
}
