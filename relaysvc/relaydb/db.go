// Package relaydb is the relay's store: one SQLite file. Its methods are whole
// decisions, each taken in one transaction, such as "queue this packet if the
// recipient is registered, has not blocked the sender, does not hold it yet
// and has room". SQL is written here and nowhere else in the relay.
//
// A decision that goes against the caller is a [Refusal]. Every other error
// has the code storage_failed, or lock_busy when another process holds the
// store. The rules themselves are the caller's: this package knows rows, not
// protocol codes.
//
// One goroutine writes, and commits the decisions that wait at the same time
// together; see [DB.Close] for its end. A method that changes something
// returns after the commit has reached the disk.
package relaydb

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// Refusal is a decision against the caller. What the transaction had settled
// before it, such as a spent nonce, stays.
type Refusal string

// Error returns the reason.
func (r Refusal) Error() string { return string(r) }

// The refusals.
const (
	// NotRegistered: the identity has no active registration.
	NotRegistered Refusal = "not registered"
	// Changed: the registration is not the one that the caller looked at.
	// Read it again and decide again.
	Changed Refusal = "the registration changed meanwhile"
	// Replayed: the nonce is spent.
	Replayed Refusal = "the nonce was used before"
	// OtherKEL: the document's KEL is not the registered one.
	OtherKEL Refusal = "the kel is not the registered one"
	// NotNewer: a stored document is newer, or as new with other claims.
	NotNewer Refusal = "not newer than the stored one"
	// OldRevision: the block revision does not exceed the stored one.
	OldRevision Refusal = "the revision does not exceed the stored one"
	// TooManyPeers: the cap on tracked block peers is reached.
	TooManyPeers Refusal = "too many tracked peers"
	// Unreachable: the recipient is not registered, has blocked the sender
	// or, without a permit, is not open to strangers.
	Unreachable Refusal = "the recipient takes nothing from this sender"
	// Full: the recipient's queue or its stranger allowance is full.
	Full Refusal = "the queue is full"
	// Unknown: there is no such document, or it does not count.
	Unknown Refusal = "unknown"
)

// readConnections bounds the pool that reads beside the one writer.
const readConnections = 4

// DB is an open store. Its methods may be called from any goroutine.
type DB struct {
	reader     *sql.DB
	cache      statements // of reader
	jobs       chan *job
	closing    chan struct{}
	written    sync.WaitGroup // the writer goroutine
	once       sync.Once
	lock       *ownerfile.Lock
	generation int64
}

// Open opens the store at path, making it when there is none. Its folder is
// made with mode 0700 and the files with 0600; existing ones that others can
// reach are refused. A store is open once at a time: the second Open fails
// with lock_busy and names the process that has it open. The time now is for
// that name only.
func Open(ctx context.Context, path string, now int64) (*DB, error) {
	if err := prepareFiles(path); err != nil {
		return nil, err
	}
	lock, err := ownerfile.Acquire(path+".lock", "ace relay", now)
	if err != nil {
		return nil, err
	}
	d, err := open(ctx, path)
	if err != nil {
		_ = lock.Release()
		return nil, fault.Wrapf(fault.CodeOf(err), err, "%s", path)
	}
	d.lock = lock
	return d, nil
}

func open(ctx context.Context, path string) (*DB, error) {
	w, err := openWriter(ctx, path)
	if err != nil {
		return nil, err
	}
	d := &DB{jobs: make(chan *job), closing: make(chan struct{})}
	if _, err = w.tx.row("SELECT generation FROM relay", nil, &d.generation); err != nil {
		w.close()
		return nil, err
	}
	d.reader, err = sql.Open("sqlite", dsn(path, "query_only(1)"))
	if err != nil {
		w.close()
		return nil, storage(err)
	}
	d.reader.SetMaxOpenConns(readConnections)
	d.reader.SetMaxIdleConns(readConnections)
	d.cache.prepare = d.reader.PrepareContext
	d.written.Go(func() { w.loop(d.jobs, d.closing) })
	return d, nil
}

// Close ends the writer goroutine after the decisions it has taken in, and
// closes the files.
func (d *DB) Close() error {
	var err error
	d.once.Do(func() {
		close(d.closing)
		d.written.Wait()
		d.cache.close()
		err = errors.Join(storage(d.reader.Close()), d.lock.Release())
	})
	return err
}

// dsn names the file and what holds on every connection to it. A commit is
// durable (FULL) and what is deleted is overwritten (secure_delete). Nothing
// here changes the file, which may turn out to be another program's.
func dsn(path string, pragmas ...string) string {
	q := url.Values{}
	for _, p := range append([]string{
		"busy_timeout(10000)", "synchronous(FULL)", "foreign_keys(1)", "secure_delete(1)",
	}, pragmas...) {
		q.Add("_pragma", p)
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}
	return u.String()
}

// statements keeps prepared statements by their text, of which there are few.
type statements struct {
	prepare func(context.Context, string) (*sql.Stmt, error)
	mu      sync.Mutex
	byText  map[string]*sql.Stmt // guarded by mu
}

func (s *statements) get(ctx context.Context, query string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stmt, ok := s.byText[query]; ok {
		return stmt, nil
	}
	stmt, err := s.prepare(ctx, query)
	if err != nil {
		return nil, storage(err)
	}
	if s.byText == nil {
		s.byText = map[string]*sql.Stmt{}
	}
	s.byText[query] = stmt
	return stmt, nil
}

func (s *statements) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stmt := range s.byText {
		stmt.Close()
	}
	s.byText = nil
}

// read runs query on the pool and reports whether there is a row for dest.
func (d *DB) read(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	stmt, err := d.cache.get(ctx, query)
	if err != nil {
		return false, err
	}
	return found(stmt.QueryRowContext(ctx, args...).Scan(dest...))
}

// each runs query on the pool and calls scan for every row until it answers
// false.
func (d *DB) each(ctx context.Context, query string, args []any, scan func(*sql.Rows) (bool, error)) error {
	stmt, err := d.cache.get(ctx, query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return storage(err)
	}
	defer rows.Close()
	for more := true; more && rows.Next(); {
		if more, err = scan(rows); err != nil {
			return storage(err)
		}
	}
	return storage(rows.Err())
}

func found(err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, storage(err)
}

// storage gives an error of SQLite its code.
func storage(err error) error {
	if err == nil {
		return nil
	}
	if c := resultCode(err); c == sqlite3.SQLITE_BUSY || c == sqlite3.SQLITE_LOCKED {
		return fault.Wrap(fault.LockBusy, err)
	}
	return fault.Wrap(fault.StorageFailed, err)
}

// resultCode returns the primary result code of an error of SQLite, or 0.
func resultCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
