package store_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/store"
)

// TestHandling: the attempts at a message are there until it is marked, and begin
// anew when the mark is taken away.
func TestHandling(t *testing.T) {
	s := newStore(t)
	row := store.Handling{MessageID: "m", Peer: alice, Attempts: 3, Failures: 2, StartedAt: 5, Running: true, LastExit: 137, LastError: "e", NextAttemptAt: 9}
	update(t, s, func(tx *store.Tx) error {
		for _, peer := range []string{alice, bob} { // two senders may choose the same ID
			if err := tx.AddMessage(store.Message{MessageID: "m", Peer: peer, Type: "t", Body: []byte("{}")}); err != nil {
				return err
			}
		}
		return tx.SetHandling(row)
	})
	is := func(want store.Handling, waiting int) {
		t.Helper()
		update(t, s, func(tx *store.Tx) error {
			got, err := tx.Handling(alice, "m")
			check(t, err, got == want, "attempts %+v, want %+v", got, want)
			other, err := tx.Handling(bob, "m")
			check(t, err, other.Attempts == 0, "of the other %+v", other)
			left, err := tx.Unhandled(0, 9)
			check(t, err, len(left) == waiting, "waiting %+v", left)
			return nil
		})
	}
	again := func() (n int64) {
		t.Helper()
		update(t, s, func(tx *store.Tx) (err error) { n, err = tx.UnhandledAgain(); return err })
		return n
	}
	is(row, 2)
	before := again()
	update(t, s, func(tx *store.Tx) error { _, err := tx.SetHandled(alice, "m"); return err })
	is(store.Handling{MessageID: "m", Peer: alice}, 1)
	if again() != before {
		t.Error("a mark put something before the handlers")
	}
	update(t, s, func(tx *store.Tx) error {
		found, err := tx.UnsetHandled(alice, "m")
		check(t, err, found, "it is not found")
		found, err = tx.UnsetHandled(alice, "n")
		check(t, err, !found, "another is found")
		return nil
	})
	is(store.Handling{MessageID: "m", Peer: alice}, 2)
	if again() == before {
		t.Error("nothing tells that it came back")
	}

	// One that is given up comes back as well, without a mark.
	row.GivenUp = true
	update(t, s, func(tx *store.Tx) error { return tx.SetHandling(row) })
	is(row, 1)
	before = again()
	update(t, s, func(tx *store.Tx) error { _, err := tx.UnsetHandled(alice, "m"); return err })
	is(store.Handling{MessageID: "m", Peer: alice}, 2)
	if again() == before {
		t.Error("nothing tells that it came back")
	}
	update(t, s, func(tx *store.Tx) error {
		n, err := tx.SetAllHandled(bob)
		check(t, err, n == 1, "%d of bob's marked", n)
		n, err = tx.SetAllHandled("")
		check(t, err, n == 1, "%d marked", n)
		n, err = tx.CountUnhandled()
		check(t, err, n == 0, "%d wait", n)
		return nil
	})
}
