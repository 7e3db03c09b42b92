package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// A snapshot holds what an installation can safely go on from, and leaves the
// store it was taken from as it is.
func TestSnapshot(t *testing.T) {
	s := newStore(t)
	seed := suite.NewSeed()
	key := suite.NewDecapsulationKey(seed).PublicKey()
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(
			tx.Bind(alice),
			tx.PutPrekey(store.Prekey{ID: suite.Hex256(key), Slot: store.SlotCurrent, PublicKey: key, Seed: seed, At: 1}),
			tx.SetHeldPrekey(bob, store.HeldPrekey{PublicKey: key, Timestamp: 1, Pin: "x"}),
			tx.AddOutbox(store.OutboxEntry{MessageID: "m1", Peer: bob, Content: []byte("1"), State: store.Pending, ClaimedUntil: 9}),
			tx.AddOutbox(store.OutboxEntry{MessageID: "m2", Peer: bob, Content: []byte("2"), State: store.Delivered, SettledAt: 3}),
			tx.SetOwn(store.OwnDescriptor, store.Document{IssuedAt: 4, Raw: []byte("{}"), Relay: "https://r"}),
			tx.SetRegistration("https://r", store.Registration{Timestamp: 5, KELEnd: "x"}),
			tx.SetSeenHorizon(6), addSeen(tx, store.Seen{Timestamp: 7, Peer: bob, MessageID: "m3"}),
			tx.SetPin(bob, store.Pin{KEL: []byte("[1]"), FetchedAt: 8}),
			tx.SetBlock(store.Block{Peer: bob, Blocked: true, Revision: 9, Posted: "https://r", Settled: "https://r"}),
		)
	})
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := s.Snapshot(t.Context(), path, 50); err != nil {
		t.Fatal(err)
	}
	if c, err := store.CheckSnapshot(t.Context(), path, alice); err != nil || c.Outgoing != 2 || c.Messages != 0 {
		t.Errorf("check: %+v, %v", c, err)
	}
	if _, err := store.CheckSnapshot(t.Context(), path, bob); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("for another identity: %v", err)
	}
	if raw, err := os.ReadFile(path); err != nil || bytes.Contains(raw, key[:32]) {
		t.Errorf("the copy has a prekey in its bytes, %v", err)
	}

	copied, err := store.Open(t.Context(), moved(t, path), suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	update(t, copied, func(tx *store.Tx) error {
		keys, err := tx.Prekeys("")
		check(t, err, len(keys) == 0, "prekeys %v", keys)
		_, held, err := tx.HeldPrekey(bob)
		check(t, err, !held, "a held prekey")
		m1, _, err := tx.Outbox("m1")
		check(t, err, m1.State == store.Expired && m1.Abandoned && m1.SettledAt == 50 && m1.ClaimedUntil == 0, "pending became %+v", m1)
		m2, _, err := tx.Outbox("m2")
		check(t, err, m2.State == store.Delivered && m2.SettledAt == 3, "delivered became %+v", m2)
		own, ok, err := tx.Own(store.OwnDescriptor)
		check(t, err, ok && own.IssuedAt == 4 && own.Relay == "", "own %+v", own)
		r, _, err := tx.Registration("https://r")
		check(t, err, r.Timestamp == 5 && r.KELEnd == "", "registration %+v", r)
		seen, err := tx.HasSeen(bob, "m3")
		check(t, err, seen, "the seen store is empty")
		h, _, err := tx.SeenHorizon()
		check(t, err, h == 6, "horizon %d", h)
		due, err := tx.UnsettledBlocks("https://r")
		check(t, err, len(due) == 1 && due[0].Revision == 9, "blocks to be registered: %v", due)
		_, pinned, err := tx.Pin(bob)
		check(t, err, pinned, "no pin")
		return nil
	})
	update(t, s, func(tx *store.Tx) error {
		keys, err := tx.Prekeys("")
		check(t, err, len(keys) == 1, "the store has %d prekeys", len(keys))
		m1, _, err := tx.Outbox("m1")
		check(t, err, m1.State == store.Pending, "the store has %+v", m1)
		return nil
	})
}

// moved puts a file into a folder that a store accepts.
func moved(t *testing.T, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "own", "store.db")
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, to), os.Chmod(to, 0o600)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestCheckSnapshotRefusesWhatIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "copy.db")
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error { return tx.Bind(alice) })
	if err := s.Snapshot(t.Context(), path, 1); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zeroed := bytes.Clone(whole)
	clear(zeroed[len(zeroed)/2:])
	for name, text := range map[string][]byte{"no database": []byte("nothing"), "cut": whole[:len(whole)/2], "zeroed": zeroed} {
		bad := filepath.Join(t.TempDir(), "bad.db")
		if err := os.WriteFile(bad, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.CheckSnapshot(t.Context(), bad, alice); !errors.Is(err, fault.StorageFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
