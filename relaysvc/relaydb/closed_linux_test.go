package relaydb_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// frozen makes a folder with what fill puts there, and has nothing written to
// it afterwards: by its mode where that counts, else as a file system.
func frozen(t *testing.T, fill func(dir string)) (dir string) {
	t.Helper()
	dir = dataDir(t)
	if os.Geteuid() != 0 {
		fill(dir)
		must(t, os.Chmod(dir, 0o500))
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		return dir
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700"); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	fill(dir)
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	return dir
}

// TestReadOnlyFolder verifies a store where nothing can be written, and makes a
// backup of it elsewhere.
func TestReadOnlyFolder(t *testing.T) {
	dir := frozen(t, func(dir string) {
		d := open(t, filepath.Join(dir, "relay.db"))
		registered(t, d, "alice")
		enqueue(t, d, packet("alice", "bob", sized(1, 3000)))
		enqueue(t, d, packet("alice", "bob", sized(2, 3000)))
		must(t, d.Close())
	})
	path := filepath.Join(dir, "relay.db")
	if !relaydb.ReadOnly(path) || relaydb.ReadOnly(filepath.Join(t.TempDir(), "relay.db")) {
		t.Fatal("which folder can be written to is not told")
	}
	r, err := relaydb.VerifyFile(ctx, path, now)
	must(t, err)
	if r.Entries != 2 || len(r.Problems) > 0 || r.Unguarded {
		t.Fatalf("report %+v", r)
	}
	copied := filepath.Join(dataDir(t), "copy.db")
	b, err := relaydb.BackupFile(ctx, path, copied, now)
	must(t, err)
	if !b.Restorable() || b.Entries != 2 || b.Unguarded {
		t.Fatalf("backup %+v", b)
	}
	elsewhere := filepath.Join(t.TempDir(), "other", "relay.db")
	_, err = relaydb.Restore(ctx, copied, elsewhere, false, now)
	must(t, err)
	wantTexts(t, open(t, elsewhere), sized(1, 3000), sized(2, 3000))

	lock, err := os.Open(path + ".lock")
	must(t, err)
	defer lock.Close()
	must(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	if _, err := relaydb.VerifyFile(ctx, path, now); fault.CodeOf(err) != fault.LockBusy {
		t.Errorf("verified while another had the lock: %v", err)
	}
	if _, err := relaydb.BackupFile(ctx, path, copied+"2", now); fault.CodeOf(err) != fault.LockBusy {
		t.Errorf("copied while another had the lock: %v", err)
	}
}

// TestReadOnlyFolderWithoutALock says that it cannot tell who has a store open.
// A backup needs no lock.
func TestReadOnlyFolderWithoutALock(t *testing.T) {
	dir := frozen(t, func(dir string) {
		path := filepath.Join(dir, "relay.db")
		d := open(t, path)
		_, err := d.Backup(ctx, filepath.Join(dir, "copy.db"), now)
		must(t, err)
		must(t, d.Close())
		must(t, os.Remove(path+".lock"))
	})
	for name, want := range map[string]bool{"relay.db": true, "copy.db": false} {
		r, err := relaydb.VerifyFile(ctx, filepath.Join(dir, name), now)
		must(t, err)
		if len(r.Problems) > 0 || r.Unguarded != want {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestReadOnlyFolderOfAKilledRelay refuses what would have to be written first,
// and takes it where it can be: nothing that was accepted is left out.
func TestReadOnlyFolderOfAKilledRelay(t *testing.T) {
	live := dataDir(t)
	d := open(t, filepath.Join(live, "relay.db"))
	registered(t, d, "alice")
	must(t, d.Close())
	d = open(t, filepath.Join(live, "relay.db"))
	enqueue(t, d, packet("alice", "bob", "accepted"))
	killed := copyLive(t, live)
	dir := frozen(t, func(dir string) { copyFiles(t, dir, files(t, killed, "*")...) })
	path := filepath.Join(dir, "relay.db")
	_, verified := relaydb.VerifyFile(ctx, path, now)
	_, copied := relaydb.BackupFile(ctx, path, filepath.Join(dataDir(t), "copy.db"), now)
	for what, err := range map[string]error{"verified": verified, "copied": copied} {
		if !errors.Is(err, relaydb.ErrUnfinished) || fault.CodeOf(err) != fault.StorageFailed {
			t.Errorf("%s: %v", what, err)
		}
	}
	writable := dataDir(t)
	copyFiles(t, writable, files(t, dir, "*")...)
	r, err := relaydb.VerifyFile(ctx, filepath.Join(writable, "relay.db"), now)
	must(t, err)
	if r.Entries != 1 || len(r.Problems) > 0 {
		t.Errorf("a copy: %+v", r)
	}
}

// TestReadOnlyFolderAfterAPowerCut makes no backup of a store whose database has
// yet to learn what is in the log of packets.
func TestReadOnlyFolderAfterAPowerCut(t *testing.T) {
	live := dataDir(t)
	d := open(t, filepath.Join(live, "relay.db"))
	registered(t, d, "alice")
	must(t, d.Close())
	d = open(t, filepath.Join(live, "relay.db"))
	enqueue(t, d, packet("alice", "bob", "accepted"))
	killed := copyLive(t, live)
	must(t, os.Remove(filepath.Join(killed, "relay.db-wal")))
	dir := frozen(t, func(dir string) { copyFiles(t, dir, files(t, killed, "*")...) })
	target := filepath.Join(dataDir(t), "copy.db")
	if _, err := relaydb.BackupFile(ctx, filepath.Join(dir, "relay.db"), target, now); !errors.Is(err, relaydb.ErrUnfinished) {
		t.Errorf("copied: %v", err)
	}
}

// TestReadOnlyFolderOfAnEmptiedLog makes a backup of a store whose packets were
// all fetched: its log ends where it began anew.
func TestReadOnlyFolderOfAnEmptiedLog(t *testing.T) {
	dir := frozen(t, func(dir string) {
		d := openSegmented(t, filepath.Join(dir, "relay.db"), 8<<10)
		alice := registered(t, d, "alice")
		for n := range 5 {
			enqueue(t, d, packet("alice", "bob", sized(n, 3000)))
		}
		must(t, d.Ack(ctx, caller("alice", alice), "1-5"))
		d.Tidy()
		must(t, d.Close())
	})
	b, err := relaydb.BackupFile(ctx, filepath.Join(dir, "relay.db"), filepath.Join(dataDir(t), "copy.db"), now)
	must(t, err)
	if !b.Restorable() || b.Entries != 0 {
		t.Errorf("backup %+v", b)
	}
}
