package keystore_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/keystore"
)

// onDisk makes an identity on a small file system of its own.
func onDisk(t *testing.T) (s *keystore.Store, o keystore.CreateOptions, disk string) {
	t.Helper()
	disk = t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	o = options(t)
	o.Dir = filepath.Join(disk, "identities", "alice")
	return create(t, o), o, disk
}

// fill leaves so many pages of a disk free.
func fill(t *testing.T, disk string, pages int) (clear func()) {
	t.Helper()
	path := filepath.Join(disk, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	for {
		var st syscall.Statfs_t
		if err := syscall.Statfs(disk, &st); err != nil {
			t.Fatal(err)
		}
		if int(st.Bavail) <= pages {
			return func() { os.Remove(path) }
		}
		if _, err := f.Write(page); err != nil {
			t.Fatal(err)
		}
	}
}

// A disk that is full, wherever in the change it becomes so, leaves the old log
// with the old keys or the new one with the new, and the next change works.
func TestFullDisk(t *testing.T) {
	s, _, disk := onDisk(t)
	before := logOf(t, s)
	for pages := 0; ; pages++ {
		clear := fill(t, disk, pages)
		_, err := s.Delegate(renewal(t, s), later)
		after := logOf(t, s)
		if (err == nil) != (after.Seq() == before.Seq()+1) {
			t.Errorf("%d pages: seq %d after %d: %v", pages, after.Seq(), before.Seq(), err)
		}
		vault(t, s, nil)
		clear()
		if err == nil {
			if pages < 3 {
				t.Errorf("%d pages were enough: the disk was not full", pages)
			}
			break
		}
		if !errors.Is(err, fault.StorageFailed) || pages > 40 {
			t.Fatalf("%d pages: %v", pages, err)
		}
	}
	if _, err := s.Delegate(renewal(t, s), later); err != nil {
		t.Error(err)
	}
}

// On a disk that nobody can write to the identity is of use, and does not
// change.
func TestReadOnlyDisk(t *testing.T) {
	s, o, disk := onDisk(t)
	before := logOf(t, s)
	r := rotation(t, s, o)
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rotate(r, later); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("Rotate: %v", err)
	}
	if _, err := os.Lstat(r.NextRootPath); err == nil {
		t.Error("a next root was written for nothing")
	}
	if logOf(t, s).LastHash() != before.LastHash() {
		t.Error("the log changed")
	}
	vault(t, s, nil)
}
