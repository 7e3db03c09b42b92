package keystore_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/keystore"
)

// remount makes a disk of onDisk writable or not.
func remount(t *testing.T, disk string, flags uintptr) {
	t.Helper()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT|flags, "size=1m,mode=0700"); err != nil {
		t.Fatal(err)
	}
}

// A disk that cannot be written to, or is full, keeps an identity as it is.
func TestNoChangeOnABadDisk(t *testing.T) {
	s, o, disk := onDisk(t)
	lock, err := s.Lock("test", now) // its file is there before the disk is full
	if err == nil {
		err = lock.Release()
	}
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(what string) {
		t.Helper()
		if err := s.ChangePassphrase(nil, []byte("correct horse"), "test", now); !errors.Is(err, fault.StorageFailed) {
			t.Errorf("%s: passphrase: %v", what, err)
		}
		if _, err := s.Destroy("test", now); !errors.Is(err, fault.StorageFailed) {
			t.Errorf("%s: destroy: %v", what, err)
		}
		if _, err := keystore.Open(o.Dir); err != nil {
			t.Errorf("%s: open: %v", what, err)
		}
		if root, agent := opens(t, s, nil); !root || !agent {
			t.Errorf("%s: root %v, agent %v", what, root, agent)
		}
	}
	remount(t, disk, syscall.MS_RDONLY)
	refuse("read-only")
	if _, err := keystore.Rename(o.Dir, o.Dir+"2", "test", now); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("read-only: rename: %v", err)
	}
	remount(t, disk, 0)
	empty := fill(t, disk, 0)
	refuse("full")
	empty()
	if left := names(t, o.Dir); !slices.Equal(left, []string{"agent.key", "identity.lock", "kel.json", "root.key"}) {
		t.Errorf("left behind %v", left)
	}
}
