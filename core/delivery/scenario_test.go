package delivery_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

func friends(t *testing.T) (w *world, alice, bob *endpoint) {
	w = newWorld()
	alice, bob = w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	befriend(bob, alice)
	return w, alice, bob
}

func TestConversation(t *testing.T) {
	w, alice, bob := friends(t)
	sent := bob.send(alice, "hello")
	if sent.State != store.Pending || sent.Relay != relay || sent.Attempts != 1 {
		t.Fatalf("after the attempt: %+v", sent)
	}
	if w.last().Prekey != alice.published() {
		t.Error("no peer prekey is held yet, but the packet uses another than the published one")
	}
	got := alice.pullOne(delivery.Delivered, "")
	if got.Message == nil || got.Message.MessageID != sent.MessageID {
		t.Fatalf("result %+v", got)
	}
	if texts := alice.inbox(); !slices.Equal(texts, []string{`{"message":"hello"}`}) {
		t.Fatalf("inbox %q", texts)
	}
	receipt := bob.pullOne(delivery.Delivered, "").Receipt
	if receipt == nil || receipt.Entry.State != store.Delivered || bob.entry(sent.MessageID).State != store.Delivered {
		t.Fatalf("receipt %+v", receipt)
	}
	if len(w.queues[alice.id.ACEID()])+len(w.queues[bob.id.ACEID()]) != 0 {
		t.Error("entries were not acknowledged")
	}
}

// The receipt offers a key, the next message uses it, the answer to that moves
// the issuer on, and the seed it replaces is deleted (04#peer-prekeys).
func TestPeerPrekeysTakeTurns(t *testing.T) {
	w, alice, bob := friends(t)
	var used []string
	for i := range 3 {
		bob.send(alice, "x")
		used = append(used, w.last().Prekey)
		if (i == 0) != (w.last().Prekey == alice.published()) {
			t.Fatalf("message %d: published prekey %v", i, w.last().Prekey == alice.published())
		}
		alice.pullOne(delivery.Delivered, "")
		bob.pullOne(delivery.Delivered, "")
		w.now++ // a key replaces one that an older packet carried
	}
	if used[1] == used[2] {
		t.Error("an exchange did not bring a new peer prekey")
	}
	alice.view(func(tx *store.Tx) error {
		keys, err := tx.Prekeys(bob.id.ACEID())
		if len(keys) != 2 {
			t.Errorf("%d peer prekeys", len(keys))
		}
		for _, k := range keys {
			if k.ID == used[1] {
				t.Error("the seed of the earlier exchange is still there")
			}
		}
		return err
	})
}

func TestDuplicateIsReceiptedAgain(t *testing.T) {
	w, alice, bob := friends(t)
	sent := bob.send(alice, "once")
	w.redeliver(w.last())
	results := alice.pull()
	if len(results) != 2 || results[0].Outcome != delivery.Delivered || results[1].Outcome != delivery.Duplicate {
		t.Fatalf("results %+v", results)
	}
	if len(alice.inbox()) != 1 {
		t.Error("a duplicate was delivered")
	}
	if results := bob.pull(); len(results) != 2 || results[0].Receipt == nil || results[1].Receipt != nil {
		t.Fatalf("the second receipt was applied too: %+v", results)
	}
	if bob.entry(sent.MessageID).State != store.Delivered {
		t.Error("not delivered")
	}
}

func TestReceiptThatCannotBeSentForNow(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	r := alice.pullOne(delivery.Retry, fault.RelayUnavailable)
	if r.Message == nil {
		t.Error("the message is durable but was not told of")
	}
	w.refuse = nil
	alice.pullOne(delivery.Duplicate, "")
	bob.pullOne(delivery.Delivered, "")
}

func TestReceiptWithoutARouteIsNoFailure(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	w.refuse = fault.New(fault.NotPermitted, "no")
	alice.pullOne(delivery.Delivered, "")
}

func TestThirdFetchQuarantines(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	for range wire.MaxFetchAttempts - 1 {
		alice.pullOne(delivery.Retry, fault.RelayUnavailable)
	}
	alice.pullOne(delivery.Quarantined, fault.RelayUnavailable)
	alice.view(func(tx *store.Tx) error {
		kept, err := tx.Quarantine()
		if len(kept) != 1 {
			t.Errorf("%d quarantined", len(kept))
		}
		return err
	})
	if got := alice.pull(); len(got) != 0 {
		t.Errorf("still in the inbox: %+v", got)
	}
}

func TestFullReceiverHolds(t *testing.T) {
	_, alice, bob := friends(t)
	full, err := delivery.New(t.Context(), delivery.Config{
		Identity: alice.id, Store: alice.store, Net: &endpointNet{alice.world, alice.id.ACEID()}, Profiles: alice.set, Home: relay, Capacity: 1,
	}, start)
	if err != nil {
		t.Fatal(err)
	}
	alice.node = full
	first := bob.send(alice, "one")
	bob.send(alice, "two")
	results := alice.pull()
	if len(results) != 2 || results[1].Outcome != delivery.Hold || results[1].Code != fault.ReceiverCapacity {
		t.Fatalf("results %+v", results)
	}
	for range wire.MaxFetchAttempts {
		alice.pullOne(delivery.Hold, fault.ReceiverCapacity)
	}
	alice.update(func(tx *store.Tx) error { _, err := tx.SetHandled(bob.id.ACEID(), first.MessageID); return err })
	alice.pullOne(delivery.Delivered, "")
}

func TestStrangersAtAClosedAgent(t *testing.T) {
	for _, contact := range []string{"", "closed"} {
		w := newWorld()
		alice, bob := w.newEndpoint(t, contact, map[string]string{profile.TextID: "x"}), w.newEndpoint(t, "open", nil)
		bob.connect(alice)
		alice.pullOne(delivery.Dropped, fault.NotPermitted)
		alice.wantState(bob, "")
	}
}

func TestHeldRequest(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	if row := bob.connect(alice); row.State != "pending" || row.ExpiresAt != start+wire.OfflineWindowSeconds {
		t.Fatalf("row %+v", row)
	}
	r := alice.pullOne(delivery.Delivered, "")
	if r.Request == nil || r.Request.Peer != bob.id.ACEID() {
		t.Fatalf("result %+v", r)
	}
	alice.wantState(bob, "")
	alice.view(func(tx *store.Tx) error {
		if _, ok, err := tx.Pin(bob.id.ACEID()); ok || err != nil {
			t.Errorf("a request pinned its sender: %v", err)
		}
		return nil
	})
	w.now += wire.ContactRequestTTLSeconds
	if _, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("an expired request was accepted: %v", err)
	}
}

func TestDeclinedRequest(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	alice.pullOne(delivery.Delivered, "")
	if err := alice.node.RejectRequest(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	alice.view(func(tx *store.Tx) error {
		if _, ok, err := tx.Pin(bob.id.ACEID()); ok || err != nil {
			t.Errorf("declining pinned the requester: %v", err)
		}
		return nil
	})
	r := bob.pullOne(delivery.Delivered, "")
	if r.Contact == nil || r.Contact.State != "" {
		t.Fatalf("result %+v", r)
	}
	bob.wantState(alice, "")
}

func TestAcceptProfilesRule(t *testing.T) {
	w := newWorld()
	text := profile.Official()[1]
	for _, m := range profile.Official() {
		if m.ID == profile.TextID {
			text = m
		}
	}
	alice, bob := w.newEndpoint(t, "open", map[string]string{text.ID: text.Digest}), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	if r := alice.pullOne(delivery.Delivered, ""); r.Contact == nil || r.Contact.State != "admitted" {
		t.Fatalf("result %+v", r)
	}
	bob.pullOne(delivery.Delivered, "")
	bob.wantState(alice, "admitted")
	bob.send(alice, "hello")
	alice.pullOne(delivery.Delivered, "")
}

// A reply that cannot be sent for now leaves the request held, so that it can
// be sent later.
func TestReplyOfARuleThatCannotBeSent(t *testing.T) {
	w := newWorld()
	var digest string
	for _, m := range profile.Official() {
		if m.ID == profile.TextID {
			digest = m.Digest
		}
	}
	alice, bob := w.newEndpoint(t, "open", map[string]string{profile.TextID: digest}), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	alice.pullOne(delivery.Delivered, "")
	w.refuse = nil
	if _, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	bob.pullOne(delivery.Delivered, "")
	bob.wantState(alice, "admitted")
}

func TestConnectNeverDemotes(t *testing.T) {
	_, alice, bob := friends(t)
	if row := bob.connect(alice); row.State != "admitted" {
		t.Fatalf("row %+v", row)
	}
	r := alice.pullOne(delivery.Delivered, "")
	if r.Request != nil || r.Contact != nil {
		t.Errorf("an admitted peer's request asks for a decision: %+v", r)
	}
	bob.pullOne(delivery.Delivered, "")
	bob.wantState(alice, "admitted")
}

func TestRefusedRequestLeavesTheTable(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	w.refuse = fault.New(fault.NotPermitted, "closed")
	_, err := bob.node.SendRequest(t.Context(), delivery.ContactRequest{To: alice.id.ACEID(), Profile: profile.TextID, Home: relay}, w.now)
	if !errors.Is(err, fault.NotPermitted) {
		t.Fatal(err)
	}
	bob.wantState(alice, "")
}

func TestEnqueueRefusals(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	text := delivery.Message{To: alice.id.ACEID(), Type: profile.TextType, Body: textBody("x")}
	nobody := text
	nobody.To = wire.ACEID(packet.PrekeyID([]byte("nobody")))
	self := text
	self.To = bob.id.ACEID()
	core := text
	core.Type = profile.ReceiptType
	unknown := text
	unknown.Type = "example:x"
	body := text
	body.Body = wire.NewObject()
	for name, c := range map[string]struct {
		m    delivery.Message
		code fault.Code
	}{
		"no permit": {text, fault.NotPermitted}, "unknown peer": {nobody, fault.UnknownPeer}, "self": {self, fault.InvalidArgument},
		"core type": {core, fault.InvalidArgument}, "unknown type": {unknown, fault.UnsupportedSchema}, "body": {body, fault.InvalidBody},
	} {
		if _, err := bob.node.Enqueue(t.Context(), c.m, w.now); fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.lookup = fault.New(fault.RelayUnavailable, "down")
	if _, err := bob.node.Enqueue(t.Context(), nobody, w.now); !errors.Is(err, fault.RelayUnavailable) {
		t.Errorf("a transient failure is reported as %v", err)
	}
	bob.view(func(tx *store.Tx) error {
		entries, err := tx.OutboxEntries()
		if len(entries) != 0 {
			t.Errorf("stored %d entries", len(entries))
		}
		return err
	})
}

// The same request ID for the same message returns the first entry with what has
// become of it, to another peer it means nothing, and for another message it is a
// mistake that names the first one (agentlink: idempotency key).
func TestRequestIDIsIdempotent(t *testing.T) {
	w, alice, bob := friends(t)
	carl := w.newEndpoint(t, "open", nil)
	befriend(bob, carl)
	m := delivery.Message{To: alice.id.ACEID(), Type: profile.TextType, Body: textBody("x"), RequestID: "deploy-42"}
	first, err := bob.node.Enqueue(t.Context(), m, w.now)
	if err != nil {
		t.Fatal(err)
	}
	bob.attempt(first.MessageID)
	w.now += 5
	again, err := bob.node.Enqueue(t.Context(), m, w.now)
	if err != nil || again.MessageID != first.MessageID || again.Attempts != 1 {
		t.Errorf("%+v, %v", again, err)
	}
	for name, other := range map[string]delivery.Message{
		"body":   {To: m.To, Type: m.Type, Body: textBody("y"), RequestID: m.RequestID},
		"thread": {To: m.To, Type: m.Type, Body: m.Body, RequestID: m.RequestID, ThreadID: "t"},
	} {
		if _, err := bob.node.Enqueue(t.Context(), other, w.now); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), first.MessageID) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	m.To = carl.id.ACEID()
	toCarl, err := bob.node.Enqueue(t.Context(), m, w.now)
	if err != nil || toCarl.MessageID == first.MessageID {
		t.Errorf("to another peer: %+v, %v", toCarl, err)
	}
	if n := bob.outboxSize(); n != 2 {
		t.Errorf("%d entries", n)
	}
}

// An attempt that the host stops is none: it leaves no count and no schedule.
func TestInterruptedAttempt(t *testing.T) {
	w, alice, bob := friends(t)
	entry := bob.enqueue(alice, "x")
	ctx, cancel := context.WithCancel(t.Context())
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	bob.node = nil
	node, err := delivery.New(t.Context(), delivery.Config{
		Identity: bob.id, Store: bob.store, Net: &cancelling{&endpointNet{w, bob.id.ACEID()}, cancel}, Profiles: bob.set, Home: relay,
	}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	after, err := node.Attempt(ctx, entry.MessageID, w.now)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if after.Attempts != 0 || after.NextAttemptAt != entry.NextAttemptAt || after.ClaimedUntil != 0 || after.Prekey != "" {
		t.Errorf("it left %+v", after)
	}
}

// One that is stopped when its post has completed counts: the relay has the packet
// (06#outbox-sender).
func TestStoppedBehindThePost(t *testing.T) {
	w, alice, bob := friends(t)
	entry := bob.enqueue(alice, "x")
	ctx, cancel := context.WithCancel(t.Context())
	bob.replaceNet(&cancelling{&endpointNet{w, bob.id.ACEID()}, cancel})
	after, err := bob.node.Attempt(ctx, entry.MessageID, w.now)
	if err != nil || ctx.Err() == nil {
		t.Fatalf("%v, context %v", err, ctx.Err())
	}
	if after.Attempts != 1 || after.Relay != relay || after.NextAttemptAt != w.now+60 || after.Prekey == "" {
		t.Errorf("it left %+v", after)
	}
}

// cancelling ends the caller's context while it posts.
type cancelling struct {
	*endpointNet
	cancel context.CancelFunc
}

func (c *cancelling) Post(ctx context.Context, relay string, p, permit []byte) error {
	c.cancel()
	return c.endpointNet.Post(ctx, relay, p, permit)
}
