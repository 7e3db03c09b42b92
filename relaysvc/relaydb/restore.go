package relaydb

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// Restored is what Restore did.
type Restored struct {
	Report
	Replaced string // where the store that was there before is now, "" for none
}

// Restore puts a backup in the place of the store at path, which no relay has
// open. Stream IDs go on in a new generation, above every one that was ever
// given, so that no cursor of a client skips what comes from now on. A store
// that is there already is replaced only with force, and kept beside it.
//
// Codes: storage_failed (the backup is not whole, the store exists), lock_busy.
func Restore(ctx context.Context, backup, path string, force bool, now int64) (Restored, error) {
	if err := ownerfile.EnsureDir(filepath.Dir(path)); err != nil {
		return Restored{}, err
	}
	lock, err := ownerfile.Acquire(path+".lock", "ace relay restore", now)
	if err != nil {
		return Restored{}, err
	}
	defer func() { _ = lock.Release() }()

	if err := ownerfile.CheckFile(backup); err != nil {
		return Restored{}, err
	}
	report, err := verifyClosed(ctx, backup)
	switch {
	case err != nil:
		return Restored{}, err
	case report.TakenAt == 0:
		return Restored{}, fault.New(fault.StorageFailed, "%s is not a backup that was made and checked by ace relay backup", backup)
	case len(report.Problems) > 0:
		return Restored{}, fault.New(fault.StorageFailed, "%s is not restorable: %s", backup, report.Problems[0])
	}
	generation, err := generationOf(ctx, path)
	if err != nil {
		return Restored{}, err
	}
	if generation > 0 && !force {
		return Restored{}, fault.New(fault.StorageFailed, "%s holds a relay's store already", path)
	}
	r := Restored{Report: report}
	r.Generation = max(generation, report.Generation) + 1
	fresh := path + ".restoring"
	defer os.Remove(fresh)
	if err := prepareRestored(ctx, backup, fresh, r.Generation, now); err != nil {
		return Restored{}, err
	}
	if generation > 0 {
		r.Replaced = path + ".replaced-" + strconv.FormatInt(now, 10)
		if err := putAside(path, r.Replaced); err != nil {
			return Restored{}, err
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return r, fault.Wrap(fault.StorageFailed, err)
	}
	return r, ownerfile.SyncDir(filepath.Dir(path))
}

// generationOf returns the generation of the store at path, 0 when there is
// none. A file that cannot be read as one counts as the first: it is there.
func generationOf(ctx context.Context, path string) (int64, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err := ownerfile.CheckFile(path); err != nil {
		return 0, err
	}
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return 0, storage(err)
	}
	defer db.Close()
	generation := int64(1)
	_ = db.QueryRowContext(ctx, "SELECT generation FROM relay").Scan(&generation)
	return generation, nil
}

// prepareRestored makes the new store beside the old one.
func prepareRestored(ctx context.Context, backup, fresh string, generation, now int64) error {
	if err := copyFile(backup, fresh); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(fresh))
	if err != nil {
		return storage(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, `
PRAGMA journal_mode = DELETE;
BEGIN IMMEDIATE;
UPDATE relay SET generation = `+strconv.FormatInt(generation, 10)+`, restored_at = `+strconv.FormatInt(now, 10)+`;
DROP TABLE backup;
COMMIT`); err != nil {
		return storage(err)
	}
	return nil
}

func copyFile(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	defer src.Close()
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(fault.StorageFailed, err)
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	_, err = io.Copy(dst, src)
	return fault.Wrap(fault.StorageFailed, errors.Join(err, dst.Sync(), dst.Close()))
}

// putAside renames a store with the files that SQLite keeps beside it: each is
// part of it.
func putAside(path, aside string) error {
	for _, suffix := range []string{"-wal", "-shm", ""} {
		err := os.Rename(path+suffix, aside+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.StorageFailed, err)
		}
	}
	return nil
}
