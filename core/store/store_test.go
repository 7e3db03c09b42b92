package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver that the tests open files with

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

const alice = "ace:sha256:aaaa"

func open(t *testing.T, path string, key *suite.Seed) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), path, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newStore(t *testing.T) *store.Store {
	return open(t, filepath.Join(t.TempDir(), "ace", "store.db"), suite.NewSeed())
}

func update(t *testing.T, s *store.Store, f func(*store.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreTheOwnersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ace")
	path := filepath.Join(dir, "store.db")
	s := open(t, path, suite.NewSeed())
	update(t, s, func(tx *store.Tx) error { return tx.Bind(alice) })
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %04o", f.Name(), info.Mode().Perm())
		}
	}
}

func TestOpenRefusesWhatOthersCanReach(t *testing.T) {
	for _, c := range []struct {
		name, chmod string
		mode        os.FileMode
	}{
		{"store.db", "chmod 0600", 0o640},
		{"store.db-wal", "chmod 0600", 0o644},
		{"store.db-shm", "chmod 0600", 0o604},
		{".", "chmod 0700", 0o755},
	} {
		dir := filepath.Join(t.TempDir(), "ace")
		path := filepath.Join(dir, "store.db")
		key := suite.NewSeed()
		s, err := store.Open(t.Context(), path, key)
		if err != nil || s.Close() != nil {
			t.Fatal(err)
		}
		// A process that was killed leaves the files beside the database.
		f, err := os.OpenFile(filepath.Join(dir, c.name), os.O_CREATE, 0o600)
		if err == nil {
			err = f.Close()
		}
		if err != nil && c.name != "." {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, c.name), c.mode); err != nil {
			t.Fatal(err)
		}
		_, err = store.Open(t.Context(), path, key)
		if !errors.Is(err, fault.StorageFailed) || !strings.Contains(err.Error(), c.chmod) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestStoreOfANewerProgramIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ace", "store.db")
	key := suite.NewSeed()
	s, err := store.Open(t.Context(), path, key)
	if err != nil || s.Close() != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 999"); err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), path, key); !errors.Is(err, fault.StorageFailed) {
		t.Fatalf("opened: %v", err)
	}
}

// TestOlderStoreIsMigrated opens a file of schema version 1 with a message in it.
func TestOlderStoreIsMigrated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "store.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{string(first), "PRAGMA user_version = 1",
		"INSERT INTO message (message_id, peer, type, thread_id, body, sent_at, received_at) VALUES ('m', 'p', 't', '', x'', 1, 2)"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	update(t, open(t, path, suite.NewSeed()), func(tx *store.Tx) error {
		kept, err := tx.HasMessage("p", "m")
		check(t, err, kept, "the message is gone")
		other, err := tx.HasMessage("q", "m")
		check(t, err, !other, "a message of another peer")
		threads, err := tx.Threads("p", "")
		check(t, err, len(threads) == 0, "threads %v", threads)
		return nil
	})
}

func TestFailedUpdateChangesNothing(t *testing.T) {
	s := newStore(t)
	broken := errors.New("broken")
	err := s.Update(t.Context(), func(tx *store.Tx) error {
		return errors.Join(tx.SetPin(alice, store.Pin{KEL: []byte("[]")}), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	update(t, s, func(tx *store.Tx) error {
		if _, ok, err := tx.Pin(alice); ok || err != nil {
			t.Errorf("pin is there: %v", err)
		}
		return nil
	})
}

func TestEndOfContextIsNoStorageFailure(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Update(ctx, func(*store.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// One process writes at a time; the end of its context ends the wait of another.
func TestOneWriterAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ace", "store.db")
	key := suite.NewSeed()
	a, b := open(t, path, key), open(t, path, key)
	update(t, a, func(*store.Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := b.Update(ctx, func(*store.Tx) error { return errors.New("two writers at a time") })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waited: %v", err)
		}
		return nil
	})
	update(t, b, func(tx *store.Tx) error { return tx.SetName(alice, "al") })
}

// What a transaction has changed when its context ends is undone.
func TestEndOfContextUndoes(t *testing.T) {
	s := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Update(ctx, func(tx *store.Tx) error {
		err := tx.SetName(alice, "al")
		cancel()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	update(t, s, func(tx *store.Tx) error {
		name, err := tx.Name(alice)
		if name != "" {
			t.Errorf("name %q", name)
		}
		return err
	})
}

// A version is another one after every change but the mark of a message, made by
// whomever.
func TestVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ace", "store.db")
	key := suite.NewSeed()
	a, b := open(t, path, key), open(t, path, key)
	message := store.Message{MessageID: "m", Peer: alice, Type: "t", Body: []byte("{}")}
	var last store.Version
	for _, tt := range []struct {
		name   string
		by     *store.Store
		change func(*store.Tx) error
		same   bool
	}{
		{"nothing", a, func(*store.Tx) error { return nil }, true},
		{"a message", a, func(tx *store.Tx) error { return tx.AddMessage(message) }, false},
		{"its mark", a, func(tx *store.Tx) error { _, err := tx.SetHandled(message.Peer, "m"); return err }, true},
		{"its mark taken away", a, func(tx *store.Tx) error { _, err := tx.UnsetHandled(message.Peer, "m"); return err }, true},
		{"an attempt at it", a, func(tx *store.Tx) error {
			return tx.SetHandling(store.Handling{MessageID: "m", Peer: message.Peer, Attempts: 1})
		}, true},
		{"its mark, which ends the attempts", a, func(tx *store.Tx) error { _, err := tx.SetAllHandled(""); return err }, true},
		{"a name", a, func(tx *store.Tx) error { return tx.SetName(alice, "al") }, false},
		{"a deletion of nothing", a, func(tx *store.Tx) error { return tx.DeleteContact(alice) }, true},
		{"a name of another process", b, func(tx *store.Tx) error { return tx.SetName(alice, "ice") }, false},
		{"nothing by another process", b, func(*store.Tx) error { return nil }, true},
	} {
		var before, after store.Version
		read := func(into *store.Version) {
			update(t, a, func(tx *store.Tx) (err error) { *into, err = tx.Version(); return err })
		}
		read(&before)
		if before != last && last != (store.Version{}) {
			t.Errorf("%s: another version before it", tt.name)
		}
		update(t, tt.by, tt.change)
		read(&after)
		if same := before == after; same != tt.same {
			t.Errorf("%s: the same version is %t", tt.name, same)
		}
		last = after
	}
}

func TestTwoProcessesShareAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ace", "store.db")
	key := suite.NewSeed()
	a, b := open(t, path, key), open(t, path, key)
	update(t, a, func(tx *store.Tx) error { return tx.SetName(alice, "al") })
	if err := b.View(t.Context(), func(tx *store.Tx) error {
		name, err := tx.Name(alice)
		if name != "al" {
			t.Errorf("name %q", name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func TestBinding(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error { return tx.Bind(alice) })
	update(t, s, func(tx *store.Tx) error { return tx.Bind(alice) })
	err := s.Update(t.Context(), func(tx *store.Tx) error { return tx.Bind("ace:sha256:bbbb") })
	if !errors.Is(err, fault.StorageFailed) {
		t.Fatal(err)
	}
}

func TestReceiveLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ace", "store.db")
	key := suite.NewSeed()
	a, b := open(t, path, key), open(t, path, key)
	release, err := a.LockReceive("ace listen", 7)
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.LockReceive("ace pull", 8)
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != fault.LockBusy || e.Holder == nil || !strings.Contains(e.Holder.Command, "ace listen") {
		t.Fatalf("second lock: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	release, err = b.LockReceive("ace pull", 9)
	if err != nil {
		t.Fatal(err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func prekey(peer, slot string) store.Prekey {
	seed := suite.NewSeed()
	dk := suite.NewDecapsulationKey(seed)
	defer dk.Destroy()
	return store.Prekey{ID: suite.Hex256(dk.PublicKey()), Peer: peer, Slot: slot, PublicKey: dk.PublicKey(), Seed: seed, At: 5}
}

func TestPrekeys(t *testing.T) {
	s := newStore(t)
	offered, current := prekey(alice, store.SlotOffered), prekey("", store.SlotCurrent)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.PutPrekey(offered), tx.PutPrekey(current), tx.MovePrekey(offered.ID, store.SlotInUse, 9))
	})
	update(t, s, func(tx *store.Tx) error {
		got, err := tx.Prekeys(alice)
		if err != nil || len(got) != 1 {
			t.Fatalf("%d keys: %v", len(got), err)
		}
		if k := got[0]; k.ID != offered.ID || k.Slot != store.SlotInUse || k.At != 9 || !k.Seed.Equal(offered.Seed) {
			t.Errorf("got %+v", k)
		}
		return tx.DeletePrekey(offered.ID)
	})
	update(t, s, func(tx *store.Tx) error {
		if got, err := tx.Prekeys(alice); len(got) != 0 || err != nil {
			t.Errorf("%d keys: %v", len(got), err)
		}
		return nil
	})
}

// A sealed seed opens only in its own row and under its own vault key.
func TestSealedSeedIsBoundToItsRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ace", "store.db")
	key := suite.NewSeed()
	s := open(t, path, key)
	k := prekey(alice, store.SlotOffered)
	update(t, s, func(tx *store.Tx) error { return tx.PutPrekey(k) })

	other := open(t, path, suite.NewSeed())
	view := func(s *store.Store, peer string) error {
		return s.View(t.Context(), func(tx *store.Tx) error { _, err := tx.Prekeys(peer); return err })
	}
	if err := view(other, alice); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("another vault key: %v", err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE prekey SET public_key = ?", prekey(alice, store.SlotOffered).PublicKey); err != nil {
		t.Fatal(err)
	}
	if err := view(s, alice); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("another public key: %v", err)
	}
	if _, err := db.Exec("UPDATE prekey SET public_key = ?, peer = 'ace:sha256:bbbb'", k.PublicKey); err != nil {
		t.Fatal(err)
	}
	if err := view(s, "ace:sha256:bbbb"); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("another row: %v", err)
	}
}

// After a deleted key was scrubbed, neither its sealed seed nor its public key
// is in any file.
func TestDeletedSeedLeavesTheFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ace")
	path := filepath.Join(dir, "store.db")
	s := open(t, path, suite.NewSeed())
	k := prekey(alice, store.SlotOffered)
	update(t, s, func(tx *store.Tx) error { return tx.PutPrekey(k) })
	sealed := sealedSeed(t, path, k.ID)
	for name, b := range map[string][]byte{"sealed seed": sealed, "public key": k.PublicKey} {
		if !inFiles(t, dir, b) {
			t.Fatalf("%s is in no file: the test does not look", name)
		}
	}
	update(t, s, func(tx *store.Tx) error { return tx.DeletePrekey(k.ID) })
	if err := s.Scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"sealed seed": sealed, "public key": k.PublicKey} {
		if inFiles(t, dir, b) {
			t.Errorf("%s is still in a file", name)
		}
	}
}

func sealedSeed(t *testing.T, path, id string) []byte {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var sealed []byte
	if err := db.QueryRow("SELECT sealed FROM prekey WHERE id = ?", id).Scan(&sealed); err != nil {
		t.Fatal(err)
	}
	return sealed
}

func inFiles(t *testing.T, dir string, b []byte) bool {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		// A long value may be split over pages: its first bytes tell enough.
		if bytes.Contains(data, b[:24]) {
			return true
		}
	}
	return false
}
