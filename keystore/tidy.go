package keystore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
)

// Interrupted reports whether a change of the log and the keys in the folder of an
// identity has not come to its end: it is under way, or its process has died.
func Interrupted(dir string) bool {
	s := &Store{dir: dir}
	return s.has(fillingDir) || s.has(changeDir)
}

// Unfinished returns the folders below a folder of identities that are being
// filled with a new one, or whose process has died. Code: storage_failed.
func Unfinished(parent string) (paths []string, err error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unfinished) && e.IsDir() {
			paths = append(paths, filepath.Join(parent, e.Name()))
		}
	}
	return paths, nil
}

// RemoveUnfinished removes what [Unfinished] finds, unless a process fills one:
// code lock_busy, which names it. Nobody has seen the keys of such a folder. Code:
// storage_failed.
func RemoveUnfinished(parent, command string, now int64) (err error) {
	lock, err := lockNames(parent, command, now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	return removeUnfinished(parent)
}
