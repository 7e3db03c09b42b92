package relaydb

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// ErrUnfinished is the error of a store in a folder that cannot be written to
// whose relay did not close it: what it decided last has yet to be moved into
// the database.
var ErrUnfinished = errors.New("the store was not closed, and nothing can be written to its folder")

// ReadOnly reports whether nothing can be written to the folder of the store at
// path.
func ReadOnly(path string) bool {
	const write = 2 // W_OK of access(2)
	return syscall.Access(filepath.Dir(path), write) != nil
}

// untouched has SQLite read a file that nobody writes to.
const untouched = "&mode=ro&immutable=1"

// closed is a store that no relay has open, or a backup, to read it.
type closed struct {
	path      string
	dsn       string
	db        *sql.DB
	log       *packetlog.Log
	unguarded bool // it could not be told whether a relay has the store open
	release   func() error
}

// openClosed opens a store, or a backup, and keeps relays from it. In a folder
// that cannot be written to it writes nothing. Codes: storage_failed, also
// ErrUnfinished; lock_busy.
func openClosed(ctx context.Context, path, command string, now int64) (*closed, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if err := checkMode(ctx, path); err != nil {
		return nil, err
	}
	c := newClosed(path)
	if err := c.hold(command, now); err != nil {
		return nil, err
	}
	readOnly := ReadOnly(path)
	if readOnly {
		// SQLite would make the files in which it notes who reads.
		c.dsn += untouched
		err = checkFinished(path)
	}
	if err == nil {
		err = c.open(ctx, readOnly)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func newClosed(path string) *closed {
	return &closed{path: path, dsn: dsn(path), release: func() error { return nil }}
}

func (c *closed) open(ctx context.Context, readOnly bool) (err error) {
	if c.db, err = sql.Open("sqlite", c.dsn); err != nil {
		return storage(err)
	}
	if err := checkRelay(ctx, c.db); err != nil {
		return fault.Wrapf(fault.CodeOf(err), err, "%s", c.path)
	}
	c.log, err = logOf(ctx, c.db, c.path, readOnly)
	return err
}

func (c *closed) close() (err error) {
	if c.log != nil {
		err = c.log.Close()
	}
	if c.db != nil {
		err = errors.Join(err, storage(c.db.Close()))
	}
	return errors.Join(err, c.release())
}

// hold keeps relays from the store by its lock. A backup has no lock beside it,
// nor has a store that was copied without its own.
func (c *closed) hold(command string, now int64) error {
	path := c.path + ".lock"
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		c.unguarded = ReadOnly(c.path)
		return nil
	}
	lock, err := ownerfile.Acquire(path, command, now)
	if err == nil {
		c.release = lock.Release
		return nil
	}
	if fault.CodeOf(err) == fault.LockBusy || !ReadOnly(c.path) {
		return err
	}
	return c.share(path)
}

// share holds a lock without writing to its file, together with others that do.
// A relay that has the store open holds it alone.
func (c *closed) share(path string) error {
	f, err := os.Open(path)
	if err != nil {
		c.unguarded = true
		return nil
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.Join(heldBy(f), f.Close())
	}
	c.unguarded, c.release = err != nil, f.Close
	return nil
}

// heldBy names the process that holds a lock, as it has written itself there.
func heldBy(f *os.File) error {
	e := fault.New(fault.LockBusy, "another process holds %s", f.Name())
	var h fault.Holder
	if data, err := io.ReadAll(io.LimitReader(f, 4096)); err == nil && json.Unmarshal(data, &h) == nil {
		e.Holder = &h
	}
	return e
}

// checkFinished refuses a store of which SQLite has something beside it that is
// to be moved into the file first.
func checkFinished(path string) error {
	for _, ending := range []string{"-wal", "-journal"} {
		if info, err := os.Stat(path + ending); err == nil && info.Size() > 0 {
			return fault.Wrapf(fault.StorageFailed, ErrUnfinished, "%s has to be taken in first", path+ending)
		}
	}
	return nil
}

// checkLogFinished is checkFinished for the packet log: what the database does
// not know of gets its entry when a relay starts.
func (c *closed) checkLogFinished(ctx context.Context) error {
	var synced int64
	if err := c.db.QueryRowContext(ctx, "SELECT synced FROM relay").Scan(&synced); err != nil {
		return storage(err)
	}
	segments := c.log.Segments()
	if n := len(segments); n > 0 && segments[n-1].End > synced {
		return fault.Wrapf(fault.StorageFailed, ErrUnfinished, "the packet log of %s has to be taken in first", c.path)
	}
	return nil
}
