package delivery_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/store"
)

// under opens an endpoint again with a policy.
func (e *endpoint) under(rules ...policy.Rule) {
	e.t.Helper()
	e.laws.Rules = rules
	e.open()
}

func (e *endpoint) message(to *endpoint, text string) delivery.Message {
	return delivery.Message{To: to.id.ACEID(), Type: profile.TextType, Body: textBody(text)}
}

func (e *endpoint) approve(messageID string) store.OutboxEntry {
	e.t.Helper()
	entry, err := e.node.Approve(e.t.Context(), messageID, e.world.now)
	if err != nil {
		e.t.Fatal(err)
	}
	return entry
}

// order returns the message IDs of the Outbox, in its order.
func (e *endpoint) order() (ids []string) {
	e.t.Helper()
	e.view(func(tx *store.Tx) error {
		entries, err := tx.OutboxEntries()
		for _, entry := range entries {
			ids = append(ids, entry.MessageID)
		}
		return err
	})
	return ids
}

// A message that the owner is asked about is written down, and nothing else: it is
// not sealed, no prekey is offered for it, and no attempt is made. Once it is
// approved it is in the Outbox as of then, behind what was queued meanwhile
// (agentlink: policy "ask", 06#outbox-sender).
func TestHeldForApproval(t *testing.T) {
	w, alice, bob := friends(t)
	carl := w.newEndpoint(t, "open", nil)
	befriend(bob, carl)
	bob.under(policy.Rule{Peer: alice.id.ACEID(), Do: policy.Ask})
	offered, posted, asked := len(bob.slots(alice)), len(w.posted), w.asked
	held := bob.enqueue(alice, "x")
	if held.State != store.PendingApproval || held.HeldAt != start || held.HeldUntil != start+86400 {
		t.Fatalf("held %+v", held)
	}
	if e, err := bob.node.Attempt(t.Context(), held.MessageID, w.now); err != nil || e.Attempts != 0 || e.State != store.PendingApproval {
		t.Errorf("attempted: %+v, %v", e, err)
	}
	if _, taken, err := bob.node.AttemptDue(t.Context(), held.MessageID, w.now+60); taken || err != nil {
		t.Errorf("attempted when due: %t, %v", taken, err)
	}
	if len(bob.slots(alice)) != offered || len(w.posted) != posted || w.asked != asked {
		t.Error("something was made, looked up or posted for it")
	}
	other := bob.send(carl, "y") // nobody waits for it
	w.now += 100
	approved := bob.approve(held.MessageID)
	if approved.State != store.Pending || approved.CreatedAt != w.now || approved.NextAttemptAt != w.now || approved.HeldAt != start {
		t.Errorf("approved %+v", approved)
	}
	if got := bob.order(); !slices.Equal(got, []string{other.MessageID, held.MessageID}) {
		t.Errorf("order %v", got)
	}
	if again := bob.approve(held.MessageID); again.CreatedAt != w.now || again.State != store.Pending {
		t.Errorf("approved twice: %+v", again)
	}
	bob.attempt(held.MessageID)
	alice.pullOne(delivery.Delivered, "")
	bob.pullOne(delivery.Delivered, "")
	if e := bob.entry(held.MessageID); e.State != store.Delivered || e.FirstAttemptAt != w.now {
		t.Errorf("in the end %+v", e)
	}
}

// TestApprovalEnds: what nobody decides about in time, and what is denied, is
// rejected here, and stays so: no attempt is made, no receipt counts, no approval
// comes any more.
func TestApprovalEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(bob *endpoint, id string) error
		reason string
		at     int64 // when it ended, after it was held
	}{
		"in time": {func(*endpoint, string) error { return nil }, "", 0},
		"too late": {func(bob *endpoint, _ string) error {
			bob.world.now += 50
			return bob.node.ExpireDue(bob.t.Context(), bob.world.now)
		}, delivery.ReasonApprovalExpired, 50},
		"nobody has noticed": {func(bob *endpoint, _ string) error { bob.world.now += 70; return nil }, delivery.ReasonApprovalExpired, 50},
		"denied": {func(bob *endpoint, id string) error {
			bob.world.now += 7
			_, err := bob.node.Deny(bob.t.Context(), id, bob.world.now)
			return err
		}, delivery.ReasonDenied, 7},
		"abandoned": {func(bob *endpoint, id string) error {
			bob.world.now += 8
			_, err := bob.node.Abandon(bob.t.Context(), id, bob.world.now)
			return err
		}, delivery.ReasonDenied, 8},
		"the peer is forgotten": {func(bob *endpoint, id string) error {
			bob.world.now += 9
			_, err := bob.node.Forget(bob.t.Context(), bob.entry(id).Peer, bob.world.now)
			return err
		}, delivery.ReasonDenied, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, alice, bob := friends(t)
			bob.laws.ApprovalTTL = 50
			bob.under(policy.Rule{Do: policy.Ask})
			held := bob.enqueue(alice, "x")
			w.now += 49
			if err := bob.node.ExpireDue(t.Context(), w.now); err != nil || bob.entry(held.MessageID).State != store.PendingApproval {
				t.Fatalf("early: %+v, %v", bob.entry(held.MessageID), err)
			}
			w.now = start
			if err := c.end(bob, held.MessageID); err != nil {
				t.Fatal(err)
			}
			_, err := bob.node.Approve(t.Context(), held.MessageID, w.now)
			e := bob.entry(held.MessageID)
			if c.reason == "" {
				if err != nil || e.State != store.Pending {
					t.Errorf("%+v, %v", e, err)
				}
				return
			}
			if !errors.Is(err, fault.InvalidArgument) || e.State != store.Rejected || e.Reason != c.reason || e.SettledAt != start+c.at || e.RemoteCode != "" {
				t.Errorf("%+v, %v", e, err)
			}
			posted := len(w.posted)
			if _, err := bob.node.Attempt(t.Context(), held.MessageID, w.now); err != nil || len(w.posted) != posted {
				t.Errorf("attempted: %v", err)
			}
			body := delivery.ReceiptBody{MessageID: held.MessageID, Outcome: delivery.OutcomeDelivered}
			bob.take(sealTo(bob, alice.id, profile.ReceiptType, body.Value(), w.now))
			if after := bob.entry(held.MessageID); after.State != store.Rejected {
				t.Errorf("a receipt made it %+v", after)
			}
		})
	}
}

// What does not wait for a decision takes none.
func TestDecisionsAboutOthers(t *testing.T) {
	w, alice, bob := friends(t)
	queued := bob.enqueue(alice, "x")
	for _, id := range []string{queued.MessageID, "nothing"} {
		if _, err := bob.node.Approve(t.Context(), id, w.now); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("approve %s: %v", id, err)
		}
		if _, err := bob.node.Deny(t.Context(), id, w.now); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("deny %s: %v", id, err)
		}
	}
	if e := bob.entry(queued.MessageID); e.State != store.Pending {
		t.Errorf("entry %+v", e)
	}
}

// A held message is in no Outbox: it makes no thread busy, also for the peer
// (08#sender-state-and-busy-threads). At its approval it meets what has become of
// the thread, of two only the first passes, and a refusal leaves it held.
func TestApprovalMeetsTheThread(t *testing.T) {
	w, alice, bob := traders(t)
	bob.under(policy.Rule{Type: "ace:commerce:*", Do: policy.Ask})
	var held []store.OutboxEntry
	for range 2 {
		e, err := bob.enqueueType(alice, commerce.RFQ, "t", members("need", "x"))
		if err != nil {
			t.Fatalf("a held message makes the thread busy: %v", err)
		}
		held = append(held, e)
	}
	bob.approve(held[0].MessageID)
	if _, err := bob.node.Approve(t.Context(), held[1].MessageID, w.now); !errors.Is(err, fault.ThreadBusy) {
		t.Errorf("on a busy thread: %v", err)
	}
	bob.attempt(held[0].MessageID)
	alice.pullOne(delivery.Delivered, "")
	bob.pullOne(delivery.Delivered, "")
	if _, err := bob.node.Approve(t.Context(), held[1].MessageID, w.now); !errors.Is(err, commerce.TransitionNotAllowed) {
		t.Errorf("against its rule: %v", err)
	}
	bob.update(func(tx *store.Tx) error {
		return tx.SetPermit(alice.id.ACEID(), store.PermitHeld, bob.worthless(alice))
	})
	if _, err := bob.node.Approve(t.Context(), held[1].MessageID, w.now); !errors.Is(err, fault.NotPermitted) {
		t.Errorf("without a permit: %v", err)
	}
	if e := bob.entry(held[1].MessageID); e.State != store.PendingApproval || e.CreatedAt != start {
		t.Errorf("it is %+v", e)
	}
}

// What the policy denies stores nothing and asks nobody, and neither does what no
// rule can be followed about.
func TestPolicyDenies(t *testing.T) {
	w, alice, bob := friends(t)
	bob.update(func(tx *store.Tx) error { return tx.SetName(alice.id.ACEID(), "al") })
	for name, c := range map[string]struct {
		rule policy.Rule
		code fault.Code
	}{
		"a petname":             {policy.Rule{Peer: "al", Do: policy.Deny}, fault.NotPermitted},
		"a type":                {policy.Rule{Type: profile.TextType, Do: policy.Deny}, fault.NotPermitted},
		"a petname of nobody":   {policy.Rule{Peer: "la", Do: policy.Allow}, fault.InvalidArgument},
		"a handle of nobody":    {policy.Rule{Peer: "@alice@relay.example", Do: policy.Allow}, fault.InvalidArgument},
		"what is about others":  {policy.Rule{Peer: bob.id.ACEID(), Do: policy.Deny}, ""},
		"what is about arrival": {policy.Rule{Direction: policy.In, Do: policy.Deny}, ""},
	} {
		bob.under(c.rule)
		before := bob.outboxSize()
		_, err := bob.node.Enqueue(t.Context(), bob.message(alice, name), w.now)
		if fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
		var denied *policy.Denied
		if errors.As(err, &denied) != (c.code == fault.NotPermitted) {
			t.Errorf("%s: the error does not say who: %v", name, err)
		}
		if stored := bob.outboxSize() > before; stored != (c.code == "") {
			t.Errorf("%s: stored %t", name, stored)
		}
	}
	bob.update(func(tx *store.Tx) error { return tx.SetHandlePin(relay, "alice", alice.id.ACEID()) })
	bob.under(policy.Rule{Peer: "@alice@relay.example", Do: policy.Deny})
	if _, err := bob.node.Enqueue(t.Context(), bob.message(alice, "x"), w.now); !errors.Is(err, fault.NotPermitted) {
		t.Errorf("a handle: %v", err)
	}
}

// What was queued with a request ID is answered with whatever the policy says now:
// nothing new is sent.
func TestRequestIDBeforePolicy(t *testing.T) {
	w, alice, bob := friends(t)
	m := bob.message(alice, "x")
	m.RequestID = "k"
	first, err := bob.node.Enqueue(t.Context(), m, w.now)
	if err != nil {
		t.Fatal(err)
	}
	bob.under(policy.Rule{Do: policy.Deny})
	if again, err := bob.node.Enqueue(t.Context(), m, w.now); err != nil || again.MessageID != first.MessageID {
		t.Errorf("%+v, %v", again, err)
	}
}

// A message that the policy denies is delivered for its sender, whose thread goes
// on with the receiver's, and nothing shows it: it is in no inbox, no event has it,
// and it takes no room (06#receive-pipeline step 10). Released, it is in the inbox
// once.
func TestPolicyWithholds(t *testing.T) {
	w, alice, bob := traders(t)
	alice.room = 1
	alice.under(policy.Rule{Direction: policy.In, Type: "ace:commerce:*", Do: policy.Deny})
	bob.send(alice, "fills the inbox")
	alice.pullOne(delivery.Delivered, "")
	bob.pullOne(delivery.Delivered, "")
	sent, err := bob.enqueueType(alice, commerce.RFQ, "t", members("need", "x"))
	if err != nil {
		t.Fatal(err)
	}
	bob.attempt(sent.MessageID)
	got := alice.pullOne(delivery.Delivered, "")
	if got.Message != nil || got.Withheld == nil || got.Withheld.MessageID != sent.MessageID {
		t.Errorf("result %+v", got)
	}
	if bob.pullOne(delivery.Delivered, ""); bob.entry(sent.MessageID).State != store.Delivered {
		t.Errorf("for its sender it is %+v", bob.entry(sent.MessageID))
	}
	if texts := alice.inbox(); len(texts) != 1 {
		t.Errorf("inbox %q", texts)
	}
	for _, e := range []*endpoint{alice, bob} {
		e.view(func(tx *store.Tx) error {
			peer := bob
			if e == bob {
				peer = alice
			}
			row, ok, err := tx.Thread(profile.CommerceID, peer.id.ACEID(), "t")
			if !ok || row.State != string(commerce.Requested) {
				t.Errorf("thread %+v: %v", row, err)
			}
			return err
		})
	}
	w.now += 60
	if again := alice.take(w.posted[len(w.posted)-2]); again.Outcome != delivery.Duplicate {
		t.Errorf("again: %+v", again)
	}
	number := alice.withheld()[0].Number
	if _, err := alice.node.Release(t.Context(), number, w.now); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.node.Release(t.Context(), number, w.now); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("released twice: %v", err)
	}
	if texts := alice.inbox(); len(texts) != 2 || texts[1] != `{"need":"x"}` || len(alice.withheld()) != 0 {
		t.Errorf("inbox %q", texts)
	}
	alice.view(func(tx *store.Tx) error {
		waiting, err := tx.CountUnhandled()
		if waiting != 2 {
			t.Errorf("%d unhandled", waiting)
		}
		return err
	})
}

// TestRuleThatCannotBeFollowedWithholds: a message that such a rule may be about is
// set aside, and the audit log tells it from one that a rule denies.
func TestRuleThatCannotBeFollowedWithholds(t *testing.T) {
	_, alice, bob := friends(t)
	for _, c := range []struct {
		rule policy.Rule
		code string
	}{
		{policy.Rule{Direction: policy.In, Peer: "nobody", Do: policy.Allow}, string(fault.InvalidArgument)},
		{policy.Rule{Direction: policy.In, Do: policy.Deny}, ""},
	} {
		alice.under(c.rule)
		sent := bob.send(alice, "x")
		if got := alice.pullOne(delivery.Delivered, ""); got.Withheld == nil || got.Message != nil {
			t.Errorf("result %+v", got)
		}
		bob.pull()
		rows := alice.audits(0)
		if last := rows[len(rows)-1]; last.Event != audit.MessageWithheld || last.Code != c.code || last.MessageID != sent.MessageID {
			t.Errorf("audit %+v", last)
		}
	}
}

// TestQuarantineFullIsTold: a message that was receipted, and goes for want of room
// in quarantine, is in the audit log.
func TestQuarantineFullIsTold(t *testing.T) {
	_, alice, bob := friends(t)
	alice.under(policy.Rule{Direction: policy.In, Do: policy.Deny})
	err := alice.store.Update(t.Context(), func(tx *store.Tx) error {
		for i := 0; ; i++ {
			gone, err := tx.AddWithheld(store.Message{MessageID: fmt.Sprint(i), Peer: "p", Body: []byte("{}")})
			if err != nil || gone != nil {
				return err
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	bob.send(alice, "one more")
	if got := alice.pullOne(delivery.Delivered, ""); got.Withheld == nil {
		t.Fatalf("result %+v", got)
	}
	alice.view(func(tx *store.Tx) error {
		rows, err := tx.Audits(store.AuditFilter{MessageID: "1", Peer: "p"})
		if len(rows) != 1 || rows[0].Event != audit.QuarantineDropped || rows[0].Code != string(fault.ReceiverCapacity) {
			t.Errorf("audit %+v", rows)
		}
		return err
	})
}

func (e *endpoint) withheld() (list []store.Withheld) {
	e.t.Helper()
	e.view(func(tx *store.Tx) (err error) {
		list, err = tx.WithheldMessages()
		return err
	})
	return list
}

// What the seen store has forgotten comes again: a message that is withheld is not
// judged by its rule a second time, and one that was shown is not withheld.
func TestWithheldOnceMore(t *testing.T) {
	w, alice, bob := traders(t)
	alice.under(policy.Rule{Direction: policy.In, Do: policy.Deny})
	sent := bob.trade(alice, commerce.RFQ, members("need", "x"))
	forget := func() {
		alice.update(func(tx *store.Tx) error { return tx.DeleteSeenOf(bob.id.ACEID(), w.now) })
	}
	m := delivery.Message{To: alice.id.ACEID(), Type: commerce.RFQ, ThreadID: "t", Body: members("need", "x")}
	forget()
	if got := alice.take(alice.sealMessage(bob, sent.MessageID, m)); got.Outcome != delivery.Delivered {
		t.Errorf("again: %+v", got)
	}
	if kept := alice.withheld(); len(kept) != 1 {
		t.Errorf("withheld %+v", kept)
	}
	if _, err := alice.node.Release(t.Context(), alice.withheld()[0].Number, w.now); err != nil {
		t.Fatal(err)
	}
	forget()
	if got := alice.take(alice.sealMessage(bob, sent.MessageID, m)); got.Outcome != delivery.Delivered || got.Withheld != nil {
		t.Errorf("shown, and again: %+v", got)
	}
	if kept := alice.withheld(); len(kept) != 0 || len(alice.inbox()) != 1 {
		t.Errorf("withheld %+v, inbox %q", kept, alice.inbox())
	}
}

// A rule about somebody whom nobody knows any more sets aside what comes.
func TestUnknownRuleWithholds(t *testing.T) {
	_, alice, bob := friends(t)
	alice.under(policy.Rule{Direction: policy.In, Peer: "mallory", Do: policy.Deny})
	bob.send(alice, "x")
	if got := alice.pullOne(delivery.Delivered, ""); got.Withheld == nil || len(alice.inbox()) != 0 {
		t.Errorf("result %+v", got)
	}
	if err := alice.node.CheckPolicy(t.Context()); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("check: %v", err)
	}
	alice.update(func(tx *store.Tx) error { return tx.SetName(alice.id.ACEID(), "mallory") })
	if err := alice.node.CheckPolicy(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	bob.send(alice, "y")
	if got := alice.pullOne(delivery.Delivered, ""); got.Message == nil {
		t.Errorf("of somebody else: %+v", got)
	}
}
