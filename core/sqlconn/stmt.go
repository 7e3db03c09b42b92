package sqlconn

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"unsafe"

	"modernc.org/libc"
	"modernc.org/libc/sys/types"
	sqlite3 "modernc.org/sqlite/lib"
)

// Stmt is a prepared statement. Bind its parameters, step through its rows, and
// reset it. Its rows are read before it is bound again.
type Stmt struct {
	c      *Conn
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

func (s *Stmt) finalize() {
	sqlite3.Xsqlite3_finalize(s.c.tls, s.p)
	for _, v := range s.values {
		libc.Xfree(s.c.tls, v.p)
	}
}

// Bind binds all parameters.
func (s *Stmt) Bind(args []any) error {
	if len(args) != len(s.values) {
		return s.c.wrap(fmt.Errorf("%d arguments for %d parameters", len(args), len(s.values)))
	}
	for i, arg := range args {
		if err := s.bindOne(i, arg); err != nil {
			return s.c.wrap(err)
		}
	}
	return nil
}

func (s *Stmt) bindOne(i int, arg any) error {
	switch v := arg.(type) {
	case nil:
		s.null(i)
	case int64:
		s.int(i, v)
	case int:
		s.int(i, int64(v))
	case bool:
		s.flag(i, v)
	case string:
		s.text(i, v)
	case []byte:
		if v == nil {
			s.null(i)
		} else {
			s.blob(i, v)
		}
	default:
		converted, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return err
		}
		if reflect.TypeOf(converted) == reflect.TypeOf(arg) {
			return fmt.Errorf("an argument of type %T", arg)
		}
		return s.bindOne(i, converted)
	}
	return nil
}

func (s *Stmt) int(i int, v int64) { sqlite3.Xsqlite3_bind_int64(s.c.tls, s.p, int32(i+1), v) }
func (s *Stmt) null(i int)         { sqlite3.Xsqlite3_bind_null(s.c.tls, s.p, int32(i+1)) }

func (s *Stmt) flag(i int, v bool) {
	if v {
		s.int(i, 1)
		return
	}
	s.int(i, 0)
}

func (s *Stmt) text(i int, v string) {
	p := s.hold(i, len(v))
	copy(unsafe.Slice((*byte)(at(p)), len(v)), v)
	sqlite3.Xsqlite3_bind_text(s.c.tls, s.p, int32(i+1), p, int32(len(v)), sqlite3.SQLITE_STATIC)
}

func (s *Stmt) blob(i int, v []byte) {
	p := s.hold(i, len(v))
	copy(unsafe.Slice((*byte)(at(p)), len(v)), v)
	sqlite3.Xsqlite3_bind_blob(s.c.tls, s.p, int32(i+1), p, int32(len(v)), sqlite3.SQLITE_STATIC)
}

// hold returns memory for a parameter.
func (s *Stmt) hold(i, size int) uintptr {
	v := &s.values[i]
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

// Step reports whether there is another row. After an error or the last row the
// statement is reset.
func (s *Stmt) Step() (bool, error) {
	rc := sqlite3.Xsqlite3_step(s.c.tls, s.p)
	if rc == sqlite3.SQLITE_ROW {
		return true, nil
	}
	err := s.c.check(rc) // before the reset, which may take its message
	s.Reset()
	return false, err
}

// Reset ends the statement's rows.
func (s *Stmt) Reset() { sqlite3.Xsqlite3_reset(s.c.tls, s.p) }

// Run executes a statement whose rows do not matter.
func (s *Stmt) Run() error {
	for {
		more, err := s.Step()
		if err != nil || !more {
			return err
		}
	}
}

// Scan copies the columns of the row to dest, pointers to integers, booleans,
// strings or byte slices.
func (s *Stmt) Scan(dest ...any) error {
	for i, d := range dest {
		switch d := d.(type) {
		case *int64:
			*d = s.intAt(i)
		case *string:
			*d = string(s.bytesAt(i))
		case *[]byte:
			*d = append([]byte(nil), s.bytesAt(i)...)
		case *bool:
			*d = s.intAt(i) != 0
		default:
			if err := s.scanKind(i, reflect.ValueOf(d).Elem()); err != nil {
				return err
			}
		}
	}
	return nil
}

// scanKind is for the types that are made of an integer or a string.
func (s *Stmt) scanKind(i int, v reflect.Value) error {
	switch {
	case v.CanInt():
		v.SetInt(s.intAt(i))
	case v.Kind() == reflect.String:
		v.SetString(string(s.bytesAt(i)))
	default:
		return s.c.wrap(fmt.Errorf("a result of type %s", v.Type()))
	}
	return nil
}

func (s *Stmt) intAt(i int) int64 { return sqlite3.Xsqlite3_column_int64(s.c.tls, s.p, int32(i)) }

// bytesAt returns a text or blob column, which is gone after the next step or
// reset.
func (s *Stmt) bytesAt(i int) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.p, int32(i))
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.p, int32(i))
	if p == 0 || n <= 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at(p)), int(n))
}
