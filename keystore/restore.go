package keystore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/wire"
)

// RestoreOptions say where a backup is restored to.
type RestoreOptions struct {
	// Dir is the folder of the identity. It must not exist.
	Dir        string
	Passphrase []byte // of the backup
	Command    string
	// Check looks at what was read before it gets its name. store is the file
	// with the copy of the endpoint's store, "" when there is none. It answers
	// true where somebody else may know of events that the log in the backup
	// lacks: the identity then signs none before [Store.ConfirmRestored].
	Check func(c *BackupContents, store string) (unsettled bool, err error)
}

// Restore makes an identity of a backup at now. It appears whole or not at all,
// and never beside another installation of itself in the same folder of
// identities, nor where one was destroyed that had signed more: two would sign
// different events for one seq (01#rotation-and-recovery). Codes:
// invalid_argument, kel_conflict, lock_busy, identity_unavailable,
// storage_failed, and those of Check.
func Restore(backup io.Reader, o RestoreOptions, now int64) (*Store, *BackupContents, error) {
	parent := filepath.Dir(o.Dir)
	if err := ownerfile.EnsureDir(parent); err != nil {
		return nil, nil, err
	}
	lock, err := lockNames(parent, o.Command, now)
	if err != nil {
		return nil, nil, err
	}
	defer lock.Release()
	if err := errors.Join(checkFree(o.Dir), removeUnfinished(parent)); err != nil {
		return nil, nil, err
	}
	temp, err := os.MkdirTemp(parent, unfinished+"*") // mode 0700, whatever the umask
	if err != nil {
		return nil, nil, fault.Wrap(fault.StorageFailed, err)
	}
	defer erase(temp) // after the rename there is nothing left of that name
	c, store, err := o.unpack(backup, temp, now)
	if err != nil {
		return nil, nil, err
	}
	defer c.Destroy()
	if err := refuseTwins(parent, c, now); err != nil {
		return nil, nil, err
	}
	unsettled, err := o.Check(c, store)
	if err == nil && unsettled {
		err = ownerfile.Create(filepath.Join(temp, restoredFile), encodeRestored(c.CreatedAt, now))
	}
	if err != nil {
		return nil, nil, err
	}
	if err := os.Rename(temp, o.Dir); err != nil {
		return nil, nil, fault.Wrap(fault.StorageFailed, err)
	}
	if err := ownerfile.SyncDir(parent); err != nil {
		return nil, nil, err
	}
	s, err := Open(o.Dir)
	return s, c, err
}

// unpack writes the files of a backup into a folder, and returns which of them is
// the copy of the endpoint's store, "" for none.
func (o RestoreOptions) unpack(backup io.Reader, dir string, now int64) (c *BackupContents, store string, err error) {
	store = filepath.Join(dir, storeFile)
	f, err := os.OpenFile(store, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, "", fault.Wrap(fault.StorageFailed, err)
	}
	c, err = ReadBackup(backup, o.Passphrase, f, now)
	written := errors.Join(f.Sync(), f.Close())
	if err == nil {
		err = fault.Wrap(fault.StorageFailed, written)
	}
	if err != nil {
		return nil, "", err
	}
	if !c.Store {
		err = fault.Wrap(fault.StorageFailed, os.Remove(store))
		store = ""
	}
	for _, part := range parts {
		if err == nil {
			err = ownerfile.Create(filepath.Join(dir, part.name), c.files[part.name])
		}
	}
	if err != nil {
		c.Destroy()
		return nil, "", err
	}
	return c, store, nil
}

// refuseTwins refuses to restore beside the same identity.
func refuseTwins(parent string, c *BackupContents, now int64) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		dir := filepath.Join(parent, e.Name())
		log, err := (&Store{dir: dir}).Log(now)
		if errors.Is(err, fs.ErrNotExist) {
			continue // no identity
		}
		if err != nil {
			return err
		}
		if log.ACEID() != c.ACEID {
			continue
		}
		_, destroyed, err := ReadTombstone(dir)
		if err != nil {
			return err
		}
		if !destroyed {
			return fault.New(fault.InvalidArgument, "the identity %s is the one in the backup: two of it would sign different events", e.Name())
		}
		if !c.extends(log.Seq(), log.LastHash()) {
			return fault.New(fault.KELConflict, "the identity %s, which was destroyed, had signed events that the backup lacks (up to seq %d)", e.Name(), log.Seq())
		}
	}
	return nil
}

// extends reports whether the log of the backup has the event.
func (c *BackupContents) extends(seq int64, hash string) bool {
	events := c.log.Events()
	return seq < int64(len(events)) && events[seq].Hash == hash
}

const restoredFile = "restored.json"

func encodeRestored(backupAt, now int64) []byte {
	return append(wire.NewObject(
		wire.M("backupAt", wire.NewInt(backupAt)),
		wire.M("restoredAt", wire.NewInt(now)),
	).Canonical(), '\n')
}

// Restored reports whether the identity was restored from a backup and its log
// has not been compared with its relay's since, and when the backup was made.
// Code: storage_failed.
func (s *Store) Restored() (backupAt int64, pending bool, err error) {
	path := filepath.Join(s.dir, restoredFile)
	text, err := ownerfile.Read(path, keyFileLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return 0, false, fault.Wrapf(fault.StorageFailed, err, "%s", path)
	}
	r := wire.NewReader(v, "restored")
	backupAt, _ = r.Int("backupAt"), r.Int("restoredAt")
	return backupAt, true, fault.Wrapf(fault.StorageFailed, r.Close(), "%s", path)
}

// ConfirmRestored lets a restored identity sign events again: nobody knows of
// events that its log lacks. Code: storage_failed.
func (s *Store) ConfirmRestored() error {
	err := os.Remove(filepath.Join(s.dir, restoredFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return ownerfile.SyncDir(s.dir)
}

// ErrUnsettled is in the chain of the error, identity_unavailable, of an event that
// a restored identity was to sign too early.
var ErrUnsettled = errors.New("was restored from a backup, and its log has not been compared with its relay's yet")

// checkRestored refuses to sign an event while another installation may have
// signed one for the same seq.
func (s *Store) checkRestored() error {
	_, pending, err := s.Restored()
	if err == nil && pending {
		err = fault.Wrap(fault.IdentityUnavailable, fmt.Errorf("%s %w", filepath.Base(s.dir), ErrUnsettled))
	}
	return err
}
