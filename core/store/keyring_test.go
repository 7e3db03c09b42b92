package store

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
)

// ringStore is a store with prekeys in it.
func ringStore(t *testing.T, keys int) (s *Store, ids []string) {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "ace", "store.db"), suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	mustUpdate(t, s, func(tx *Tx) error {
		for i := range keys {
			seed := suite.NewSeed()
			key := suite.NewDecapsulationKey(seed)
			k := Prekey{ID: suite.Hex256(key.PublicKey()), Slot: SlotSuperseded, PublicKey: key.PublicKey(), Seed: seed, At: int64(i + 1)}
			if err := tx.PutPrekey(k); err != nil {
				return err
			}
			ids = append(ids, k.ID)
		}
		return nil
	})
	return s, ids
}

func mustUpdate(t *testing.T, s *Store, f func(*Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// usePrekey returns the key that the store uses in tx, which is not its caller's.
func usePrekey(tx *Tx, id string) (key *suite.DecapsulationKey, err error) {
	err = tx.UsePrekey(id, func(k *suite.DecapsulationKey) error { key = k; return nil })
	return key, err
}

func destroyed(k *suite.DecapsulationKey) bool {
	_, err := k.Decapsulate(make([]byte, 1120))
	return err != nil
}

// An expanded key stays while its row does, and no longer.
func TestKeyringFollowsTheRows(t *testing.T) {
	s, ids := ringStore(t, 3)
	used := make([]*suite.DecapsulationKey, 3)
	for range 2 {
		mustUpdate(t, s, func(tx *Tx) error {
			for i, id := range ids {
				k, err := usePrekey(tx, id)
				if err != nil || used[i] != nil && k != used[i] {
					t.Errorf("key %d was expanded again, or %v", i, err)
				}
				if suite.Hex256(k.PublicKey()) != id || destroyed(k) {
					t.Errorf("key %d is another", i)
				}
				used[i] = k
			}
			return nil
		})
	}
	undone := errors.New("undone")
	err := s.Update(t.Context(), func(tx *Tx) error { return errors.Join(tx.DeletePrekey(ids[0]), undone) })
	if !errors.Is(err, undone) || destroyed(used[0]) {
		t.Errorf("a deletion that was undone: %v", err)
	}
	mustUpdate(t, s, func(tx *Tx) error { return tx.DeletePrekey(ids[0]) })
	if !destroyed(used[0]) || destroyed(used[1]) {
		t.Error("DeletePrekey: the wrong keys are left")
	}
	mustUpdate(t, s, func(tx *Tx) error { return tx.DeletePrekeys(2) })
	if !destroyed(used[1]) || destroyed(used[2]) {
		t.Error("DeletePrekeys: the wrong keys are left")
	}
	mustUpdate(t, s, func(tx *Tx) error {
		if _, err := usePrekey(tx, ids[0]); !errors.Is(err, fault.StorageFailed) {
			t.Errorf("a deleted key: %v", err)
		}
		return nil
	})
	if err := s.Close(); err != nil || !destroyed(used[2]) {
		t.Errorf("a key outlives its store; %v", err)
	}
}

// A reader, whose row may be gone meanwhile, leaves no key behind, and a writer
// a bounded number, those it used last.
func TestKeyringIsBounded(t *testing.T) {
	s, ids := ringStore(t, keyringSize+1)
	err := s.View(t.Context(), func(tx *Tx) error {
		k, err := usePrekey(tx, ids[0])
		if err == nil && !destroyed(k) {
			t.Error("a reader's key outlives its use")
		}
		return err
	})
	if err != nil || len(s.keys.keys) != 0 {
		t.Errorf("%d keys kept, %v", len(s.keys.keys), err)
	}
	mustUpdate(t, s, func(tx *Tx) error {
		first, err := usePrekey(tx, ids[0])
		if err != nil {
			return err
		}
		second, err := usePrekey(tx, ids[1])
		for _, id := range append([]string{ids[0]}, ids[2:]...) {
			if _, err := usePrekey(tx, id); err != nil {
				return err
			}
		}
		if destroyed(first) || !destroyed(second) || len(s.keys.keys) != keyringSize {
			t.Errorf("of %d keys the wrong one went", len(s.keys.keys))
		}
		return err
	})
}
