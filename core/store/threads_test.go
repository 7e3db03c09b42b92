package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/store"
)

// thread is a thread of profile p whose last entry has the given time.
func thread(peer, id string, at int64, final, sent bool) store.Thread {
	return store.Thread{Profile: "p", Peer: peer, ThreadID: id, State: "s", Final: final, Opener: peer, Sent: sent, Entries: 1, HeadAt: at}
}

func entry(n int) store.ThreadEntry {
	return store.ThreadEntry{Type: "t", MessageID: fmt.Sprint("m", n), Timestamp: int64(n), Sender: alice}
}

func TestThreadHistory(t *testing.T) {
	s := newStore(t)
	row := thread(alice, "x", 0, false, false)
	update(t, s, func(tx *store.Tx) error {
		for n := range 3 {
			row.Entries, row.HeadAt = n+1, int64(n)
			if err := tx.SaveThread(row, entry(n)); err != nil {
				return err
			}
		}
		return nil
	})
	update(t, s, func(tx *store.Tx) error {
		got, ok, err := tx.Thread("p", alice, "x")
		check(t, err, ok && got == row, "thread %+v", got)
		_, ok, err = tx.Thread("p", bob, "x")
		check(t, err, !ok, "a thread of another peer")
		_, ok, err = tx.Thread("q", alice, "x")
		check(t, err, !ok, "a thread of another profile")
		last, err := tx.ThreadEntries("p", alice, "x", 2)
		check(t, err, slices.Equal(last, []store.ThreadEntry{entry(2), entry(1)}), "last two %v", last)
		all, err := tx.ThreadEntries("p", alice, "x", 0)
		check(t, err, len(all) == 3, "all %v", all)
		known, err := tx.HasThreadEntry("p", alice, alice, "m1")
		check(t, err, known, "an entry is not known")
		known, err = tx.HasThreadEntry("p", alice, bob, "m1")
		check(t, err, !known, "the same message ID of another sender")
		return nil
	})
}

func TestOpenThreadsAreCountedByPeer(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(
			tx.SaveThread(thread(alice, "x", 1, false, false), entry(1)), tx.SaveThread(thread(alice, "y", 2, true, false), entry(2)),
			tx.SaveThread(thread(bob, "x", 3, false, false), entry(3)), tx.SaveThread(thread(alice, "z", 4, false, true), entry(4)),
		)
	})
	update(t, s, func(tx *store.Tx) error {
		n, err := tx.CountOpenThreads("p", alice)
		check(t, err, n == 2, "%d are open", n)
		ofAlice, err := tx.Threads("p", alice)
		check(t, err, len(ofAlice) == 3 && ofAlice[0].ThreadID == "x" && ofAlice[2].ThreadID == "z", "threads %v", ofAlice)
		all, err := tx.Threads("p", "")
		check(t, err, len(all) == 4 && all[2].Peer == bob, "threads %v", all)
		peers, err := tx.ThreadPeers("p", "x")
		check(t, err, slices.Equal(peers, []string{alice, bob}), "peers %q", peers)
		peers, err = tx.ThreadPeers("q", "x")
		check(t, err, len(peers) == 0, "peers of another profile %q", peers)
		return nil
	})
}

// TestDeleteThreads holds commerce#bounds-and-retention: a final thread, and one
// in which this identity has sent nothing, may go once its head is old; any other
// is kept.
func TestDeleteThreads(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(
			tx.SaveThread(thread(alice, "final", 9, true, true), entry(1)), tx.SaveThread(thread(alice, "silent", 9, false, false), entry(2)),
			tx.SaveThread(thread(alice, "sent", 9, false, true), entry(3)), tx.SaveThread(thread(alice, "queued", 9, false, false), entry(4)),
			tx.SaveThread(thread(alice, "final late", 10, true, true), entry(5)), tx.SaveThread(thread(alice, "silent late", 10, false, false), entry(6)),
			tx.AddOutbox(store.OutboxEntry{MessageID: "o", Peer: alice, ThreadID: "queued", Type: "t", State: store.Expired, Content: []byte("c")}),
			tx.AddOutbox(store.OutboxEntry{MessageID: "d", Peer: alice, ThreadID: "final", Type: "t", State: store.Delivered, Content: []byte("c")}),
			tx.AddOutbox(store.OutboxEntry{MessageID: "q", Peer: bob, ThreadID: "silent", Type: "t", State: store.Pending, Content: []byte("c")}),
		)
	})
	update(t, s, func(tx *store.Tx) error {
		n, err := tx.DeleteThreads("q", 10)
		check(t, err, n == 0, "%d threads of another profile went", n)
		n, err = tx.DeleteThreads("p", 10)
		check(t, err, n == 2, "%d went", n)
		left, err := tx.Threads("p", "")
		var ids []string
		for _, row := range left {
			ids = append(ids, row.ThreadID)
		}
		check(t, err, slices.Equal(ids, []string{"queued", "sent", "final late", "silent late"}), "left %q", ids)
		gone, err := tx.ThreadEntries("p", alice, "final", 0)
		check(t, err, len(gone) == 0, "the history stayed: %v", gone)
		return nil
	})
}

func TestPendingOn(t *testing.T) {
	s := newStore(t)
	add := func(id, peer, thread, messageType, state string, attempts int, first int64) store.OutboxEntry {
		return store.OutboxEntry{MessageID: id, Peer: peer, ThreadID: thread, Type: messageType, State: state, Attempts: attempts, FirstAttemptAt: first, Content: []byte("c")}
	}
	update(t, s, func(tx *store.Tx) error {
		for _, e := range []store.OutboxEntry{
			add("1", alice, "x", "new", store.Pending, 0, 0), add("2", alice, "x", "tried", store.Pending, 1, 11),
			add("3", alice, "x", "over", store.Pending, 1, 10), add("4", alice, "x", "done", store.Delivered, 1, 11),
			add("5", alice, "y", "elsewhere", store.Pending, 0, 0), add("6", bob, "x", "to another", store.Pending, 0, 0),
			add("7", alice, "", "no thread", store.Pending, 0, 0),
		} {
			if err := tx.AddOutbox(e); err != nil {
				return err
			}
		}
		for _, tt := range []struct{ thread, messageType, want string }{
			{"x", "new", "1"}, {"x", "tried", "2"}, {"x", "over", ""}, {"x", "done", ""}, {"x", "elsewhere", ""}, {"x", "to another", ""}, {"", "no thread", ""},
		} {
			got, err := tx.PendingOn(alice, tt.thread, []string{"other", tt.messageType}, 10)
			check(t, err, got == tt.want, "%s: %q", tt.messageType, got)
		}
		none, err := tx.PendingOn(alice, "x", nil, 10)
		check(t, err, none == "", "without types: %q", none)
		return nil
	})
}
