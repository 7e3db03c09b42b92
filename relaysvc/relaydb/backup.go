package relaydb

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// Backup is a copy of a store and what its check found.
type Backup struct {
	Report
	SHA256 string // hex, of the file
	Size   int64  // of the file, in bytes
}

// Restorable reports whether the copy is whole.
func (b Backup) Restorable() bool { return len(b.Problems) == 0 }

// Backup copies the store into a new file, mode 0600, while the relay serves:
// one moment of it, without what was deleted before. The copy is then opened
// and checked like any store, and says in itself what came of that. The file
// appears under its name when all of that is done, and never replaces another;
// until then it is path.partial. One backup is made at a time.
// Code: storage_failed, also when the file exists.
func (d *DB) Backup(ctx context.Context, path string, now int64) (Backup, error) {
	d.copying.Lock()
	defer d.copying.Unlock()
	return makeBackup(ctx, path, now, func(partial string) error {
		defer d.grace.leave(d.grace.enter())
		// The connection is one of its own: the pool's may write nowhere.
		return copyStore(ctx, dsn(d.path), d.log, partial)
	})
}

// BackupFile is [DB.Backup] of the store at path that no relay has open, where
// nothing can be written beside it. A store that a relay did not close is
// refused. Codes: storage_failed, also [ErrUnfinished]; lock_busy.
func BackupFile(ctx context.Context, path, target string, now int64) (Backup, error) {
	c, err := openClosed(ctx, path, "ace relay backup", now)
	if err != nil {
		return Backup{}, err
	}
	if err := c.checkLogFinished(ctx); err != nil {
		return Backup{}, errors.Join(err, c.close())
	}
	b, err := makeBackup(ctx, target, now, func(partial string) error { return copyStore(ctx, c.dsn, c.log, partial) })
	b.Unguarded = c.unguarded
	return b, errors.Join(err, c.close())
}

func makeBackup(ctx context.Context, path string, now int64, copyInto func(partial string) error) (Backup, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return Backup{}, fault.New(fault.StorageFailed, "%s is there already, and a backup replaces nothing", path)
	}
	partial := path + ".partial"
	if err := makeEmpty(partial); err != nil {
		return Backup{}, err
	}
	defer func() { _ = removeStore(partial) }()
	if err := copyInto(partial); err != nil {
		return Backup{}, err
	}
	report, err := seal(ctx, partial, now)
	if err != nil {
		return Backup{}, err
	}
	b := Backup{Report: report}
	if b.SHA256, b.Size, err = sumFile(partial); err != nil {
		return b, err
	}
	// A link, unlike a rename, never replaces a file.
	if err := os.Link(partial, path); err != nil {
		return b, fault.Wrap(fault.StorageFailed, err)
	}
	return b, ownerfile.SyncDir(filepath.Dir(path))
}

// makeEmpty makes a file, mode 0600, in the place of what a backup left there
// that was cut short.
func makeEmpty(path string) error {
	if err := removeStore(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return fault.Wrap(fault.StorageFailed, f.Close())
}

// copyStore copies a database into an empty file, with the packets of its log:
// a backup is one file.
func copyStore(ctx context.Context, dsn string, log *packetlog.Log, path string) error {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return storage(err)
	}
	defer db.Close()
	if _, err = db.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return storage(err)
	}
	return copyPackets(ctx, log, path)
}

func copyPackets(ctx context.Context, log *packetlog.Log, path string) error {
	c, err := openConn(path, "synchronous(OFF)", "journal_mode(OFF)")
	if err != nil {
		return err
	}
	defer c.Close()
	t := &tx{conn: c, log: log}
	if _, err := t.row("SELECT coalesce(max(id), 0) + 1 FROM bodies", nil, &t.nextBody); err != nil {
		return err
	}
	if err := c.Script("BEGIN; DELETE FROM erasures; UPDATE relay SET synced = 0, log_id = randomblob(16)"); err != nil {
		return err
	}
	for {
		n, err := t.copySome()
		if err != nil {
			return err
		}
		if n == 0 {
			return c.Script("COMMIT")
		}
		if ctx.Err() != nil {
			return storage(ctx.Err())
		}
	}
}

func (t *tx) copySome() (n int, err error) {
	victims, _, err := t.victims(selectMovable, int64(0), int64(math.MaxInt64))
	for _, v := range victims {
		id, err := t.copyBody(v)
		if err != nil {
			return 0, err
		}
		if _, err := t.exec(moveEntry, id, v.identity, v.generation, v.seq); err != nil {
			return 0, err
		}
	}
	return len(victims), err
}

// seal checks a copy and writes the outcome into it.
func seal(ctx context.Context, path string, now int64) (Report, error) {
	r, err := verifyClosed(ctx, path)
	if err != nil {
		return r, err
	}
	r.TakenAt = now
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return r, storage(err)
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, `
PRAGMA journal_mode = DELETE;
CREATE TABLE backup (one INTEGER PRIMARY KEY CHECK (one = 1), taken_at INTEGER NOT NULL, restorable INTEGER NOT NULL) STRICT;
INSERT INTO backup VALUES (1, `+strconv.FormatInt(now, 10)+`, `+strconv.Itoa(boolean(len(r.Problems) == 0))+`)`)
	return r, storage(err)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sumFile returns the hex SHA-256 and the size of a file that has reached the
// disk.
func sumFile(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fault.Wrap(fault.StorageFailed, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return "", 0, fault.Wrap(fault.StorageFailed, err)
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, fault.Wrap(fault.StorageFailed, err)
}
