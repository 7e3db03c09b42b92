package delivery_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// postedSince returns the IDs of the packets posted since there were so many.
func (w *world) postedSince(n int) (ids []string) {
	for _, p := range w.posted[n:] {
		ids = append(ids, p.MessageID)
	}
	return ids
}

// The first attempts of messages to one peer are made in the order they were
// queued, whichever of them is asked for, and whatever becomes of each. A retry
// waits for none and holds up none; those to others neither (agentlink: jobs to one
// recipient leave in the order they were created).
func TestFirstAttemptsInOrder(t *testing.T) {
	for name, refuse := range map[string]error{"taken": nil, "refused": fault.New(fault.RelayUnavailable, "down")} {
		t.Run(name, func(t *testing.T) {
			w, alice, bob := friends(t)
			carl := w.newEndpoint(t, "open", nil)
			befriend(bob, carl)
			a, b, c, other := bob.enqueue(alice, "a"), bob.enqueue(alice, "b"), bob.enqueue(alice, "c"), bob.enqueue(carl, "x")
			w.refuse = refuse
			n := len(w.posted)
			if _, err := bob.node.Attempt(t.Context(), b.MessageID, w.now); !errors.Is(err, refuse) {
				t.Fatal(err)
			}
			if got := w.postedSince(n); !slices.Equal(got, []string{a.MessageID, b.MessageID}) {
				t.Errorf("asked for the second, posted %v", got)
			}
			d := bob.enqueue(alice, "d")
			n = len(w.posted)
			bob.node.Attempt(t.Context(), d.MessageID, w.now) // its failure is looked at by what was posted
			if got := w.postedSince(n); !slices.Equal(got, []string{c.MessageID, d.MessageID}) {
				t.Errorf("behind two that wait for a retry, posted %v", got)
			}
			w.now += 60
			n = len(w.posted)
			bob.node.Attempt(t.Context(), a.MessageID, w.now)
			if got := w.postedSince(n); !slices.Equal(got, []string{a.MessageID}) {
				t.Errorf("a retry, posted %v", got)
			}
			if e := bob.entry(other.MessageID); e.Attempts != 0 {
				t.Error("one to somebody else was attempted")
			}
		})
	}
}

// While another process makes the first attempt of a message, those behind it wait,
// and nobody else.
func TestTurnOfAnotherProcess(t *testing.T) {
	w, alice, bob := friends(t)
	carl := w.newEndpoint(t, "open", nil)
	befriend(bob, carl)
	a, b, other := bob.enqueue(alice, "a"), bob.enqueue(alice, "b"), bob.enqueue(carl, "x")
	claim := func(until int64) {
		bob.update(func(tx *store.Tx) error {
			e := bob.entryIn(tx, a.MessageID)
			e.ClaimedUntil = until
			return tx.SaveOutbox(e)
		})
	}
	claim(w.now + 100)
	n := len(w.posted)
	if _, err := bob.node.Attempt(t.Context(), b.MessageID, w.now); !errors.Is(err, delivery.ErrNotItsTurn) || !errors.Is(err, fault.LockBusy) {
		t.Errorf("attempted: %v", err)
	}
	if e := bob.entry(b.MessageID); e.Attempts != 0 || e.ClaimedUntil != 0 || e.NextAttemptAt != b.NextAttemptAt || len(w.posted) != n {
		t.Errorf("it left %+v, posted %v", e, w.postedSince(n))
	}
	bob.attempt(other.MessageID)
	w.now += 100 // it died
	n = len(w.posted)
	bob.attempt(b.MessageID)
	if got := w.postedSince(n); !slices.Equal(got, []string{a.MessageID, b.MessageID}) {
		t.Errorf("posted %v", got)
	}
}

// The simulation let a message be attempted twice at once: a process that waited for
// its first attempt made the second one right behind that of another process.
func TestAttemptAheadIsTheFirst(t *testing.T) {
	w, alice, bob := friends(t)
	a := bob.send(alice, "a")
	n := len(w.posted)
	if err := bob.node.TestOnlyAttemptAhead(t.Context(), a.MessageID, w.now); err != nil || len(w.posted) != n {
		t.Errorf("posted %v: %v", w.postedSince(n), err)
	}
}

func (e *endpoint) entryIn(tx *store.Tx, messageID string) store.OutboxEntry {
	e.t.Helper()
	entry, ok, err := tx.Outbox(messageID)
	if err != nil || !ok {
		e.t.Fatalf("%s: %v", messageID, err)
	}
	return entry
}

// A clock that was set back neither lets a later message overtake nor holds it up,
// and one that is over, held or abandoned is ahead of none.
func TestTurnsWithoutTime(t *testing.T) {
	w, alice, bob := friends(t)
	gone := bob.enqueue(alice, "gone")
	if _, err := bob.node.Abandon(t.Context(), gone.MessageID, w.now); err != nil {
		t.Fatal(err)
	}
	a := bob.enqueue(alice, "a")
	w.now -= 50
	b := bob.enqueue(alice, "b")
	n := len(w.posted)
	if _, taken, err := bob.node.AttemptDue(t.Context(), b.MessageID, w.now); !taken || err != nil {
		t.Fatalf("%t, %v", taken, err)
	}
	if got := w.postedSince(n); !slices.Equal(got, []string{a.MessageID, b.MessageID}) {
		t.Errorf("posted %v", got)
	}
}

// TestBeforeEachAttempt: what may have changed since a message was queued is asked
// again before anything is looked up, sealed or posted; the message then waits on
// the retry schedule, with the reason in its entry, and goes on when that is over
// (agentlink: before each attempt, 06#outbox-sender step 3).
func TestBeforeEachAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		spoil, mend func(alice, bob *endpoint)
		code        fault.Code
		reason      string
	}{
		"nothing": {func(*endpoint, *endpoint) {}, func(*endpoint, *endpoint) {}, "", ""},
		"no signing key": {func(_, bob *endpoint) {
			bob.delegateUntil(bob.id.State(), bob.world.now+5)
			bob.open()
			bob.world.now += 5
		}, func(_, bob *endpoint) {
			bob.delegate(bob.id.State())
			bob.open()
		}, fault.IdentityUnavailable, delivery.ReasonNoIdentity},
		"blocked": {func(alice, bob *endpoint) {
			bob.node.Block(bob.t.Context(), alice.id.ACEID(), bob.world.now)
		}, func(alice, bob *endpoint) {
			bob.node.Unblock(bob.t.Context(), alice.id.ACEID(), bob.world.now)
		}, fault.NotPermitted, delivery.ReasonBlocked},
		"no permit": {func(alice, bob *endpoint) {
			bob.update(func(tx *store.Tx) error {
				return tx.SetPermit(alice.id.ACEID(), store.PermitHeld, bob.worthless(alice))
			})
		}, func(alice, bob *endpoint) {
			bob.update(func(tx *store.Tx) error {
				p := newPermit(bob.t, alice.id, bob.id.ACEID(), bob.world.now)
				return tx.SetPermit(alice.id.ACEID(), store.PermitHeld, store.Permit{Raw: p.Raw(), IssuedAt: p.IssuedAt, ExpiresAt: p.ExpiresAt})
			})
		}, fault.NotPermitted, delivery.ReasonNoPermit},
	} {
		for attempt, earlier := range []bool{false, true} { // the first attempt, and a later one
			t.Run(name+[]string{", first", ", later"}[attempt], func(t *testing.T) {
				t.Parallel()
				w, alice, bob := friends(t)
				sent := bob.enqueue(alice, "x")
				if earlier {
					w.refuse = fault.New(fault.RelayUnavailable, "down")
					bob.node.Attempt(t.Context(), sent.MessageID, w.now)
					w.refuse = nil
				}
				before := bob.entry(sent.MessageID)
				c.spoil(alice, bob)
				posted, offered, asked := len(w.posted), len(bob.slots(alice)), w.asked
				_, err := bob.node.Attempt(t.Context(), sent.MessageID, w.now)
				e := bob.entry(sent.MessageID)
				if fault.CodeOf(err) != c.code || e.LastError != string(c.code) || e.Reason != c.reason {
					t.Errorf("%v, entry %+v", err, e)
				}
				if c.code == "" {
					return
				}
				if len(w.posted) != posted || len(bob.slots(alice)) != offered || c.reason != delivery.ReasonNoPermit && w.asked != asked {
					t.Error("something was looked up, made or posted")
				}
				if e.State != store.Pending || e.Attempts != before.Attempts+1 || e.NextAttemptAt <= w.now || e.NextAttemptAt > w.now+3600 {
					t.Errorf("it does not wait for a retry: %+v", e)
				}
				c.mend(alice, bob)
				w.now = e.NextAttemptAt
				alice.publish("open")
				if _, taken, err := bob.node.AttemptDue(t.Context(), sent.MessageID, w.now); !taken || err != nil {
					t.Fatalf("after that: %t, %v", taken, err)
				}
				if e := bob.entry(sent.MessageID); e.Reason != "" || e.LastError != "" || e.Relay == "" {
					t.Errorf("after that: %+v", e)
				}
			})
		}
	}
}
