package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

func TestConnectRefusals(t *testing.T) {
	r := newRelay(t)
	bob := newAgent(t, r, closed())
	shut := newAgent(t, r, closed())
	shut.publish(false)
	for name, c := range map[string]struct {
		peer, profile string
		code          fault.Code
	}{
		"closed":  {shut.ACEID(), profile.TextID, fault.NotPermitted},
		"unknown": {wire.ACEID(suite.Hex256([]byte("x"))), profile.TextID, fault.UnknownPeer},
		"self":    {bob.ACEID(), profile.TextID, fault.InvalidArgument},
	} {
		if _, err := bob.Connect(t.Context(), c.peer, c.profile, ""); !errors.Is(err, c.code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	willing := newAgent(t, r, open())
	willing.publish(false)
	if _, err := bob.Connect(t.Context(), willing.ACEID(), profile.CommerceID, ""); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a profile that is not shared: %v", err)
	}
	contacts, err := bob.Contacts(t.Context())
	if err != nil || len(contacts) != 0 {
		t.Errorf("contacts %+v: %v", contacts, err)
	}
}

// A request whose time is over is not listed (05#flow step 2).
func TestExpiredRequestsAreNotListed(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	alice.publish(false)
	if _, err := bob.Connect(t.Context(), alice.ACEID(), profile.TextID, ""); err != nil {
		t.Fatal(err)
	}
	fixed := r.clock()
	alice.reopen(func(c *core.Config) { c.Clock = func() int64 { return fixed } })
	alice.pull()
	for _, c := range []struct {
		after int64
		want  int
	}{{wire.ContactRequestTTLSeconds - 1, 1}, {wire.ContactRequestTTLSeconds, 0}} {
		alice.reopen(func(cc *core.Config) { cc.Clock = func() int64 { return fixed + c.after } })
		if list, err := alice.Requests(t.Context()); err != nil || len(list) != c.want {
			t.Errorf("%d s after it came: %+v, %v", c.after, list, err)
		}
	}
}

func TestRejectedRequest(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	alice.publish(false)
	if _, err := bob.Connect(t.Context(), alice.ACEID(), profile.TextID, ""); err != nil {
		t.Fatal(err)
	}
	alice.pull()
	if err := alice.Reject(t.Context(), bob.ACEID()); err != nil {
		t.Fatal(err)
	}
	wantKinds(t, bob.pull(), core.EventContact)
	if contacts, err := bob.Contacts(t.Context()); err != nil || len(contacts) != 0 {
		t.Errorf("contacts %+v: %v", contacts, err)
	}
}

func TestResolve(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	if err := bob.SetName(t.Context(), alice.ACEID(), "al"); err != nil {
		t.Fatal(err)
	}
	digits := alice.ACEID()[len("ace:sha256:"):]
	for _, typed := range []string{alice.ACEID(), "al", digits[:12], "ace:sha256:" + digits[:20]} {
		if id, err := bob.Resolve(t.Context(), typed); err != nil || id != alice.ACEID() {
			t.Errorf("%s: %q, %v", typed, id, err)
		}
	}
	for typed, code := range map[string]fault.Code{
		digits[:11]: fault.UnknownPeer, "nobody": fault.UnknownPeer, "@nobody@" + r.url[len("http://"):]: fault.UnknownPeer, "@@": fault.InvalidArgument,
	} {
		if _, err := bob.Resolve(t.Context(), typed); !errors.Is(err, code) {
			t.Errorf("%s: %v", typed, err)
		}
	}
	for _, name := range []string{"a@b", "with blank", digits[:12]} {
		if err := bob.SetName(t.Context(), alice.ACEID(), name); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("petname %q: %v", name, err)
		}
	}
	if err := bob.SetName(t.Context(), bob.ACEID(), "al"); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a petname was taken away: %v", err)
	}
}

func TestOneProcessReceives(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, closed())
	a.publish(false)
	other, err := core.Open(t.Context(), a.config)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	listening, stop := context.WithCancel(t.Context())
	connected := make(chan struct{}, 16)
	ended := make(chan error, 1)
	go func() { ended <- a.Listen(listening, func(core.Event) { connected <- struct{}{} }) }()
	<-connected
	_, err = other.Pull(t.Context(), 0, nil)
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.LockBusy || f.Holder == nil {
		t.Errorf("second receiver: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := other.Pull(t.Context(), 0, nil); err != nil {
		t.Errorf("after the first one ended: %v", err)
	}
}

func TestListen(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	bob.send(alice, "waiting already")
	listening, stop := context.WithCancel(t.Context())
	events := make(chan core.Event, 64)
	ended := make(chan error, 1)
	go func() { ended <- alice.Listen(listening, func(e core.Event) { events <- e }) }()
	next := func(kind string) core.Event {
		t.Helper()
		for {
			select {
			case e := <-events:
				if e.Kind == kind {
					return e
				}
			case err := <-ended:
				t.Fatalf("ended: %v", err)
			case <-t.Context().Done():
				t.Fatal("no event")
			}
		}
	}
	next(core.EventMessage)
	next(core.EventConnection)
	out := bob.send(alice, "live")
	if e := next(core.EventMessage); e.Message.MessageID != out.MessageID {
		t.Errorf("event %+v", e.Message)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	wantKinds(t, bob.pull(), core.EventReceipt, core.EventReceipt)
	if kinds := alice.pull(); len(kinds) != 0 {
		t.Errorf("not acknowledged: %v", kinds)
	}
}

// A listener that is stopped by what it was told of leaves nothing to be fetched
// again.
func TestListenThatStopsAtAnEvent(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	listening, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	connected := make(chan struct{})
	go func() {
		ended <- alice.Listen(listening, func(e core.Event) {
			switch e.Kind {
			case core.EventConnection:
				close(connected)
			case core.EventReceipt:
				stop()
			}
		})
	}()
	<-connected
	alice.send(bob, "x")
	bob.pull()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if report, err := alice.Pull(t.Context(), 0, nil); err != nil || report.Fetched != 0 {
		t.Errorf("left behind: %+v, %v", report, err)
	}
}

func TestListenRegistersOnce(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, closed())
	listening, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Listen(listening, func(core.Event) { stop() }) }()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	status, err := a.Status(t.Context(), core.StatusOptions{})
	if err != nil || !status.Registered {
		t.Errorf("status %+v: %v", status, err)
	}
}

func TestStatus(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	s, err := a.Status(t.Context(), core.StatusOptions{})
	if err != nil || !s.Reachable || s.Registered || len(s.Warnings) != 2 {
		t.Errorf("before: %+v: %v", s, err)
	}
	a.publish(false)
	s, err = a.Status(t.Context(), core.StatusOptions{})
	if err != nil || !s.Reachable || !s.Registered || s.DescriptorExpires == 0 || s.Contact != "open" || len(s.Warnings) != 0 {
		t.Errorf("after: %+v: %v", s, err)
	}
	r.stop()
	if s, err = a.Status(t.Context(), core.StatusOptions{}); err != nil || s.Reachable || len(s.Warnings) != 1 {
		t.Errorf("relay down: %+v: %v", s, err)
	}
}

func TestMessages(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	out := bob.send(alice, "one")
	alice.pull()
	m, err := alice.Message(t.Context(), out.MessageID[:8], "")
	if err != nil || m.MessageID != out.MessageID || m.Handled {
		t.Fatalf("message %+v: %v", m, err)
	}
	if err := alice.MarkHandled(t.Context(), m.From, m.MessageID); err != nil {
		t.Fatal(err)
	}
	if left, err := alice.Inbox(t.Context(), core.InboxFilter{Unhandled: true}); err != nil || len(left) != 0 {
		t.Errorf("unhandled %+v: %v", left, err)
	}
	for _, id := range []string{"", "short", "zzzzzzzz", "00000000"} {
		if _, err := alice.Message(t.Context(), id, ""); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := alice.MarkHandled(t.Context(), m.From, suite.NewMessageID()); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("unknown message: %v", err)
	}
	if _, err := bob.OutboxEntry(t.Context(), suite.NewMessageID()); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("unknown outbox entry: %v", err)
	}
}

// A message is known by its sender and its ID (06#deduplication): that of a peer
// who has chosen the ID of another's neither hides that nor marks it.
func TestMessagesOfTwoSendersWithOneID(t *testing.T) {
	r := newRelay(t)
	alice, bob, carol := newAgent(t, r, open()), newAgent(t, r, closed()), newAgent(t, r, closed())
	befriend(bob, alice)
	out := bob.send(alice, "one")
	alice.pull()
	alice.change(func(tx *store.Tx) error {
		return tx.AddMessage(store.Message{MessageID: out.MessageID, Peer: carol.ACEID(), Type: profile.TextID, Body: []byte(`{"message":"two"}`), SentAt: r.clock(), ReceivedAt: r.clock()})
	})
	if m, err := alice.Message(t.Context(), out.MessageID, ""); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), carol.ACEID()) {
		t.Errorf("the message of nobody in particular: %+v: %v", m, err)
	}
	for _, from := range []*agent{bob, carol} {
		if m, err := alice.Message(t.Context(), out.MessageID, from.ACEID()); err != nil || m.From != from.ACEID() {
			t.Errorf("message %+v: %v", m, err)
		}
	}
	if err := alice.MarkHandled(t.Context(), carol.ACEID(), out.MessageID); err != nil {
		t.Fatal(err)
	}
	left, err := alice.Inbox(t.Context(), core.InboxFilter{Unhandled: true})
	if err != nil || len(left) != 1 || left[0].From != bob.ACEID() {
		t.Errorf("unhandled %+v: %v", left, err)
	}
	if s, err := alice.Status(t.Context(), core.StatusOptions{}); err != nil || s.Unhandled != 1 {
		t.Errorf("status %+v: %v", s, err)
	}
}

func TestRetryDue(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	out, err := bob.Enqueue(t.Context(), core.OutMessage{To: alice.ACEID(), Body: profile.TextBody("x")})
	if err != nil || out.State != core.StateQueued {
		t.Fatalf("%+v: %v", out, err)
	}
	for _, want := range []int{1, 0} {
		if n, err := bob.RetryDue(t.Context()); err != nil || n != want {
			t.Errorf("%d attempts: %v", n, err)
		}
	}
	r.ahead.Add(60)
	if n, err := bob.RetryDue(t.Context()); err != nil || n != 1 {
		t.Errorf("%d attempts: %v", n, err)
	}
	wantKinds(t, alice.pull(), core.EventMessage)
	wantKinds(t, bob.pull(), core.EventReceipt)
	list, err := bob.Outbox(t.Context())
	if err != nil || len(list) != 1 || list[0].State != core.StateDelivered || list[0].Attempts != 2 {
		t.Errorf("outbox %+v: %v", list, err)
	}
}

func TestStoreOfAnotherIdentity(t *testing.T) {
	r := newRelay(t)
	a, b := newAgent(t, r, open()), newAgent(t, r, open())
	config := b.config
	config.StorePath = a.config.StorePath
	if _, err := core.Open(t.Context(), config); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("opened: %v", err)
	}
}
