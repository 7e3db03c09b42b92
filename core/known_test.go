package core_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
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
