package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestOrderOfEnqueue: each case is wrong in its own way and in those behind it,
// and stores nothing (06#outbox-sender, 08#sender-state-and-busy-threads step 1).
func TestOrderOfEnqueue(t *testing.T) {
	type queueing struct {
		alice, bob *endpoint
		m          delivery.Message
	}
	faults := []struct {
		name  string
		spoil func(q *queueing)
		code  fault.Code
	}{
		{"recipient", func(q *queueing) { q.m.To = q.bob.id.ACEID() }, fault.InvalidArgument},
		{"type", func(q *queueing) { q.m.Type = "example:none:1" }, fault.UnsupportedSchema},
		{"body", func(q *queueing) { q.m.Body = members("price", "1") }, fault.InvalidBody},
		{"peer", func(q *queueing) { q.m.To = wire.ACEID(suite.Hex256(nil)) }, fault.UnknownPeer},
		{"permit", func(q *queueing) {
			q.bob.update(func(tx *store.Tx) error {
				return tx.SetPermit(q.alice.id.ACEID(), store.PermitHeld, q.bob.worthless(q.alice))
			})
		}, fault.NotPermitted},
		{"busy thread", func(q *queueing) {
			q.bob.update(func(tx *store.Tx) error {
				return tx.AddOutbox(store.OutboxEntry{
					MessageID: suite.NewMessageID(), Peer: q.alice.id.ACEID(), Type: commerce.Offer, ThreadID: "t", State: store.Pending, Content: []byte("{}"),
				})
			})
		}, fault.ThreadBusy},
		{"rule", func(q *queueing) {
			q.bob.update(func(tx *store.Tx) error {
				first := profile.ThreadEntry{Type: commerce.RFQ, MessageID: suite.NewMessageID(), From: q.bob.id.ACEID()}
				return delivery.Threads(tx, profile.CommerceID, q.bob.id.ACEID()).Append(q.alice.id.ACEID(), "t", first, string(commerce.Requested), false)
			})
		}, commerce.TransitionNotAllowed},
		{"none", func(*queueing) {}, ""},
	}
	for i, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, alice, bob := traders(t)
			q := &queueing{alice, bob, delivery.Message{To: alice.id.ACEID(), Type: commerce.RFQ, ThreadID: "t", Body: members("need", "x")}}
			for j := len(faults) - 1; j >= i; j-- { // what is wrong with the recipient comes last
				faults[j].spoil(q)
			}
			before := bob.outboxSize()
			if _, err := bob.node.Enqueue(t.Context(), q.m, w.now); fault.CodeOf(err) != c.code {
				t.Errorf("%v, want %q", err, c.code)
			}
			if stored := bob.outboxSize() > before; stored != (c.code == "") {
				t.Errorf("stored: %t", stored)
			}
		})
	}
}

func (e *endpoint) outboxSize() (n int) {
	e.t.Helper()
	e.view(func(tx *store.Tx) error {
		entries, err := tx.OutboxEntries()
		n = len(entries)
		return err
	})
	return n
}

// TestPacketsAreSignedAtTheSignersTime: with a clock behind the signer's own log,
// a message and a receipt are signed at the time of its last event
// (06#outbox-sender step 2).
func TestPacketsAreSignedAtTheSignersTime(t *testing.T) {
	w, alice, bob := friends(t)
	w.now += 60
	bob.delegate(bob.id.State())
	bob.open()
	bob.publish("")
	w.now -= 60
	bob.send(alice, "x")
	if got := w.last().Timestamp; got != start+60 {
		t.Errorf("a message is signed at %d", got)
	}
	alice.pullOne(delivery.Delivered, "")

	bob.take(sealTo(bob, alice.id, profile.TextType, textBody("y"), w.now))
	if got := w.last(); got.To != alice.id.ACEID() || got.Timestamp != start+60 {
		t.Errorf("the receipt is signed at %d", got.Timestamp)
	}
	alice.pullOne(delivery.Delivered, "")
}

// TestHeldPrekeyEnds: a first attempt uses the peer prekey while less than
// OFFLINE_WINDOW_SECONDS have passed since the packet that carried it
// (06#outbox-sender step 2).
func TestHeldPrekeyEnds(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	alice.pull()
	bob.pull()
	carried, key := w.now, packet.PrekeyID(bob.heldOf(alice))
	for _, c := range []struct {
		after int64
		held  bool
	}{{wire.OfflineWindowSeconds - 1, true}, {wire.OfflineWindowSeconds, false}} {
		w.now = carried + c.after
		alice.publish("open")
		bob.send(alice, "y")
		if held := w.last().Prekey == key; held != c.held {
			t.Errorf("after %d s the held prekey is used: %t", c.after, held)
		}
	}
}

// hooked is a network that does something before it fails to look a peer up.
type hooked struct {
	endpointNet
	meanwhile func()
}

func (n *hooked) Lookup(context.Context, string, string) (wire.Value, error) {
	n.meanwhile()
	return wire.Value{}, fault.New(fault.RelayUnavailable, "down")
}

// TestPinMovesDuringARefresh: a retry whose refresh fails goes on with the cached
// descriptor only while it is bound to the current pin, the one behind the
// refresh (06#outbox-sender step 1).
func TestPinMovesDuringARefresh(t *testing.T) {
	for name, moves := range map[string]bool{"the pin stays": false, "the pin moves": true} {
		t.Run(name, func(t *testing.T) {
			w, alice, bob := friends(t)
			sent := bob.send(alice, "x")
			w.now += 60
			alice.delegate(alice.id.State())
			bob.replaceNet(&hooked{endpointNet{w, bob.id.ACEID()}, func() {
				if moves {
					bob.update(func(tx *store.Tx) error {
						return tx.SetPin(alice.id.ACEID(), store.Pin{KEL: alice.id.State().Raw(), FetchedAt: w.now})
					})
				}
			}})
			posted := len(w.posted)
			_, err := bob.node.Attempt(t.Context(), sent.MessageID, w.now)
			if moves && !errors.Is(err, fault.StalePeerBinding) || !moves && err != nil {
				t.Errorf("Attempt: %v", err)
			}
			if sent := len(w.posted) > posted; sent == moves {
				t.Errorf("posted: %t", sent)
			}
		})
	}
}

// TestPermitIsPresented: a message and a receipt are posted with the permit held
// of the peer (06#outbox-sender step 3, 06#receipts).
func TestPermitIsPresented(t *testing.T) {
	w, alice, bob := friends(t)
	bob.send(alice, "x")
	if want := bob.permit(alice, store.PermitHeld).Raw; want == nil || !bytes.Equal(w.permit[len(w.permit)-1], want) {
		t.Error("the message is posted with another permit")
	}
	alice.pullOne(delivery.Delivered, "")
	if want := alice.permit(bob, store.PermitHeld).Raw; want == nil || !bytes.Equal(w.permit[len(w.permit)-1], want) {
		t.Error("the receipt is posted with another permit")
	}
}

// TestPruneKeepsWhatWaits: an ended message leaves the Outbox in the end, and an
// expired one not before OFFLINE_WINDOW_SECONDS have passed since; a pending one
// stays (06#outbox-sender).
func TestPruneKeepsWhatWaits(t *testing.T) {
	w, alice, bob := friends(t)
	expired, waiting := bob.enqueue(alice, "x"), bob.enqueue(alice, "y")
	if _, err := bob.node.Abandon(t.Context(), expired.MessageID, w.now); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after int64
		left  int
	}{{0, 2}, {wire.OfflineWindowSeconds - 1, 2}, {366 * 86400, 1}} {
		w.now = start + c.after
		if _, err := bob.node.Prune(t.Context(), w.now); err != nil {
			t.Fatal(err)
		}
		if n := bob.outboxSize(); n != c.left {
			t.Errorf("after %d s: %d entries", c.after, n)
		}
	}
	if bob.entry(waiting.MessageID).State != store.Pending {
		t.Error("the pending message is gone")
	}
}

// TestUnknownPrekeyBehindTheEnd: rejected:unknown_prekey counts for a pending
// message, and not once its time is over, whether or not somebody has noticed
// (06#outbox-sender).
func TestUnknownPrekeyBehindTheEnd(t *testing.T) {
	for after, counts := range map[int64]bool{wire.OfflineWindowSeconds - 1: true, wire.OfflineWindowSeconds: false} {
		w, alice, bob := friends(t)
		bob.send(alice, "x")
		alice.pull()
		bob.pull() // bob holds a peer prekey now
		sent := bob.send(alice, "y")
		if !sent.PrekeyIsPeer {
			t.Fatal("no peer prekey is used: the test does not look")
		}
		w.now += after
		body := delivery.ReceiptBody{MessageID: sent.MessageID, Outcome: delivery.OutcomeRejected, Code: string(fault.UnknownPrekey), Prekey: sent.Prekey}
		bob.take(sealTo(bob, alice.id, profile.ReceiptType, body.Value(), w.now))
		bob.view(func(tx *store.Tx) error {
			applied, err := tx.ReceiptApplied(sent.MessageID, body.Outcome, body.Prekey)
			if applied != counts {
				t.Errorf("after %d s it counts: %t", after, applied)
			}
			return err
		})
	}
}

// The simulation let two processes retry at once: both had listed the message as
// due, and the second made its attempt right behind the first (06#outbox-sender,
// the delay after attempt n).
func TestAttemptDueWaitsForItsTime(t *testing.T) {
	w, alice, bob := friends(t)
	e := bob.send(alice, "x")
	posted := len(w.permit)
	for _, c := range []struct {
		now  int64
		want bool
	}{{e.NextAttemptAt - 1, false}, {e.NextAttemptAt, true}, {e.NextAttemptAt, false}} {
		_, taken, err := bob.node.AttemptDue(t.Context(), e.MessageID, c.now)
		if err != nil || taken != c.want {
			t.Errorf("at %d: %v, %v", c.now, taken, err)
		}
	}
	if n := len(w.permit) - posted; n != 1 {
		t.Errorf("%d attempts", n)
	}
}

// Who has queued a message and finds that another process has made its first
// attempt meanwhile leaves the second one to its time (06#outbox-sender).
func TestFirstAttemptOfAnotherProcess(t *testing.T) {
	w, alice, bob := friends(t)
	queued := bob.enqueue(alice, "once")
	bob.attempt(queued.MessageID) // of the other one
	posted := len(w.posted)
	entry, taken, err := bob.node.AttemptDue(t.Context(), queued.MessageID, w.now)
	if err != nil || taken || entry.Attempts != 1 || len(w.posted) != posted {
		t.Errorf("%+v, taken %v, %v, posted %d", entry, taken, err, len(w.posted)-posted)
	}
	w.now = entry.NextAttemptAt
	if entry, taken, err = bob.node.AttemptDue(t.Context(), queued.MessageID, w.now); err != nil || !taken || entry.Attempts != 2 {
		t.Errorf("%+v, taken %v, %v", entry, taken, err)
	}
}
