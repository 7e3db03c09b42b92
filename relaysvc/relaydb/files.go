package relaydb

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// prepareFiles makes the store's folder and file when they are missing, and
// refuses them when others than the owner can reach them. SQLite gives the
// files that it makes beside the store the mode of the store.
func prepareFiles(path string) error {
	if err := ownerfile.EnsureDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := ownerfile.CheckFile(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return fault.Wrap(fault.StorageFailed, f.Close())
}

// besides are the endings of the files that SQLite keeps beside a store. Each
// is part of it: with the files of another store, it would be played into that.
var besides = []string{"-journal", "-wal", "-shm"}

// removeStore removes a store that was being made, with what stands beside it.
func removeStore(path string) error {
	for _, ending := range append([]string{""}, besides...) {
		if err := os.Remove(path + ending); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.StorageFailed, err)
		}
	}
	return nil
}

// follow returns the file that stands behind a link in the place of a store:
// what is locked, and what SQLite keeps beside it, belongs to the file. A store
// that does not exist yet is where its path says.
func follow(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return "", fault.Wrap(fault.StorageFailed, err)
	}
	return real, ownerfile.CheckDir(filepath.Dir(real))
}
