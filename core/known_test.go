package core_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// What ended is kept for as long as a receipt of it may come, and what has not
// ended for good.
func TestPruneOutbox(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, open())
	befriend(alice, bob)
	alice.send(bob, "delivered")
	bob.pull()
	alice.pull()
	if _, err := alice.PruneOutbox(t.Context(), wire.OfflineWindowSeconds-1); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("less than the window: %v", err)
	}
	settled := alice.outbox()[0].SettledAt
	waiting, err := alice.Enqueue(t.Context(), core.OutMessage{To: bob.ACEID(), Body: profile.TextBody("waits")})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ahead, want int64 }{{wire.OfflineWindowSeconds - 100, 0}, {wire.OfflineWindowSeconds + 1, 1}, {10 * wire.OfflineWindowSeconds, 0}} {
		r.ahead.Store(c.ahead)
		removed, err := alice.PruneOutbox(t.Context(), wire.OfflineWindowSeconds)
		if err != nil || removed != c.want {
			t.Errorf("%d s after the outcome: removed %d, %v", r.clock()-settled, removed, err)
		}
	}
	if left := alice.outbox(); len(left) != 1 || left[0].MessageID != waiting.MessageID {
		t.Errorf("left %+v", left)
	}
}

func (a *agent) outbox() []core.Outgoing {
	a.t.Helper()
	list, err := a.Outbox(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	return list
}

// What is known of a peer is known without asking anybody; of one that was never
// met it is nothing.
func TestKnownPeer(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, open())
	befriend(alice, bob)
	alice.publish(false)
	r.stop()
	k, err := bob.KnownPeer(t.Context(), alice.ACEID())
	if err != nil || k.State != "admitted" || k.Log == nil || k.PinnedAt == 0 || k.Descriptor == nil || k.Request != nil || k.IssuedPermit == 0 {
		t.Errorf("%+v, %v", k, err)
	}
	for _, id := range []string{"ace:sha256:" + strings.Repeat("0", 64), "nobody"} {
		if _, err := bob.KnownPeer(t.Context(), id); fault.CodeOf(err) != fault.UnknownPeer {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// A descriptor is reported until it expires or the pin moves on, and a card record
// until its key is replaced (04#caching, 04#card-record).
func TestKnownDocumentsThatHaveEnded(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, open())
	alice.publish(false)
	published := r.clock()
	at := func(now int64) core.KnownPeer {
		t.Helper()
		bob.reopen(func(c *core.Config) { c.Clock = func() int64 { return now } })
		k, err := bob.KnownPeer(t.Context(), alice.ACEID())
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	peer, err := bob.Lookup(t.Context(), alice.ACEID())
	if err != nil {
		t.Fatal(err)
	}
	if k := at(peer.Descriptor.ExpiresAt - 1); k.Descriptor == nil || k.Card == nil {
		t.Errorf("in the last second: %+v", k)
	}
	if k := at(peer.Descriptor.ExpiresAt); k.Descriptor != nil || k.Card == nil {
		t.Errorf("a descriptor that has expired: %+v", k)
	}
	alice.delegate(r)
	bob.reopen(func(c *core.Config) { c.Clock = r.clock })
	newByHand(t, alice).descriptor(r.clock(), r) // and no card
	if peer, err = bob.Lookup(t.Context(), alice.ACEID()); err != nil || peer.Card != nil {
		t.Fatalf("looked up %+v: %v", peer, err)
	}
	if k := at(published + 2); k.Descriptor == nil || k.Card != nil {
		t.Errorf("the card of a key that was replaced: %+v", k)
	}
	// The pin moves on with a log that came in otherwise.
	alice.delegate(r)
	bob.change(func(tx *store.Tx) error {
		return tx.SetPin(alice.ACEID(), store.Pin{KEL: alice.config.Identity.State().Raw(), FetchedAt: r.clock()})
	})
	if k := at(r.clock()); k.Descriptor != nil {
		t.Errorf("a descriptor of a key that was replaced: %+v", k)
	}
}

// A descriptor from a file is verified and pinned as one that a relay serves.
func TestImportAgent(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, open())
	alice.publish(false)
	first, err := alice.OwnDocument(t.Context(), "descriptor")
	if err != nil {
		t.Fatal(err)
	}
	r.ahead.Store(3600)
	alice.publish(true)
	second, err := alice.OwnDocument(t.Context(), "descriptor")
	if err != nil {
		t.Fatal(err)
	}
	r.stop()
	for i, text := range [][]byte{second, first} { // the older one changes nothing
		p, err := bob.ImportAgent(t.Context(), text)
		if err != nil || p.ACEID != alice.ACEID() || string(p.Descriptor.Raw()) != string(second) || p.PinOutcome != []string{"adopted", "unchanged"}[i] {
			t.Errorf("import %d: %+v, %v", i, p, err)
		}
	}
	if _, err := alice.ImportAgent(t.Context(), second); fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("the own one: %v", err)
	}
	for _, text := range []string{"", "{}", string(second[:len(second)-1]), strings.Repeat(" ", wire.MaxPublishedAgentBytes) + string(second)} {
		if _, err := bob.ImportAgent(t.Context(), []byte(text)); fault.CodeOf(err) != fault.InvalidAuthorization {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	r.ahead.Store(3600 + wire.OfflineWindowSeconds)
	if _, err := bob.ImportAgent(t.Context(), second); fault.CodeOf(err) != fault.InvalidAuthorization {
		t.Errorf("one that has ended: %v", err)
	}
}
