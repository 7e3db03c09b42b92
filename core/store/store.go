// Package store is the endpoint's durable state: one SQLite file that only its
// owner can read.
//
// It knows bytes and scalars, not meanings: what a row says, and when it may
// change, is known by the packages above, which work in transactions of
// [Store.Update] and [Store.View]. SQL text is found here alone. Prekey seeds
// are sealed before they reach a row (see prekeys.go), and what was deleted is
// gone from the files after [Store.Scrub].
//
// Several processes may open one store. A writer waits its turn for a few
// seconds and then fails with lock_busy; every other failure is storage_failed.
// The receive role is held by one process at a time ([Store.LockReceive]). A
// store of no path is in memory and gone when it closes.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// busyMilliseconds is how long a transaction waits for another process.
const busyMilliseconds = 5000

// maxReaders bounds the connections that read at the same time.
const maxReaders = 4

// Store is an open store. It is safe for concurrent use.
type Store struct {
	path   string
	seal   []byte // subkey that prekey seeds are sealed under
	writer *sql.DB
	reader *sql.DB
	scrub  atomic.Bool // rows were deleted whose bytes have to leave the files
	held   atomic.Bool // the receive role of a store in memory is
}

// Tx is one transaction. It is valid only inside the function it was given to.
type Tx struct {
	ctx   context.Context
	tx    *sql.Tx
	store *Store
	scrub bool
}

// Open opens the store at path, making it and its folder when they are not
// there. The folder has to be 0700 and the file 0600, both owned by the user.
// The vault key, which is not kept, seals prekey seeds. Without a path ("") the
// store is in memory: for tests, and for agents that keep nothing. Codes:
// storage_failed, lock_busy.
func Open(ctx context.Context, path string, vaultKey *suite.Seed) (*Store, error) {
	if path == "" {
		return openMemory(ctx, vaultKey)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	s := &Store{path: path, seal: sealKey(vaultKey)}
	if s.writer, err = connect(path, "immediate", 1); err != nil {
		return nil, err
	}
	if s.reader, err = connect(path, "deferred", maxReaders); err != nil {
		return nil, errors.Join(err, s.writer.Close())
	}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.reader.Close(), s.writer.Close())
	}
	return s, nil
}

// prepareFile makes the folder and an empty file where there is none, and
// checks that nobody but the owner can reach them. SQLite gives the files beside
// the database its mode, and takes them as it finds them.
func prepareFile(path string) error {
	if err := ownerfile.EnsureDir(filepath.Dir(path)); err != nil {
		return err
	}
	for _, beside := range []string{"", "-wal", "-shm"} {
		if err := ownerfile.CheckFile(path + beside); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return fault.Wrap(fault.StorageFailed, f.Close())
}

// LockReceive takes the receive role of this store, which one process has at a
// time, and leaves command and now, in Unix seconds, for others to read. Call
// release at the end. Codes: lock_busy, which names the holder, and
// storage_failed.
func (s *Store) LockReceive(command string, now int64) (release func() error, err error) {
	if s.path == "" {
		return s.lockMemory()
	}
	return LockReceive(s.path, command, now)
}

// LockReceive is [Store.LockReceive] for a store that is not open.
func LockReceive(path, command string, now int64) (release func() error, err error) {
	lock, err := ownerfile.Acquire(path+"-receive.lock", command, now)
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}

func (s *Store) prepare(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	// A process that ended before its Scrub may have left deleted seeds behind.
	s.scrub.Store(true)
	return s.Scrub(ctx)
}

func connect(path, lock string, connections int) (*sql.DB, error) {
	pragmas := url.Values{"_txlock": {lock}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyMilliseconds),
		"journal_mode(WAL)",
		"synchronous(FULL)",
		"foreign_keys(ON)",
		"secure_delete(ON)",
	}}
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: pragmas.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, coded(err)
	}
	db.SetMaxOpenConns(connections)
	return db, nil
}

// Close scrubs and closes the store.
func (s *Store) Close() error {
	scrubbed := s.Scrub(context.Background())
	err := errors.Join(scrubbed, coded(s.reader.Close()), coded(s.writer.Close()))
	clear(s.seal)
	return err
}

// Update runs f in a transaction that may write and commits it unless f fails.
// An error of f is returned as it is; what f changed is then undone.
func (s *Store) Update(ctx context.Context, f func(*Tx) error) error {
	return s.run(ctx, s.writer, f)
}

// View runs f in a transaction that sees one state of the store.
func (s *Store) View(ctx context.Context, f func(*Tx) error) error {
	return s.run(ctx, s.reader, f)
}

func (s *Store) run(ctx context.Context, db *sql.DB, f func(*Tx) error) error {
	begun, err := db.BeginTx(ctx, nil)
	if err != nil {
		return failed(ctx, err)
	}
	defer begun.Rollback()
	tx := &Tx{ctx: ctx, tx: begun, store: s}
	if err := f(tx); err != nil {
		return err
	}
	if db == s.writer {
		failpoint.Here(failpoint.Save)
	}
	if err := begun.Commit(); err != nil {
		return failed(ctx, err)
	}
	if db == s.writer {
		failpoint.Here(failpoint.Saved)
	}
	if tx.scrub {
		s.scrub.Store(true)
	}
	return nil
}

// Scrub empties the write-ahead log when seeds were deleted since the last
// time, so that their sealed bytes are in no file: secure_delete clears the
// pages of the database, but the log keeps the old ones until it is truncated.
// A reader of another process can keep it from that; the next Scrub tries
// again. Code: storage_failed.
func (s *Store) Scrub(ctx context.Context) error {
	if !s.scrub.Load() {
		return nil
	}
	var busy, pages, moved int
	err := s.writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
	if err != nil {
		if isBusy(err) {
			return nil
		}
		return failed(ctx, err)
	}
	if busy == 0 {
		s.scrub.Store(false)
	}
	return nil
}

// exec runs a statement and returns how many rows it changed.
func (tx *Tx) exec(query string, args ...any) (int64, error) {
	res, err := tx.tx.ExecContext(tx.ctx, query, args...)
	if err != nil {
		return 0, failed(tx.ctx, err)
	}
	n, err := res.RowsAffected()
	return n, failed(tx.ctx, err)
}

// run is exec for callers that do not count.
func (tx *Tx) run(query string, args ...any) error {
	_, err := tx.exec(query, args...)
	return err
}

// get scans the one row of a query and reports whether there is one.
func (tx *Tx) get(query string, args []any, into ...any) (bool, error) {
	err := tx.tx.QueryRowContext(tx.ctx, query, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, failed(tx.ctx, err)
}

// rows collects the rows of a query, each read by scan.
func rows[T any](tx *Tx, scan func(row scanner) (T, error), query string, args ...any) ([]T, error) {
	found, err := tx.tx.QueryContext(tx.ctx, query, args...)
	if err != nil {
		return nil, failed(tx.ctx, err)
	}
	defer found.Close()
	var out []T
	for found.Next() {
		v, err := scan(found)
		if err != nil {
			return nil, failed(tx.ctx, err)
		}
		out = append(out, v)
	}
	return out, failed(tx.ctx, found.Err())
}

// scanner is a row of a query.
type scanner interface{ Scan(into ...any) error }

// failed gives err its code, unless it is the end of the caller's context.
func failed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return coded(err)
}

func coded(err error) error {
	switch {
	case err == nil:
		return nil
	case fault.CodeOf(err) != "":
		return err
	case isBusy(err):
		return fault.Wrapf(fault.LockBusy, err, "store is in use by another process")
	}
	return fault.Wrapf(fault.StorageFailed, err, "store")
}

func isBusy(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	primary := e.Code() & 0xff
	return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED
}
