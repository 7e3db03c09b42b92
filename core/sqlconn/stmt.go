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

// Stmt is a prepared statement. Bind its parameters, which count from 1, step
// through its rows, whose columns count from 0, and reset it. Parameters that
// are not bound again keep their values; a statement is reset before they are.
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

// Bind binds all parameters, to integers, booleans, strings, byte slices, types
// made of these, or nil.
func (s *Stmt) Bind(args []any) error {
	if len(args) != len(s.values) {
		return s.c.wrap(fmt.Errorf("%d arguments for %d parameters", len(args), len(s.values)))
	}
	for i, arg := range args {
		if err := s.bindOne(i+1, arg); err != nil {
			return s.c.wrap(err)
		}
	}
	return nil
}

func (s *Stmt) bindOne(i int, arg any) error {
	switch v := arg.(type) {
	case nil:
		s.BindNull(i)
	case int64:
		s.BindInt(i, v)
	case int:
		s.BindInt(i, int64(v))
	case bool:
		s.BindBool(i, v)
	case string:
		s.BindText(i, v)
	case []byte:
		if v == nil {
			s.BindNull(i)
		} else {
			s.BindBlob(i, v)
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

// BindInt binds a parameter to an integer.
func (s *Stmt) BindInt(i int, v int64) { sqlite3.Xsqlite3_bind_int64(s.c.tls, s.p, int32(i), v) }

// BindNull binds a parameter to NULL.
func (s *Stmt) BindNull(i int) { sqlite3.Xsqlite3_bind_null(s.c.tls, s.p, int32(i)) }

// BindBool binds a parameter to 1 or 0.
func (s *Stmt) BindBool(i int, v bool) {
	if v {
		s.BindInt(i, 1)
		return
	}
	s.BindInt(i, 0)
}

// BindText binds a parameter to a copy of v.
func (s *Stmt) BindText(i int, v string) {
	p := s.hold(i, len(v))
	copy(unsafe.Slice((*byte)(at(p)), len(v)), v)
	sqlite3.Xsqlite3_bind_text(s.c.tls, s.p, int32(i), p, int32(len(v)), sqlite3.SQLITE_STATIC)
}

// BindBlob binds a parameter to a copy of v, which is a blob without bytes also
// when it is nil.
func (s *Stmt) BindBlob(i int, v []byte) {
	p := s.hold(i, len(v))
	copy(unsafe.Slice((*byte)(at(p)), len(v)), v)
	sqlite3.Xsqlite3_bind_blob(s.c.tls, s.p, int32(i), p, int32(len(v)), sqlite3.SQLITE_STATIC)
}

// hold returns memory for a parameter.
func (s *Stmt) hold(i, size int) uintptr {
	v := &s.values[i-1]
	if v.p == 0 || v.size < size || v.size > keptValue {
		// Unbound first: SQLite must not look at what is freed.
		s.BindNull(i)
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
			*d = s.Int(i)
		case *string:
			*d = string(s.Bytes(i))
		case *[]byte:
			*d = append([]byte(nil), s.Bytes(i)...)
		case *bool:
			*d = s.Int(i) != 0
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
		v.SetInt(s.Int(i))
	case v.Kind() == reflect.String:
		v.SetString(string(s.Bytes(i)))
	default:
		return s.c.wrap(fmt.Errorf("a result of type %s", v.Type()))
	}
	return nil
}

// Int returns a column as an integer, 0 for NULL.
func (s *Stmt) Int(i int) int64 { return sqlite3.Xsqlite3_column_int64(s.c.tls, s.p, int32(i)) }

// Bytes returns a text or blob column, which is gone after the next step or
// reset.
func (s *Stmt) Bytes(i int) []byte {
	p := sqlite3.Xsqlite3_column_blob(s.c.tls, s.p, int32(i))
	n := sqlite3.Xsqlite3_column_bytes(s.c.tls, s.p, int32(i))
	if p == 0 || n <= 0 {
		return nil
	}
	return unsafe.Slice((*byte)(at(p)), int(n))
}
