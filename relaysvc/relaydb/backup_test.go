package relaydb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

func dataDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(dir, 0o700))
	return dir
}

// TestBackupIsWhole takes a backup of a store in use and verifies it from its
// file.
func TestBackupIsWhole(t *testing.T) {
	dir := dataDir(t)
	d := open(t, filepath.Join(dir, "relay.db"))
	registered(t, d, "alice")
	for i := range 3 {
		enqueue(t, d, packet("alice", "bob", fmt.Sprint("packet ", i)))
	}
	path := filepath.Join(dir, "copy.db")
	b, err := d.Backup(ctx, path, now+5)
	must(t, err)
	if !b.Restorable() || b.Entries != 3 || b.Identities != 1 || b.TakenAt != now+5 || len(b.SHA256) != 64 {
		t.Fatalf("backup %+v", b)
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode().Perm() != 0o600 || info.Size() != b.Size {
		t.Fatalf("mode %v, size %d", info.Mode(), info.Size())
	}
	read, err := relaydb.VerifyFile(ctx, path, now)
	must(t, err)
	if len(read.Problems) > 0 || read.Entries != 3 || read.TakenAt != now+5 {
		t.Fatalf("report %+v", read)
	}
	if _, err := d.Backup(ctx, path, now); fault.CodeOf(err) != fault.StorageFailed {
		t.Fatalf("a second backup of the same name: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.partial*"))
	must(t, err)
	if len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}

// TestVerifyFindsAChangedPacket changes one byte of one packet.
func TestVerifyFindsAChangedPacket(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := open(t, path)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "the packet that changes"))
	enqueue(t, d, packet("alice", "bob", "the packet that stays"))
	must(t, d.Close())
	flip(t, path, "the packet that changes")
	r, err := relaydb.VerifyFile(ctx, path, now)
	must(t, err)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "not the one that was queued") {
		t.Fatalf("problems %q", r.Problems)
	}
}

// flip changes the last byte of a text in a file.
func flip(t *testing.T, path, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	i := strings.Index(string(data), text)
	if i < 0 {
		t.Fatalf("%q is not in the file", text)
	}
	data[i+len(text)-1] ^= 1
	must(t, os.WriteFile(path, data, 0o600))
}

// TestRestoreGoesOnInANewGeneration: what is queued after a restore is above
// every stream ID that was given before it, also above those given after the
// backup.
func TestRestoreGoesOnInANewGeneration(t *testing.T) {
	dir := dataDir(t)
	path, copied := filepath.Join(dir, "relay.db"), filepath.Join(dir, "copy.db")
	d := open(t, path)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "before"))
	_, err := d.Backup(ctx, copied, now)
	must(t, err)
	enqueue(t, d, packet("alice", "bob", "after"))
	if _, err := relaydb.Restore(ctx, copied, path, true, now); fault.CodeOf(err) != fault.LockBusy {
		t.Fatalf("restored under a running relay: %v", err)
	}
	must(t, d.Close())

	if _, err := relaydb.Restore(ctx, copied, path, false, now); fault.CodeOf(err) != fault.StorageFailed {
		t.Fatalf("replaced a store without force: %v", err)
	}
	r, err := relaydb.Restore(ctx, copied, path, true, now+9)
	must(t, err)
	if r.Generation != 2 || r.Replaced == "" {
		t.Fatalf("restored %+v", r)
	}
	d = open(t, path)
	enqueue(t, d, packet("alice", "bob", "new"))
	got := queue(t, d, "alice")
	if len(got) != 2 || got[0].StreamID != "1-1" || got[1].StreamID != "2-2" {
		t.Fatalf("queue %v", got)
	}
	if d.RestoredAt() != now+9 {
		t.Fatalf("restored at %d", d.RestoredAt())
	}
	must(t, d.Close())
	if old, err := relaydb.VerifyFile(ctx, r.Replaced, now); err != nil || old.Entries != 2 {
		t.Fatalf("the replaced store: %+v, %v", old, err)
	}
}

// TestRestoreRefusesWhatIsNoWholeBackup, and leaves no store behind.
func TestRestoreRefusesWhatIsNoWholeBackup(t *testing.T) {
	dir := dataDir(t)
	path, copied := filepath.Join(dir, "relay.db"), filepath.Join(dir, "copy.db")
	d := open(t, path)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "the packet in the backup"))
	_, err := d.Backup(ctx, copied, now)
	must(t, err)
	must(t, d.Close())

	target := filepath.Join(dir, "other", "relay.db")
	flip(t, copied, "the packet in the backup")
	for name, from := range map[string]string{"no backup": path, "changed": copied, "missing": filepath.Join(dir, "none.db")} {
		if _, err := relaydb.Restore(ctx, from, target, false, now); fault.CodeOf(err) != fault.StorageFailed {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(target); err == nil {
			t.Errorf("%s: a store was left", name)
		}
	}
}
