package delivery_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/profile/delegation"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// governed makes two endpoints that know each other follow a rule for a profile.
func governed(t *testing.T, id string, rule func() profile.Rule) (w *world, alice, bob *endpoint) {
	w, alice, bob = friends(t)
	for _, e := range []*endpoint{alice, bob} {
		installOfficial(t, e.set, id)
		if err := e.set.Govern(rule()); err != nil {
			t.Fatal(err)
		}
	}
	return w, alice, bob
}

// traders are alice, who sells, and bob, who buys.
func traders(t *testing.T) (w *world, alice, bob *endpoint) {
	return governed(t, profile.CommerceID, func() profile.Rule { return commerce.Rule{} })
}

func (e *endpoint) enqueueType(to *endpoint, messageType, thread string, body wire.Value) (store.OutboxEntry, error) {
	e.t.Helper()
	return e.node.Enqueue(e.t.Context(), delivery.Message{To: to.id.ACEID(), Type: messageType, ThreadID: thread, Body: body}, e.world.now)
}

// trade sends a commerce message on thread t and lets it and its receipt arrive.
func (e *endpoint) trade(to *endpoint, messageType string, body wire.Value) store.OutboxEntry {
	e.t.Helper()
	entry, err := e.enqueueType(to, messageType, "t", body)
	if err != nil {
		e.t.Fatal(err)
	}
	e.attempt(entry.MessageID)
	to.pullOne(delivery.Delivered, "")
	e.pullOne(delivery.Delivered, "")
	e.world.now++
	return entry
}

func members(pairs ...string) wire.Value {
	body := wire.NewObject()
	for i := 0; i < len(pairs); i += 2 {
		body = body.With(pairs[i], wire.NewString(pairs[i+1]))
	}
	return body
}

// history returns the state of thread t with a peer and its entries, the newest
// first.
func (e *endpoint) history(with *endpoint) (state string, entries []store.ThreadEntry) {
	e.t.Helper()
	e.view(func(tx *store.Tx) error {
		row, _, err := tx.Thread(profile.CommerceID, with.id.ACEID(), "t")
		if err != nil {
			return err
		}
		state = row.State
		entries, err = tx.ThreadEntries(profile.CommerceID, with.id.ACEID(), "t", 0)
		return err
	})
	return state, entries
}

// TestBothSidesKeepOneHistory: the sender's state follows what the receiver has
// applied (08#sender-state-and-busy-threads step 2), and both keep the same
// entries.
func TestBothSidesKeepOneHistory(t *testing.T) {
	_, alice, bob := traders(t)
	bob.trade(alice, commerce.RFQ, members("need", "x"))
	offer := alice.trade(bob, commerce.Offer, members("price", "1", "currency", "USDC"))
	bob.trade(alice, commerce.Accept, members("offerId", offer.MessageID))
	work := alice.trade(bob, commerce.Deliver, members("type", "inline", "content", "done"))
	bob.trade(alice, commerce.Confirm, members("deliverId", work.MessageID))

	state, ofAlice := alice.history(bob)
	bobState, ofBob := bob.history(alice)
	if state != string(commerce.Confirmed) || bobState != state || len(ofAlice) != 5 {
		t.Fatalf("alice %s %v, bob %s %v", state, ofAlice, bobState, ofBob)
	}
	// The last entry is bob's, and alice has sent others (commerce#bounds-and-retention).
	alice.view(func(tx *store.Tx) error {
		row, _, err := tx.Thread(profile.CommerceID, bob.id.ACEID(), "t")
		if !row.Sent {
			t.Error("alice has sent nothing, says her store")
		}
		return err
	})
	// Each attempt was made in the second its message was queued.
	if !reflect.DeepEqual(ofAlice, ofBob) {
		t.Errorf("alice has %v, bob has %v", ofAlice, ofBob)
	}
}

// TestEventTimes: on send the time is that of the Outbox entry, on receive that
// of the packet (08#profile-rules).
func TestEventTimes(t *testing.T) {
	w, alice, bob := traders(t)
	entry, err := bob.enqueueType(alice, commerce.RFQ, "t", members("need", "x"))
	if err != nil {
		t.Fatal(err)
	}
	w.now += 10
	bob.attempt(entry.MessageID)
	w.now += 10
	alice.pullOne(delivery.Delivered, "")
	bob.pullOne(delivery.Delivered, "")
	_, ofAlice := alice.history(bob)
	_, ofBob := bob.history(alice)
	if ofBob[0].Timestamp != w.now-20 || ofAlice[0].Timestamp != w.now-10 {
		t.Errorf("bob has %d, alice %d, now is %d", ofBob[0].Timestamp, ofAlice[0].Timestamp, w.now)
	}
}

// TestForgottenMessageIsNotJudgedAgain: a retry that arrives after the seen store
// has evicted its entry is delivered again, without meeting the state that the
// message itself has changed (06#deduplication, 06#receive-pipeline step 9).
func TestForgottenMessageIsNotJudgedAgain(t *testing.T) {
	w, alice, bob := traders(t)
	entry, err := bob.enqueueType(alice, commerce.RFQ, "t", members("need", "x"))
	if err != nil {
		t.Fatal(err)
	}
	bob.attempt(entry.MessageID)
	alice.pullOne(delivery.Delivered, "") // and the receipt is lost
	w.queues[bob.id.ACEID()] = nil
	alice.update(func(tx *store.Tx) error { return tx.DeleteSeen(w.now) })
	w.now += 60
	bob.attempt(entry.MessageID)
	alice.pullOne(delivery.Delivered, "")
	bob.pullOne(delivery.Delivered, "")
	if got := bob.entry(entry.MessageID); got.State != store.Delivered {
		t.Errorf("the sender has it as %s %s", got.State, got.RemoteCode)
	}
	if state, entries := alice.history(bob); state != string(commerce.Requested) || len(entries) != 1 {
		t.Errorf("thread %s, %v", state, entries)
	}
}

// TestRequestIDComesBeforeBusy: the same idempotency key returns the message that
// makes the thread busy.
func TestRequestIDComesBeforeBusy(t *testing.T) {
	w, alice, bob := traders(t)
	m := delivery.Message{To: alice.id.ACEID(), Type: commerce.RFQ, ThreadID: "t", Body: members("need", "x"), RequestID: "k"}
	first, err := bob.node.Enqueue(t.Context(), m, w.now)
	if err != nil {
		t.Fatal(err)
	}
	again, err := bob.node.Enqueue(t.Context(), m, w.now)
	if err != nil || again.MessageID != first.MessageID {
		t.Errorf("%v, %v", again.MessageID, err)
	}
	m.RequestID = ""
	if _, err := bob.node.Enqueue(t.Context(), m, w.now); !errors.Is(err, fault.ThreadBusy) {
		t.Errorf("without the key: %v", err)
	}
}

// TestExpiryIsNoticedByTheCheck: a message whose time is over makes no thread
// busy, also before somebody has looked.
func TestExpiryIsNoticedByTheCheck(t *testing.T) {
	w, alice, bob := traders(t)
	entry, err := bob.enqueueType(alice, commerce.RFQ, "t", members("need", "x"))
	if err != nil {
		t.Fatal(err)
	}
	entry.Attempts, entry.FirstAttemptAt = 1, w.now-wire.OfflineWindowSeconds+1
	bob.update(func(tx *store.Tx) error { return tx.SaveOutbox(entry) })
	if _, err := bob.enqueueType(alice, commerce.RFQ, "t", members("need", "x")); !errors.Is(err, fault.ThreadBusy) {
		t.Errorf("a second before: %v", err)
	}
	w.now++
	if _, err := bob.enqueueType(alice, commerce.RFQ, "t", members("need", "x")); err != nil {
		t.Error(err)
	}
}

// failing is a rule that fails as it is told.
type failing struct {
	commerce.Rule
	check, commit error
}

func (f *failing) Check(s profile.State, e profile.Event, body wire.Value) error {
	if f.check != nil {
		return f.check
	}
	return f.Rule.Check(s, e, body)
}

func (f *failing) Commit(s profile.State, e profile.Event, body wire.Value) error {
	if err := f.Rule.Commit(s, e, body); err != nil {
		return err
	}
	return f.commit
}

// TestRuleFailures: a verdict rejects; a state that cannot be read or written is
// a retry that leaves nothing behind, because the rule's commit, the delivery
// record and the seen entry are one transaction (06#receive-pipeline step 10).
func TestRuleFailures(t *testing.T) {
	disk := fault.New(fault.StorageFailed, "disk")
	for name, tt := range map[string]struct {
		rule    failing
		outcome delivery.Outcome
		code    fault.Code
	}{
		"verdict":          {failing{check: fault.New("some_rule", "no")}, delivery.Rejected, "some_rule"},
		"check on a disk":  {failing{check: disk}, delivery.Retry, fault.StorageFailed},
		"commit on a disk": {failing{commit: disk}, delivery.Retry, fault.StorageFailed},
		"no code":          {failing{check: errors.New("a broken rule")}, delivery.Retry, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []*failing
			_, alice, bob := governed(t, profile.CommerceID, func() profile.Rule {
				rules = append(rules, &failing{})
				return rules[len(rules)-1]
			})
			*rules[0] = tt.rule // alice's
			entry, err := bob.enqueueType(alice, commerce.RFQ, "t", members("need", "x"))
			if err != nil {
				t.Fatal(err)
			}
			bob.attempt(entry.MessageID)
			alice.pullOne(tt.outcome, tt.code)
			if state, entries := alice.history(bob); state != "" || len(entries) != 0 || len(alice.inbox()) != 0 {
				t.Errorf("thread %q %v, inbox %v", state, entries, alice.inbox())
			}
			if tt.outcome == delivery.Rejected {
				bob.pullOne(delivery.Delivered, "")
				if got := bob.entry(entry.MessageID); got.State != store.Rejected || got.RemoteCode != string(tt.code) {
					t.Errorf("the sender has it as %s %q", got.State, got.RemoteCode)
				}
				return
			}
			*rules[0] = failing{}
			alice.pullOne(delivery.Delivered, "")
		})
	}
}

// TestVerdictComesBeforeCapacity: a receiver that is full still rejects what a
// rule refuses (06#receive-pipeline step 10).
func TestVerdictComesBeforeCapacity(t *testing.T) {
	w, alice, bob := traders(t)
	bob.trade(alice, commerce.RFQ, members("need", "x"))
	full, err := delivery.New(t.Context(), delivery.Config{
		Identity: alice.id, Store: alice.store, Net: &endpointNet{w, alice.id.ACEID()}, Profiles: alice.set, Home: relay, Capacity: 1,
	}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	alice.node = full
	receive := func(thread string) delivery.Result {
		return alice.take(alice.sealMessage(bob, suite.NewMessageID(), delivery.Message{Type: commerce.RFQ, ThreadID: thread, Body: members("need", "x")}))
	}
	if r := receive("t"); r.Outcome != delivery.Rejected || r.Code != commerce.TransitionNotAllowed {
		t.Errorf("refused by the rule: %+v", r)
	}
	if r := receive("u"); r.Outcome != delivery.Hold || r.Code != fault.ReceiverCapacity {
		t.Errorf("passed by the rule: %+v", r)
	}
}

// TestDelegationMessage sends credentials through the whole pipeline
// (delegation#message-acedelegation1).
func TestDelegationMessage(t *testing.T) {
	w, alice, bob := governed(t, profile.DelegationID, func() profile.Rule { return delegation.Rule{} })
	c, err := delegation.Build(bob.id, alice.id.ACEID(), w.now+60, w.now)
	if err != nil {
		t.Fatal(err)
	}
	send := func(credential wire.Value) error {
		entry, err := bob.enqueueType(alice, delegation.MessageType, "", wire.NewObject(wire.M("credential", credential)))
		if err == nil {
			bob.attempt(entry.MessageID)
		}
		return err
	}
	if err := send(c.Value()); err != nil {
		t.Fatal(err)
	}
	alice.pullOne(delivery.Delivered, "")
	// The signature is checked on receive alone.
	if err := send(c.Value().With("expiresAt", wire.NewInt(w.now+59))); err != nil {
		t.Fatal(err)
	}
	alice.pullOne(delivery.Rejected, fault.InvalidBody)
	w.now += 60
	if err := send(c.Value()); !errors.Is(err, fault.InvalidBody) {
		t.Errorf("an expired one: %v", err)
	}
}

// watching is a rule that notes the events it sees.
type watching struct {
	commerce.Rule
	checked, committed []profile.Event
}

func (r *watching) Check(s profile.State, e profile.Event, body wire.Value) error {
	r.checked = append(r.checked, e)
	return r.Rule.Check(s, e, body)
}

func (r *watching) Commit(s profile.State, e profile.Event, body wire.Value) error {
	r.committed = append(r.committed, e)
	return r.Rule.Commit(s, e, body)
}

// TestEventOfARule: both steps see one event, and each side its own direction and
// time (08#profile-rules).
func TestEventOfARule(t *testing.T) {
	var rules []*watching
	w, alice, bob := governed(t, profile.CommerceID, func() profile.Rule {
		rules = append(rules, &watching{})
		return rules[len(rules)-1]
	})
	entry, err := bob.enqueueType(alice, commerce.RFQ, "t", members("need", "x"))
	if err != nil {
		t.Fatal(err)
	}
	w.now++
	bob.attempt(entry.MessageID)
	alice.pullOne(delivery.Delivered, "")
	bob.pullOne(delivery.Delivered, "")
	sent := profile.Event{
		Direction: profile.Send, From: bob.id.ACEID(), To: alice.id.ACEID(), MessageID: entry.MessageID,
		Timestamp: start, Type: commerce.RFQ, ThreadID: "t",
	}
	received := sent
	received.Direction, received.Timestamp = profile.Receive, start+1
	for i, want := range []profile.Event{received, sent} { // alice's rule was made first
		once := []profile.Event{want}
		if !slices.Equal(rules[i].checked, once) || !slices.Equal(rules[i].committed, once) {
			t.Errorf("checked %+v\ncommitted %+v\nwant each %+v", rules[i].checked, rules[i].committed, want)
		}
	}
}
