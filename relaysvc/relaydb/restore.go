package relaydb

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// Restored is what Restore did.
type Restored struct {
	Report
	Replaced string // where the store that was there before is now, "" for none
	Packets  string // the files of its packet log, as a pattern; they stay where they are
}

// Restore puts a backup in the place of the store at path, which no relay has
// open. Stream IDs go on in a new generation, above every one that was ever
// given, so that no cursor of a client skips what comes from now on. A store
// that is there already is replaced only with force, and kept beside it. A
// backup that is refused changes nothing.
//
// Codes: storage_failed (the backup is not whole; the store exists, which is
// also fs.ErrExist), lock_busy.
func Restore(ctx context.Context, backup, path string, force bool, now int64) (Restored, error) {
	report, err := CheckBackup(ctx, backup)
	if err != nil {
		return Restored{}, err
	}
	if err := ownerfile.EnsureDir(filepath.Dir(path)); err != nil {
		return Restored{}, err
	}
	if path, err = follow(path); err != nil {
		return Restored{}, err
	}
	lock, err := ownerfile.Acquire(path+".lock", "ace relay restore", now)
	if err != nil {
		return Restored{}, err
	}
	defer func() { _ = lock.Release() }()

	generation, packets, err := generationOf(ctx, path)
	if err != nil {
		return Restored{}, err
	}
	if generation > 0 && !force {
		return Restored{}, fault.Wrapf(fault.StorageFailed, fs.ErrExist, "%s holds a relay's store", path)
	}
	r := Restored{Report: report}
	r.Generation = nextGeneration(now, generation, report.Generation)
	fresh := path + ".restoring"
	defer func() { _ = removeStore(fresh) }()
	if err := prepareRestored(ctx, backup, fresh, r.Generation, now); err != nil {
		return Restored{}, err
	}
	if generation > 0 {
		r.Packets = packets
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

// CheckBackup refuses what is not a whole backup, and changes nothing.
// Code: storage_failed.
func CheckBackup(ctx context.Context, path string) (Report, error) {
	if _, err := os.Stat(path); err != nil { // SQLite would make it
		return Report{}, fault.Wrap(fault.StorageFailed, err)
	}
	if err := checkMode(ctx, path); err != nil {
		return Report{}, err
	}
	report, err := verifyClosed(ctx, path)
	switch {
	case err != nil:
		return Report{}, err
	case report.TakenAt == 0:
		return Report{}, fault.New(fault.StorageFailed, "%s is not a backup that was made and checked by ace relay backup", path)
	case len(report.Problems) > 0:
		return Report{}, fault.New(fault.StorageFailed, "%s is not restorable: %s", path, report.Problems[0])
	}
	return report, nil
}

// nextGeneration returns one above those known. It is the time of the restore
// where that is above them, because a store that is lost, or cannot be read,
// may have given stream IDs in a later generation than the backup's.
func nextGeneration(now int64, known ...int64) int64 { return max(slices.Max(known)+1, now) }

// generationOf returns the generation of the store at path, 0 when there is
// none, and the files of its packet log as a pattern. A file that cannot be read as one counts as the first: it is there. It
// is looked at without being written to, because SQLite throws away the log of
// a file that it cannot read; the log of a store is moved into it, so that
// setting it aside is one step.
func generationOf(ctx context.Context, path string) (generation int64, packets string, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, "", nil
	}
	if err := ownerfile.CheckFile(path); err != nil {
		return 0, "", err
	}
	generation, id, err := readGeneration(ctx, dsn(path)+"&mode=ro")
	if err != nil {
		return 1, "", nil
	}
	_, _, err = readGeneration(ctx, dsn(path)) // closing the last connection moves the log
	return generation, filepath.Join(filepath.Dir(path), packetlog.Pattern(id)), err
}

func readGeneration(ctx context.Context, dsn string) (generation int64, id packetlog.ID, err error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return 0, id, storage(err)
	}
	var name []byte
	err = db.QueryRowContext(ctx, "SELECT generation, log_id FROM relay").Scan(&generation, &name)
	copy(id[:], name)
	return generation, id, storage(errors.Join(err, db.Close()))
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
UPDATE relay SET generation = `+strconv.FormatInt(generation, 10)+`, restored_at = `+strconv.FormatInt(now, 10)+`, log_id = randomblob(16);
DROP TABLE backup;
COMMIT`); err != nil {
		return storage(err)
	}
	return nil
}

// copyFile copies a file into a new one, mode 0600, that has reached the disk.
func copyFile(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	defer src.Close()
	if err := removeStore(to); err != nil {
		return err
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	_, err = io.Copy(dst, src)
	return fault.Wrap(fault.StorageFailed, errors.Join(err, dst.Sync(), dst.Close()))
}

// putAside gives a store a second name, and takes away what SQLite keeps beside
// it. There is a store at path all the time: where there is none, a relay that
// is started makes an empty one.
func putAside(path, aside string) error {
	if err := os.Link(path, aside); err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	for _, ending := range besides {
		err := os.Rename(path+ending, aside+ending)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.StorageFailed, err)
		}
	}
	return nil
}
