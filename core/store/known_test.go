package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
)

// TestReadKnownChangesNothing: whoever only looks makes no file, and takes nothing
// from a store of another version or of others.
func TestReadKnownChangesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "ace", "store.db")
	if k, err := ReadKnown(t.Context(), path, 5); err != nil || k.Peers != nil {
		t.Errorf("no store: %+v, %v", k, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made")
	}
	key := suite.NewSeed()
	s, err := Open(t.Context(), path, key)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Update(t.Context(), func(tx *Tx) error {
		for _, name := range []string{"a", "b", "c"} {
			if err := tx.SetName("ace:sha256:"+name, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if k, err := ReadKnown(t.Context(), path, 2); err != nil || len(k.Peers) != 2 {
		t.Errorf("beside an open store: %+v, %v", k, err)
	}
	err = s.Update(t.Context(), func(tx *Tx) error { return tx.script("PRAGMA user_version = 99") })
	if err != nil {
		t.Fatal(err)
	}
	if k, err := ReadKnown(t.Context(), path, 2); err != nil || k.Peers != nil {
		t.Errorf("another version: %+v, %v", k, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKnown(t.Context(), path, 2); err == nil {
		t.Error("a file that others can read was read")
	}
}
