package delivery_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// sealUnder seals a text message of an endpoint to another one's key.
func (e *endpoint) sealUnder(publicKey []byte, to *endpoint) *packet.Packet {
	e.t.Helper()
	key, err := suite.ParseEncapsulationKey(publicKey)
	if err != nil {
		e.t.Fatal(err)
	}
	text, _ := e.set.Type(profile.TextType)
	c := packet.Content{Type: profile.TextType, SchemaDigest: text.Digest, Body: textBody("x"), Prekey: newPrekey()}
	plaintext, err := c.Canonical()
	if err != nil {
		e.t.Fatal(err)
	}
	p, err := packet.Seal(e.id, to.id.ACEID(), suite.NewMessageID(), e.world.now, plaintext, key)
	if err != nil {
		e.t.Fatal(err)
	}
	return p
}

// keys returns the prekeys that an endpoint keeps for a peer, "" for the
// published ones.
func (e *endpoint) keys(peer string) (keys []store.Prekey) {
	e.t.Helper()
	e.view(func(tx *store.Tx) (err error) {
		keys, err = tx.PublicPrekeys(peer)
		return err
	})
	return keys
}

// A superseded prekey opens for as long as it is retained and not a second more,
// although its seed is still there (04#prekey).
func TestEndedPrekeyOpensNothing(t *testing.T) {
	w, alice, bob := friends(t)
	old := alice.keys("")[0].PublicKey
	alice.publish("open") // supersedes it
	superseded := w.now
	w.now = superseded + wire.OfflineWindowSeconds - 1
	if r := alice.take(bob.sealUnder(old, alice)); r.Outcome != delivery.Delivered {
		t.Errorf("in the last second: %+v", r)
	}
	w.now++
	if len(alice.keys("")) != 2 {
		t.Fatal("the seed is gone: the test does not look")
	}
	if r := alice.take(bob.sealUnder(old, alice)); r.Outcome != delivery.Rejected || r.Code != fault.UnknownPrekey {
		t.Errorf("at the end of its retention: %+v", r)
	}
}

// A peer prekey opens only packets of the peer that it was offered to
// (04#peer-prekeys).
func TestPeerPrekeyOfAnotherPeer(t *testing.T) {
	w, alice, bob := friends(t)
	carl := w.newEndpoint(t, "", nil)
	befriend(carl, alice)
	offered := alice.keys(bob.id.ACEID())
	if len(offered) != 1 {
		t.Fatalf("%d keys are offered to bob", len(offered))
	}
	if r := alice.take(carl.sealUnder(offered[0].PublicKey, alice)); r.Outcome != delivery.Rejected || r.Code != fault.UnknownPrekey {
		t.Errorf("a packet of carl: %+v", r)
	}
	if got := alice.keys(bob.id.ACEID()); len(got) != 1 || got[0].Slot != store.SlotOffered {
		t.Errorf("carl's packet changed bob's keys: %+v", got)
	}
	if r := alice.take(bob.sealUnder(offered[0].PublicKey, alice)); r.Outcome != delivery.Delivered {
		t.Errorf("a packet of bob: %+v", r)
	}
}

// A permit that the issuer signed with a key it has replaced is presented to no
// relay, neither with a message nor with a receipt (04#caching).
func TestPermitOfASupersededKeyIsNotPresented(t *testing.T) {
	w, alice, bob := friends(t)
	waiting := bob.enqueue(alice, "x")
	w.now++
	alice.delegate(alice.id.State())
	alice.open()
	alice.publish("open")
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	posted := len(w.posted)
	if _, err := bob.node.Attempt(t.Context(), waiting.MessageID, w.now); !errors.Is(err, fault.NotPermitted) || len(w.posted) != posted {
		t.Errorf("attempt: %v, %d packets posted", err, len(w.posted)-posted)
	}
	bob.take(sealTo(bob, alice.id, profile.TextType, textBody("x"), w.now))
	if len(w.posted) != posted+1 || w.permit[posted] != nil {
		t.Errorf("%d receipts, with the permit %s", len(w.posted)-posted, w.permit[posted:])
	}
}

// asking notes which relays an endpoint asks for a descriptor.
type asking struct {
	endpointNet
	relays []string
}

func (n *asking) Lookup(ctx context.Context, relay, id string) (wire.Value, error) {
	n.relays = append(n.relays, relay)
	return n.endpointNet.Lookup(ctx, relay, id)
}

// A stale descriptor is refreshed at its own relays, in listed order, and at the
// home relay. One that has only expired is also asked for at the home of the
// card record, one of a superseded key is not (04#caching).
func TestLookupsOfAStaleDescriptor(t *testing.T) {
	w := newWorld()
	alice, bob := w.newIdentity(t), w.newEndpoint(t, "", nil)
	net := &asking{endpointNet: endpointNet{w, bob.id.ACEID()}}
	node, err := delivery.New(t.Context(), delivery.Config{Identity: bob.id, Store: bob.store, Profiles: bob.set, Home: relay, Net: net}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	id := alice.id.ACEID()
	const first, second, home = "https://first.example", "https://second.example", "https://home.example"
	agent, err := descriptor.Build(alice.id, descriptor.Fields{
		ExpiresAt: w.now + 60, Relays: []string{first, second}, Prekey: newPrekey(),
	}, w.now, -1, descriptor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	card, err := descriptor.BuildCard(alice.id, descriptor.CardRecord{Home: home, Contact: "open"}, w.now, -1, descriptor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lookup := func(state string, want ...string) {
		t.Helper()
		net.relays = nil
		_, served := w.agents[id]
		if _, err := node.Lookup(t.Context(), id, w.now); (err == nil) != served {
			t.Errorf("%s, served %v: %v", state, served, err)
		}
		if !slices.Equal(net.relays, want) {
			t.Errorf("%s: asked %q, want %q", state, net.relays, want)
		}
	}
	lookup("unknown", relay)
	if _, err := node.AdoptCard(t.Context(), id, card.Value(), w.now); err != nil {
		t.Fatal(err)
	}
	lookup("with a card", home, relay)
	w.agents[id] = agent.Value()
	lookup("served", home)
	delete(w.agents, id)
	w.now += 60
	lookup("expired", first, second, home, relay)
	alice.delegate(alice.id.State())
	bob.update(func(tx *store.Tx) error {
		return tx.SetPin(id, store.Pin{KEL: alice.id.State().Raw(), FetchedAt: w.now})
	})
	lookup("of a superseded key", first, second, relay)
}
