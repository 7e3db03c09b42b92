package keystore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// ErrDestroyed is in the chain of the error with which a destroyed identity does
// not open.
var ErrDestroyed = errors.New("the identity was destroyed")

// Tombstone is what is left of a destroyed identity, beside its public log. It
// keeps the name taken, and says up to which seq the keys have signed: no event
// of such a seq is ever to be signed again (01#rotation-and-recovery).
type Tombstone struct {
	ACEID       string
	Seq         int64  // of the last event
	LastHash    string // hex hash of it
	DestroyedAt int64  // Unix seconds
}

const tombstoneFile = "destroyed.json"

// Destroy ends the identity at now: its keys are overwritten and all files of
// its folder are removed, except the log and a tombstone. From the moment that
// the tombstone is on disk the identity does not open any more; what a kill
// leaves is erased by the next [Open]. Next roots are not in the folder and
// stay. Overwriting is all that a program can do: a disk may keep older copies
// of what it was given. Codes: lock_busy, storage_failed, identity_unavailable.
func (s *Store) Destroy(command string, now int64) (t Tombstone, err error) {
	lock, err := s.Lock(command, now)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := refuseDestroyed(s.dir); err != nil { // another process may have been faster
		return t, err
	}
	log, err := s.Log(now)
	if err != nil {
		return t, err
	}
	t = Tombstone{ACEID: log.ACEID(), Seq: log.Seq(), LastHash: log.LastHash(), DestroyedAt: now}
	if err := ownerfile.Create(filepath.Join(s.dir, tombstoneFile), t.encode()); err != nil {
		return t, err
	}
	failpoint.Here(failpoint.Buried)
	return t, eraseAll(s.dir)
}

func (t Tombstone) encode() []byte {
	return append(wire.NewObject(
		wire.M("ace_tombstone", wire.NewInt(1)),
		wire.M("aceId", wire.NewString(t.ACEID)),
		wire.M("seq", wire.NewInt(t.Seq)),
		wire.M("lastHash", wire.NewString(t.LastHash)),
		wire.M("destroyedAt", wire.NewInt(t.DestroyedAt)),
	).Canonical(), '\n')
}

// ReadTombstone reads the tombstone in a folder and reports whether there is
// one. Code: storage_failed.
func ReadTombstone(dir string) (t Tombstone, ok bool, err error) {
	path := filepath.Join(dir, tombstoneFile)
	text, err := ownerfile.Read(path, keyFileLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return t, false, nil
	}
	if err != nil {
		return t, false, err
	}
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return t, false, fault.Wrapf(fault.StorageFailed, err, "%s", path)
	}
	r := wire.NewReader(v, "tombstone")
	if r.Int("ace_tombstone") != 1 {
		r.FailMember("ace_tombstone", "made by a newer program")
	}
	t = Tombstone{ACEID: r.ACEID("aceId"), Seq: r.Int("seq"), LastHash: r.HexDigest("lastHash"), DestroyedAt: r.Int("destroyedAt")}
	return t, true, fault.Wrapf(fault.StorageFailed, r.Close(), "%s", path)
}

// DestroyedLog returns what is left, below a folder of identities, of the log of
// one that was destroyed there, the longest where it was more than once, and nil
// where it never was. What its keys have signed is not signed anew
// (01#rotation-and-recovery). Code: storage_failed, and those of [Store.Log].
func DestroyedLog(parent, aceID string, now int64) (longest *kel.State, err error) {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		t, destroyed, err := ReadTombstone(dir)
		if err != nil {
			return nil, err
		}
		if !destroyed || t.ACEID != aceID {
			continue
		}
		log, err := (&Store{dir: dir}).Log(now)
		if err != nil {
			return nil, err
		}
		if _, after, err := kel.Reconcile(longest, log); err == nil {
			longest = after
		}
	}
	return longest, nil
}

// refuseDestroyed refuses a destroyed identity, after erasing what a kill left of
// it.
func refuseDestroyed(dir string) error {
	t, destroyed, err := ReadTombstone(dir)
	if err != nil || !destroyed {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return !Outlives(e.Name()) }) {
		err = eraseLeft(dir, t)
	}
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return fault.Wrapf(fault.IdentityUnavailable, ErrDestroyed, "%s, which was %s until %s",
		filepath.Base(dir), t.ACEID, time.Unix(t.DestroyedAt, 0).UTC().Format(time.RFC3339))
}

// eraseLeft erases what is left, unless another process does.
func eraseLeft(dir string, t Tombstone) error {
	lock, err := ownerfile.Acquire(filepath.Join(dir, lockFile), "ace", t.DestroyedAt)
	if errors.Is(err, fault.LockBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(eraseAll(dir), lock.Release())
}

// kept are the files that outlive the identity. The lock stays because another
// process may be about to take it.
var kept = [...]string{logFile, tombstoneFile, lockFile}

// Outlives reports whether a file of the folder is there after [Store.Destroy].
func Outlives(name string) bool { return slices.Contains(kept[:], name) }

// eraseAll removes what is in the folder but the files that are kept, keys first.
func eraseAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	isKey := func(e fs.DirEntry) int {
		if filepath.Ext(e.Name()) == ".key" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return isKey(a) - isKey(b) })
	for _, e := range entries {
		if Outlives(e.Name()) {
			continue
		}
		if err := erase(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
		failpoint.Here(failpoint.EraseFile)
	}
	return ownerfile.SyncDir(dir)
}

// erase removes a file or a folder. What is short enough to be a key file is
// overwritten first.
func erase(path string) error {
	err := filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil || info.Size() > keyFileLimit {
			return err
		}
		return ownerfile.Erase(path)
	})
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.RemoveAll(path)
	}
	return fault.Wrap(fault.StorageFailed, err)
}
