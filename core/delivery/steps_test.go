package delivery_test

import (
	"bytes"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

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
