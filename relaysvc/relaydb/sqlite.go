package relaydb

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ace-toolkit/ace/core/fault"
)

// conn is a connection below database/sql, for the few goroutines that have
// one to themselves: its statements stay prepared, and running one allocates
// nothing. It belongs to one goroutine at a time.
type conn struct {
	tls     *libc.TLS
	db      uintptr
	scratch uintptr // room for two results
	stmts   map[string]*stmt
	found   []located // room for what a look at a queue finds
	packet  []byte    // room for a packet of the packet log
}

// at is a pointer to memory of SQLite's own, which Go neither moves nor frees.
func at(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// openConn opens a connection to the file that uri names and runs the pragmas.
func openConn(uri string, pragmas ...string) (*conn, error) {
	c := &conn{tls: libc.NewTLS(), stmts: map[string]*stmt{}}
	c.scratch = libc.Xmalloc(c.tls, 16)
	name, err := libc.CString(uri)
	if err != nil || c.scratch == 0 {
		c.tls.Close()
		return nil, errNoMemory
	}
	defer libc.Xfree(c.tls, name)
	*(*uintptr)(at(c.scratch)) = 0
	rc := sqlite3.Xsqlite3_open_v2(c.tls, name, c.scratch, sqlite3.SQLITE_OPEN_READWRITE|sqlite3.SQLITE_OPEN_CREATE|
		sqlite3.SQLITE_OPEN_NOMUTEX|sqlite3.SQLITE_OPEN_URI, 0)
	c.db = *(*uintptr)(at(c.scratch))
	if rc != sqlite3.SQLITE_OK {
		err := c.failure(rc)
		c.close()
		return nil, err
	}
	sqlite3.Xsqlite3_extended_result_codes(c.tls, c.db, 1)
	for _, p := range pragmas {
		if err := c.script("PRAGMA " + p); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// close ends the connection. The last one of a file moves the write-ahead log
// into it.
func (c *conn) close() {
	for _, s := range c.stmts {
		s.finalize()
	}
	c.stmts = nil
	sqlite3.Xsqlite3_close_v2(c.tls, c.db)
	libc.Xfree(c.tls, c.scratch)
	c.tls.Close()
}

// keepLog has close leave the write-ahead log as it is.
func (c *conn) keepLog() {
	args := libc.Xmalloc(c.tls, 16)
	defer libc.Xfree(c.tls, args)
	sqlite3.Xsqlite3_db_config(c.tls, c.db, sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, libc.VaList(args, int32(1), uintptr(0)))
}

// busyTimeout bounds the wait for a lock that another connection holds.
func (c *conn) busyTimeout(milliseconds int32) {
	sqlite3.Xsqlite3_busy_timeout(c.tls, c.db, milliseconds)
}

// pagesWritten returns the pages that the connection has written since the
// last call.
func (c *conn) pagesWritten() int64 {
	current := c.scratch
	sqlite3.Xsqlite3_db_status(c.tls, c.db, sqlite3.SQLITE_DBSTATUS_CACHE_WRITE, current, current+8, 1)
	return int64(*(*int32)(at(current)))
}

// script runs statements that have no parameters and whose rows do not matter.
func (c *conn) script(text string) error {
	p, err := libc.CString(text)
	if err != nil {
		return errNoMemory
	}
	defer libc.Xfree(c.tls, p)
	return c.check(sqlite3.Xsqlite3_exec(c.tls, c.db, p, 0, 0, 0))
}

// prepare returns the statement of a text, of which a connection meets few.
func (c *conn) prepare(text string) (*stmt, error) {
	if s := c.stmts[text]; s != nil {
		return s, nil
	}
	p, err := libc.CString(text)
	if err != nil {
		return nil, errNoMemory
	}
	defer libc.Xfree(c.tls, p)
	if err := c.check(sqlite3.Xsqlite3_prepare_v3(c.tls, c.db, p, -1, sqlite3.SQLITE_PREPARE_PERSISTENT, c.scratch, 0)); err != nil {
		return nil, err
	}
	s := &stmt{c: c, p: *(*uintptr)(at(c.scratch))}
	s.values = make([]value, sqlite3.Xsqlite3_bind_parameter_count(c.tls, s.p))
	c.stmts[text] = s
	return s, nil
}

func (c *conn) changes() int64 { return int64(sqlite3.Xsqlite3_changes(c.tls, c.db)) }

func (c *conn) check(rc int32) error {
	if rc == sqlite3.SQLITE_OK || rc == sqlite3.SQLITE_ROW || rc == sqlite3.SQLITE_DONE {
		return nil
	}
	return c.failure(rc)
}

func (c *conn) failure(rc int32) error {
	return storage(&sqliteError{code: int(rc), message: libc.GoString(sqlite3.Xsqlite3_errmsg(c.tls, c.db))})
}

// sqliteError is a result code of SQLite with its message.
type sqliteError struct {
	code    int // extended
	message string
}

func (e *sqliteError) Error() string { return fmt.Sprintf("%s (%d)", e.message, e.code) }

var errNoMemory = fault.New(fault.StorageFailed, "out of memory")

// stmt is a prepared statement. Bind its parameters, which count from 1, then
// step through its rows, whose columns count from 0, and reset it. Parameters
// that are not bound again keep their values.
type stmt struct {
	c      *conn
	p      uintptr
	values []value // of the parameters
}

// value is memory outside of Go's for a text or blob parameter: SQLite reads it
// while Go may move what is on a stack.
type value struct {
	p    uintptr
	size int
}

// keptValue bounds the memory that a parameter keeps between uses.
const keptValue = 64 << 10

func (s *stmt) finalize() {
	sqlite3.Xsqlite3_finalize(s.c.tls, s.p)
	for _, v := range s.values {
		libc.Xfree(s.c.tls, v.p)
	}
}

func (s *stmt) int(i int, v int64) { sqlite3.Xsqlite3_bind_int64(s.c.tls, s.p, int32(i), v) }
func (s *stmt) null(i int)         { sqlite3.Xsqlite3_bind_null(s.c.tls, s.p, int32(i)) }

func (s *stmt) flag(i int, v bool) {
	if v {
		s.int(i, 1)
		return
	}
	s.int(i, 0)
}

func (s *stmt) text(i int, v string) {
	p := s.hold(i, len(v))
	copy(unsafe.Slice((*byte)(at(p)), len(v)), v)
	sqlite3.Xsqlite3_bind_text(s.c.tls, s.p, int32(i), p, int32(len(v)), sqlite3.SQLITE_STATIC)
}

func (s *stmt) blob(i int, v []byte) {
	p := s.hold(i, len(v))
	copy(unsafe.Slice((*byte)(at(p)), len(v)), v)
	sqlite3.Xsqlite3_bind_blob(s.c.tls, s.p, int32(i), p, int32(len(v)), sqlite3.SQLITE_STATIC)
}

// hold returns memory for a parameter.
func (s *stmt) hold(i, size int) uintptr {
	v := &s.values[i-1]
	if v.p == 0 || v.size < size || v.size > keptValue {
		// Unbound first: SQLite must not look at what is freed.
		s.null(i)
		libc.Xfree(s.c.tls, v.p)
		v.size = max(64, size)
		if v.p = libc.Xmalloc(s.c.tls, types.Size_t(v.size)); v.p == 0 {
			panic(errNoMemory) // as Go itself ends when there is none
		}
	}
	return v.p
}

// bind binds all parameters.
func (s *stmt) bind(args []any) error {
	if len(args) != len(s.values) {
		return fault.New(fault.StorageFailed, "%d arguments for %d parameters", len(args), len(s.values))
	}
	for i, arg := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return storage(err)
		}
		switch v := v.(type) {
		case nil:
			s.null(i + 1)
		case int64:
			s.int(i+1, v)
		case bool:
			s.flag(i+1, v)
		case string:
			s.text(i+1, v)
		case []byte:
			if v == nil {
				s.null(i + 1)
			} else {
				s.blob(i+1, v)
			}
		default:
			return fault.New(fault.StorageFailed, "an argument of type %T", arg)
		}
	}
	return nil
}

// step reports whether there is another row. After an error the statement is
// reset.
func (s *stmt) step() (bool, error) {
	rc := sqlite3.Xsqlite3_step(s.c.tls, s.p)
	if err := s.c.check(rc); err != nil {
		s.reset()
		return false, err
	}
	return rc == sqlite3.SQLITE_ROW, nil
}

func (s *stmt) reset() { sqlite3.Xsqlite3_reset(s.c.tls, s.p) }

// run executes a statement whose rows do not matter.
func (s *stmt) run() error {
	for {
		more, err := s.step()
		if err != nil {
			return err
		}
		if !more {
			s.reset()
			return nil
		}
	}
}

// first steps to the only row that is looked at.
func (s *stmt) first() (bool, error) {
	ok, err := s.step()
	if err == nil && !ok {
		s.reset()
	}
	return ok, err
}

func (s *stmt) intAt(i int) int64 { return sqlite3.Xsqlite3_column_int64(s.c.tls, s.p, int32(i)) }

// bytesAt returns a text or blob column, which is gone after the next step or
// reset.
func (s *stmt) bytesAt(i int) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.p, int32(i))
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.p, int32(i))
	if p == 0 || n <= 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at(p)), int(n))
}

// scan copies the columns of the row to dest.
func (s *stmt) scan(dest []any) error {
	for i, d := range dest {
		if err := s.scanColumn(i, d); err != nil {
			return err
		}
	}
	return nil
}

func (s *stmt) scanColumn(i int, dest any) error {
	switch d := dest.(type) {
	case *int64:
		*d = s.intAt(i)
	case *bool:
		*d = s.intAt(i) != 0
	case *string:
		*d = string(s.bytesAt(i))
	case *[]byte:
		*d = append([]byte(nil), s.bytesAt(i)...)
	case interface{ Scan(any) error }:
		return storage(d.Scan(s.valueAt(i)))
	default:
		v := reflect.ValueOf(dest).Elem()
		if !v.CanInt() {
			return fault.New(fault.StorageFailed, "a result of type %T", dest)
		}
		v.SetInt(s.intAt(i))
	}
	return nil
}

func (s *stmt) valueAt(i int) any {
	switch sqlite3.Xsqlite3_column_type(s.c.tls, s.p, int32(i)) {
	case sqlite3.SQLITE_INTEGER:
		return s.intAt(i)
	case sqlite3.SQLITE_TEXT:
		return string(s.bytesAt(i))
	case sqlite3.SQLITE_BLOB:
		return append([]byte(nil), s.bytesAt(i)...)
	}
	return nil
}
