package store_test

import (
	"compress/gzip"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// openSchema3 opens a copy of a store that the program wrote before schema 4: 240
// packets of three senders, every fourth without a message, and some of each
// other table.
func openSchema3(t *testing.T) (*store.Store, string) {
	t.Helper()
	path := unpackSchema3(t)
	key, err := suite.SeedFromBytes(make([]byte, 32)) // that its seeds are sealed under
	if err != nil {
		t.Fatal(err)
	}
	return open(t, path, key), path
}

func unpackSchema3(t *testing.T) (path string) {
	t.Helper()
	packed, err := os.Open(filepath.Join("testdata", "schema3.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "ace")
	path = filepath.Join(dir, "store.db")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSchema3KeepsMessages(t *testing.T) {
	s, path := openSchema3(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var handled, unhandled int64
	if err := db.QueryRow("SELECT sum(handled), sum(1 - handled) FROM message").Scan(&handled, &unhandled); err != nil {
		t.Fatal(err)
	}
	update(t, s, func(tx *store.Tx) error {
		waiting, err := tx.CountUnhandled()
		check(t, err, waiting == 139 && unhandled == 139 && handled == 41, "%d wait, %d of %d rows", waiting, unhandled, handled+unhandled)
		all, err := tx.Messages(store.MessageFilter{})
		check(t, err, len(all) == 180 && all[0].MessageID == "m-000" && all[0].ReceivedAt == 1200 && string(all[179].Body) == `{"text":"238"}`, "%d messages", len(all))
		check(t, nil, slices.IsSortedFunc(all, func(a, b store.Message) int { return int(a.ReceivedAt - b.ReceivedAt) }), "out of order")
		has, err := tx.HasMessage(all[7].Peer, all[7].MessageID)
		check(t, err, has, "message %+v is not found", all[7])

		// What comes is added behind them, and counted.
		next := store.Message{MessageID: "new", Peer: bob, Type: "t", Body: []byte("{}"), ReceivedAt: 2000}
		if err := tx.AddMessage(next); err != nil {
			return err
		}
		if err := tx.AddMessage(next); err != nil { // is there already
			return err
		}
		waiting, err = tx.CountUnhandled()
		check(t, err, waiting == 140, "%d wait", waiting)
		if err := tx.AddMessage(store.Message{MessageID: "read", Peer: bob, Type: "t", Body: []byte("{}"), ReceivedAt: 2001, Handled: true}); err != nil {
			return err
		}
		waiting, err = tx.CountUnhandled()
		check(t, err, waiting == 140, "%d wait", waiting)
		newest, err := tx.Messages(store.MessageFilter{Limit: 2})
		check(t, err, len(newest) == 2 && newest[0].MessageID == "new" && newest[1].MessageID == "read", "newest %+v", newest)
		for range 2 {
			if _, err := tx.SetHandled(bob, "new"); err != nil {
				return err
			}
		}
		waiting, err = tx.CountUnhandled()
		check(t, err, waiting == 139, "%d wait", waiting)
		return nil
	})
}

func TestSchema3KeepsTheSeenStore(t *testing.T) {
	s, _ := openSchema3(t)
	update(t, s, func(tx *store.Tx) error {
		for peer, want := range map[string]int64{"": 236, "ace:sha256:bb": 80, "ace:sha256:cc": 76, "ace:sha256:dd": 80} {
			n, err := tx.SeenCountOf(peer)
			check(t, err, n == want, "%d entries of %q, want %d", n, peer, want)
		}
		state, err := tx.SeenState("ace:sha256:cc")
		check(t, err, state == store.SeenState{Started: true, Horizon: 900, Entries: 236, Earliest: 1000, OfSender: 76, EarliestOfSender: 1011,
			HasSenderHorizon: true, SenderHorizon: 1010, SenderHorizons: true}, "state %+v", state)
		horizons, err := tx.CountSenderHorizons()
		check(t, err, horizons == 1, "%d sender horizons", horizons)
		all, err := tx.SeenEntries()
		check(t, err, len(all) == 236, "%d entries", len(all))
		check(t, nil, slices.IsSortedFunc(all, compareSeen), "out of order")
		first, ok, err := tx.SmallestSeen()
		check(t, err, ok && first == all[0], "smallest %+v, want %+v", first, all[0])
		of, ok, err := tx.SmallestSeenOf("ace:sha256:cc")
		check(t, err, ok && of.Timestamp > 1010, "smallest of one sender %+v", of)
		return nil
	})
}

func TestSchema3KeepsTheRest(t *testing.T) {
	s, path := openSchema3(t)
	update(t, s, func(tx *store.Tx) error {
		offered, err := tx.Prekeys(bob)
		check(t, err, len(offered) == 1 && offered[0].Slot == store.SlotOffered, "offered %v", offered)
		published, err := tx.Prekeys("")
		check(t, err, len(published) == 2, "published %v", published)
		pending, err := tx.OutboxPending(5)
		check(t, err, len(pending) == 1 && pending[0].MessageID == "o1", "pending %v", pending)
		applied, err := tx.ReceiptApplied("o2", "delivered", "")
		check(t, err, applied, "a receipt that was applied is not")
		due, err := tx.ContactsDueAPermit("d1")
		check(t, err, len(due) == 0, "due %v", due)
		return tx.DeletePrekeys(5)
	})
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var sound string
	var left int
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		t.Errorf("%s: %v", sound, err)
	}
	if err := db.QueryRow("SELECT count(*) FROM prekey").Scan(&left); err != nil || left != 1 {
		t.Errorf("%d prekeys are left, want the current one: %v", left, err)
	}
}
