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
// returns after that has reached the disk.
//
// The packets are in a log of their own (packetlog), where each is written
// once; the database has their entries. A packet is durable when the log is:
// an entry that the database lost with the power is made again from the log.
package relaydb

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/sqlconn"
	"github.com/ace-toolkit/ace/internal/failpoint"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
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
	// OverBudget: the client network has no room for more stored bytes.
	OverBudget Refusal = "the byte budget of the client network is used up"
	// Behind: too many entries of the directory have expired since the last
	// sweep.
	Behind Refusal = "too many expired entries"
	// DiskFull: the disk has no room for what the decision writes.
	DiskFull Refusal = "the disk is full"
	// Unknown: there is no such document, or it does not count.
	Unknown Refusal = "unknown"
	// Taken: the handle is bound.
	Taken Refusal = "the handle is bound to an identity"
)

// readConnections bounds the pool that reads beside the one writer.
const readConnections = 4

// DB is an open store. Its methods may be called from any goroutine.
type DB struct {
	reader     *sql.DB
	cache      statements // of reader
	readers    *readers
	line       *line
	writer     *writer
	keeper     *keeper
	syncer     *syncer
	eraser     *eraser
	log        *packetlog.Log
	usage      *usage
	grace      *grace
	state      *breakage
	options    Options
	opened     int64 // the time when it was opened
	elapsed    int64 // the same by Options.Elapsed
	corrupt    atomic.Int64
	counts     counter
	closing    chan struct{}
	working    sync.WaitGroup // the writer, the syncer, the keeper and the eraser
	once       sync.Once
	lock       *ownerfile.Lock
	path       string
	copying    sync.Mutex // held while a backup is made
	generation int64
	restoredAt int64
}

// Options are what a store may be opened with. The zero value is for a store
// that nobody watches.
type Options struct {
	// Elapsed returns the seconds since some moment by a clock that nobody sets.
	// What expires is forgotten by it where the time that Sweep is
	// given runs ahead: a clock that jumps forward and back must neither delete
	// a packet nor accept a nonce again. Default: that time is believed.
	Elapsed func() int64
	// Observe is called for decisions that have reached the disk together, on
	// two goroutines: that of packets and that of all else.
	Observe func(Commit)
	// Damaged is called for every packet found that is not the one that was
	// queued.
	Damaged func(reason string)
	// Generation is the first half of the stream IDs of a store that is made, 0
	// for 1. The time, in Unix seconds, puts them above those of one that was at
	// the same place before and is lost: a listener that goes on where it was
	// there skips nothing here (07#client-rules, Listen).
	Generation int64
	// Before is asked before each change of a file of the packet log, for tests.
	Before func(packetlog.Change) error

	segmentSize int64 // of the packet log, for tests
	groupsAhead int   // of the disk, for tests that hold it up
}

// Open opens the store at path, making it when there is none. Its folder is
// made with mode 0700 and the files with 0600; existing ones that others can
// reach are refused. A store is open once at a time: the second Open fails
// with lock_busy and names the process that has it open.
func Open(ctx context.Context, path string, now int64) (*DB, error) {
	return OpenWith(ctx, path, now, Options{})
}

// OpenWith is [Open] with options.
func OpenWith(ctx context.Context, path string, now int64, o Options) (*DB, error) {
	if err := prepareFiles(path); err != nil {
		return nil, err
	}
	path, err := follow(path)
	if err != nil {
		return nil, err
	}
	lock, err := ownerfile.Acquire(path+".lock", "ace relay", now)
	if err != nil {
		return nil, err
	}
	failpoint.Here(failpoint.Open)
	failpoint.Store(filepath.Dir(path))
	d, err := open(ctx, path, o)
	if err != nil {
		_ = lock.Release()
		return nil, fault.Wrapf(fault.CodeOf(err), err, "%s", path)
	}
	d.lock, d.opened = lock, now
	if o.Elapsed != nil {
		d.elapsed = o.Elapsed()
	}
	d.start()
	return d, nil
}

func open(ctx context.Context, path string, o Options) (*DB, error) {
	sqlconn.SyncDataOnly()
	w, err := openWriter(path, o)
	if err != nil {
		return nil, err
	}
	d := &DB{path: path, options: o, writer: w, state: w.state, line: newLine(), closing: make(chan struct{})}
	d.readers = newReaders(path)
	w.report = d.damaged
	d.generation = w.tx.generation
	if d.keeper, err = openKeeper(path, d.state, d.closing); err != nil {
		w.close()
		return nil, err
	}
	w.keeper = d.keeper
	d.log, d.usage, d.grace = w.tx.log, w.tx.usage, newGrace()
	d.eraser, d.syncer = newEraser(d), newSyncer(d.log, d.state, w.observe, o.groupsAhead)
	d.syncer.keeper = d.keeper
	w.eraser, w.syncer = d.eraser, d.syncer
	d.reader, err = sql.Open("sqlite", dsn(path, "query_only(1)"))
	if err != nil {
		d.keeper.conn.Close()
		w.close()
		return nil, storage(err)
	}
	d.reader.SetMaxOpenConns(readConnections)
	d.reader.SetMaxIdleConns(readConnections)
	d.cache.prepare = d.reader.PrepareContext
	if _, err := d.read(ctx, "SELECT restored_at FROM relay", nil, &d.restoredAt); err != nil {
		d.reader.Close()
		d.keeper.conn.Close()
		w.close()
		return nil, err
	}
	return d, nil
}

// start begins the work of the goroutines that Close ends.
func (d *DB) start() {
	d.working.Go(func() { d.writer.loop(d.line, d.closing) })
	d.working.Go(d.syncer.loop)
	d.working.Go(d.keeper.loop)
	d.working.Go(d.eraser.loop)
}

// fail breaks the store because the disk failed below the packet log.
func (d *DB) fail(err error) error {
	d.state.set(err)
	d.keeper.settle()
	d.state.tell()
	return err
}

// RestoredAt returns when the store was last restored from a backup, 0 for
// never. What was spent or stored in between is not known: a request signed
// before that time may have been served already.
func (d *DB) RestoredAt() int64 { return d.restoredAt }

// Close has erased what was deleted, ends the writer goroutine after the decision
// it is at, and closes the files.
func (d *DB) Close() error {
	var err error
	d.once.Do(func() {
		d.eraser.finish()
		close(d.closing)
		d.working.Wait()
		d.readers.close()
		d.cache.close()
		err = storage(d.reader.Close())
		d.writer.close() // the last one moves the log into the file
		err = errors.Join(err, d.lock.Release())
	})
	return err
}

// The memory for pages of the connection that writes and of each that reads.
const (
	writerCache = "cache_size(-16384)"
	readerCache = "cache_size(-4096)"
)

// busyMilliseconds is how long a connection waits for a lock of another.
const busyMilliseconds = 10_000

// connPragmas hold on every connection below database/sql, as those of dsn do
// on the others.
var connPragmas = []string{"busy_timeout(10000)", "synchronous(FULL)", "foreign_keys(1)", "secure_delete(1)"}

// dsn names the file and what holds on every connection to it. A commit is
// durable (FULL) and what is deleted is overwritten (secure_delete). Nothing
// here changes the file, which may turn out to be another program's.
func dsn(path string, pragmas ...string) string {
	q := url.Values{}
	for _, p := range slices.Concat(connPragmas, pragmas) {
		q.Add("_pragma", p)
	}
	return sqlconn.FileURI(path) + "?" + q.Encode()
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
	switch resultCode(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.Wrap(fault.LockBusy, err)
	case sqlite3.SQLITE_FULL:
		return fault.Wrap(fault.StorageFailed, errors.Join(DiskFull, err))
	}
	return fault.Wrap(fault.StorageFailed, err)
}

// resultCode returns the primary result code of an error of SQLite, or 0.
func resultCode(err error) int {
	var own *sqlconn.Error
	if errors.As(err, &own) {
		return own.Code() & 0xff
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
