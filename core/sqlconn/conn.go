// Package sqlconn is a connection to an SQLite file below database/sql: its
// statements stay prepared, and running one allocates nothing but what it
// returns.
//
// A [Conn] belongs to one goroutine at a time. Who has several makes them, and
// begins and ends their transactions, itself. SQL text is in the packages that
// own the files.
package sqlconn

import (
	"errors"
	"fmt"
	"net/url"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// Conn is an open connection.
type Conn struct {
	tls     *libc.TLS
	db      uintptr
	scratch uintptr // room for two results
	wrap    func(error) error
	stmts   map[string]*Stmt
	log     *logFile // nil: commits are not gathered
}

// SyncDataOnly makes SQLite commit, where the system has it, with a sync that
// leaves the times of a file alone: as durable, and half the wait. It holds for
// the whole process.
func SyncDataOnly() { _, _ = sqlite.Fdatasync(true) }

// FileURI names the file at path for [Open].
func FileURI(path string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path}
	return u.String()
}

// Open opens a connection to the file that uri names and runs the pragmas. wrap
// gives the errors of the connection, each an [*Error] or errNoMemory, what the
// caller adds to them.
func Open(uri string, wrap func(error) error, pragmas ...string) (*Conn, error) {
	c := &Conn{tls: libc.NewTLS(), wrap: wrap, stmts: map[string]*Stmt{}}
	c.scratch = libc.Xmalloc(c.tls, 16)
	name, err := libc.CString(uri)
	if err != nil || c.scratch == 0 {
		c.tls.Close()
		return nil, wrap(errNoMemory)
	}
	defer libc.Xfree(c.tls, name)
	*(*uintptr)(at(c.scratch)) = 0
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.scratch, sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_CREATE|
		sqlite3.SQLITE_OPEN_NOMUTEX|sqlite3.SQLITE_OPEN_URI, 0)
	c.db = *(*uintptr)(at(c.scratch))
	if rc != sqlite3.SQLITE_OK {
		err := c.failure(rc)
		c.Close()
		return nil, err
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	for _, p := range pragmas {
		if err := c.Script("PRAGMA " + p); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close ends the connection. The last one of a file moves the write-ahead log
// into it.
func (c *Conn) Close() {
	for _, s := range c.stmts {
		s.finalize()
	}
	c.stmts = nil
	sqlite3.Xsqlite3_close_v2(c.tls, c.db)
	if c.log != nil {
		libc.Xfree(c.tls, c.log.methods)
	}
	libc.Xfree(c.tls, c.scratch)
	c.tls.Close()
}

// KeepLog has Close leave the write-ahead log as it is.
func (c *Conn) KeepLog() {
	args := libc.Xmalloc(c.tls, 16)
	defer libc.Xfree(c.tls, args)
	sqlite3.Xsqlite3_db_config(c.tls, c.db, sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, libc.VaList(args, int32(1), uintptr(0)))
}

// BusyTimeout bounds the wait for a lock that another connection holds, which
// is none at first.
func (c *Conn) BusyTimeout(milliseconds int32) {
	sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, milliseconds)
}

// PagesWritten returns the pages that the connection has written since the last
// call.
func (c *Conn) PagesWritten() int64 {
	current := c.scratch
	sqlite3.Xsqlite3_db_status(c.tls, c.db, sqlite3.SQLITE_DBSTATUS_CACHE_WRITE, current, current+8, 1)
	return int64(*(*int32)(at(current)))
}

// Script runs statements that have no parameters and whose rows do not matter.
func (c *Conn) Script(text string) error {
	p, err := libc.CString(text)
	if err != nil {
		return c.wrap(errNoMemory)
	}
	defer libc.Xfree(c.tls, p)
	return c.check(sqlite3.Xsqlite3_exec(c.tls, c.db, p, 0, 0, 0))
}

// Prepare returns the statement of a text, of which a connection meets few: it
// keeps them all.
func (c *Conn) Prepare(text string) (*Stmt, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	p, err := libc.CString(text)
	if err != nil {
		return nil, c.wrap(errNoMemory)
	}
	defer libc.Xfree(c.tls, p)
	if err := c.check(sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, p, -1, sqlite3.SQLITE_PREPARE_PERSISTENT, c.scratch, 0)); err != nil {
		return nil, err
	}
	s := &Stmt{c: c, p: *(*uintptr)(at(c.scratch))}
	s.values = make([]value, sqlite3.Xsqlite3_bind_parameter_count(c.tls, s.p))
	c.stmts[text] = s
	return s, nil
}

// Command runs a statement without parameters, such as COMMIT.
func (c *Conn) Command(text string) error {
	s, err := c.Prepare(text)
	if err != nil {
		return err
	}
	return s.Run()
}

// Changes returns how many rows the last INSERT, UPDATE or DELETE changed.
func (c *Conn) Changes() int64 { return int64(sqlite3.Xsqlite3_changes(c.tls, c.db)) }

// TotalChanges returns how many rows the connection has changed since it was
// opened, those of triggers and of transactions that were undone included.
func (c *Conn) TotalChanges() int64 { return int64(sqlite3.Xsqlite3_total_changes(c.tls, c.db)) }

// InTransaction reports whether one is begun: SQLite ends it by itself after
// some failures.
func (c *Conn) InTransaction() bool { return sqlite3.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

func (c *Conn) check(rc int32) error {
	if rc == sqlite3.SQLITE_OK || rc == sqlite3.SQLITE_ROW || rc == sqlite3.SQLITE_DONE {
		return nil
	}
	return c.failure(rc)
}

func (c *Conn) failure(rc int32) error {
	return c.wrap(&Error{code: int(rc), message: libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))})
}

// Error is a result code of SQLite with its message.
type Error struct {
	code    int // extended
	message string
}

// Code returns the extended result code; its lowest 8 bits are the primary one.
func (e *Error) Code() int { return e.code }

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.message, e.code) }

// IsBusy reports whether err says that another connection holds a lock.
func IsBusy(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	primary := e.code & 0xff
	return primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED
}

var errNoMemory = errors.New("out of memory")

// at is a pointer to memory of SQLite's own, which Go neither moves nor frees.
func at(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
