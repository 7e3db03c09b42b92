package keystore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// Rename gives the folder of an identity another name beside it. Codes:
// invalid_argument for a name that is taken, identity_unavailable, lock_busy,
// storage_failed.
func Rename(from, to, command string, now int64) (renamed *Store, err error) {
	s, err := Open(from)
	if err != nil {
		return nil, err
	}
	parent := filepath.Dir(to)
	names, err := lockNames(parent, command, now)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, names.Release()) }()
	lock, err := s.Lock(command, now)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := checkFree(to); err != nil {
		return nil, err
	}
	if err := os.Rename(from, to); err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if err := ownerfile.SyncDir(parent); err != nil {
		return nil, err
	}
	return Open(to)
}

// lockNames takes the lock under which names are given in a folder of
// identities.
func lockNames(parent, command string, now int64) (*ownerfile.Lock, error) {
	return ownerfile.Acquire(filepath.Join(parent, ".create.lock"), command, now)
}

// checkFree refuses a folder that is there. The caller holds the lock of names.
func checkFree(dir string) error {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.InvalidArgument, "%s exists already; an identity is never replaced", dir)
	}
	return nil
}
