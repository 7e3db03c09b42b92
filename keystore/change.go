package keystore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// The log and the keys change together. What they are to become is written
// into a folder of its own, whose name tells whether it holds: from the rename
// on, every reader takes a file from there before it looks in its place, and
// whoever holds the lock next moves what is left. Killed before the rename, a
// change has not been; killed after it, it is made.
const (
	fillingDir = "change.new" // holds nothing yet
	changeDir  = "change"     // holds
	nextNote   = "next-root"  // in fillingDir: the next root written for this change
	replaced   = ".old"       // ends the name of a key file on its way out
)

// change is a change of the files being written. The lock is held.
type change struct {
	store *Store
	dir   string
}

func (s *Store) beginChange() (*change, error) {
	c := &change{store: s, dir: filepath.Join(s.dir, fillingDir)}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	return c, nil
}

// writeNextRoot writes a next-root file. It is noted first, so that it goes
// with a change that is never made: it would be taken for the next root of a
// log that does not commit to it.
func (c *change) writeNextRoot(path string, text []byte) error {
	note := suite.Hex256(text) + " " + path
	if err := ownerfile.Create(filepath.Join(c.dir, nextNote), []byte(note)); err != nil {
		return err
	}
	failpoint.Here(failpoint.NextRootNoted)
	if err := createNextRoot(path, text); err != nil {
		return err
	}
	failpoint.Here(failpoint.NextRootKept)
	return nil
}

// commit makes the given files those of the identity, all or none.
func (c *change) commit(files map[string][]byte) error {
	for name, text := range files {
		failpoint.Here(failpoint.ChangeWrite)
		if err := ownerfile.Create(filepath.Join(c.dir, name), text); err != nil {
			return err
		}
	}
	failpoint.Here(failpoint.ChangeWritten)
	if err := os.Rename(c.dir, filepath.Join(c.store.dir, changeDir)); err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	if err := ownerfile.SyncDir(c.store.dir); err != nil {
		return err // made, but not known to be durable: nothing may be published yet
	}
	failpoint.Here(failpoint.ChangeHolds)
	_ = c.store.finish() // what is left is moved by the next holder of the lock
	return nil
}

// Settle brings a change to its end whose process has died, unless another
// process holds the lock: then that one does. Codes: storage_failed.
func (s *Store) Settle(command string, now int64) error {
	if !s.has(fillingDir) && !s.has(changeDir) {
		return nil
	}
	lock, err := s.Lock(command, now)
	if errors.Is(err, fault.LockBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	return lock.Release()
}

func (s *Store) has(name string) bool {
	_, err := os.Lstat(filepath.Join(s.dir, name))
	return err == nil
}

// settle finishes a change that holds and removes one that does not. The lock
// is held.
func (s *Store) settle() error {
	if s.has(changeDir) {
		if err := s.finish(); err != nil {
			return err
		}
	}
	if s.has(fillingDir) {
		return s.abandon()
	}
	return nil
}

// abandon removes a change that was not made, and its next root.
func (s *Store) abandon() error {
	filling := filepath.Join(s.dir, fillingDir)
	note, err := ownerfile.Read(filepath.Join(filling, nextNote), keyFileLimit)
	if err == nil {
		err = removeNoted(string(note))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fault.Wrap(fault.StorageFailed, os.RemoveAll(filling))
}

// removeNoted removes the next root of a note if it is the very file.
func removeNoted(note string) error {
	digest, path, ok := strings.Cut(note, " ")
	if !ok {
		return nil
	}
	text, err := ownerfile.Read(path, keyFileLimit)
	if err != nil || suite.Hex256(text) != digest {
		return err
	}
	return fault.Wrap(fault.StorageFailed, os.Remove(path))
}

// finish moves the files of a change that holds to their places, the log
// first. What a key file held before is overwritten once its successor is
// durable; whether the disk keeps a copy is beyond a program.
func (s *Store) finish() error {
	entries, err := os.ReadDir(filepath.Join(s.dir, changeDir))
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	names := []string{logFile}
	for _, e := range entries {
		if n := e.Name(); n != logFile && n != nextNote && !strings.HasSuffix(n, replaced) {
			names = append(names, n)
		}
	}
	for _, name := range names {
		failpoint.Here(failpoint.ChangeMove)
		if err := s.move(name); err != nil {
			return err
		}
	}
	if err := ownerfile.SyncDir(s.dir); err != nil {
		return err
	}
	failpoint.Here(failpoint.ChangeMoved)
	return s.eraseReplaced()
}

// move gives a file of the change its place and keeps hold of the key file that
// was there.
func (s *Store) move(name string) error {
	from, to := filepath.Join(s.dir, changeDir, name), filepath.Join(s.dir, name)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil // moved before
	}
	if slices.Contains([]string{rootFile, agentFile}, name) {
		err := os.Link(to, from+replaced)
		if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.StorageFailed, err)
		}
	}
	return fault.Wrap(fault.StorageFailed, os.Rename(from, to))
}

func (s *Store) eraseReplaced() error {
	dir := filepath.Join(s.dir, changeDir)
	for _, name := range []string{rootFile, agentFile} {
		failpoint.Here(failpoint.ChangeErase)
		if err := ownerfile.Erase(filepath.Join(dir, name+replaced)); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return ownerfile.SyncDir(s.dir)
}

// find calls read with the path at which a file of the identity is.
func (s *Store) find(name string, read func(path string) error) error {
	err := read(filepath.Join(s.dir, changeDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = read(filepath.Join(s.dir, name))
	}
	return err
}
