package sqlconn_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/sqlconn"
)

type word string

func open(t *testing.T, path string) *sqlconn.Conn {
	t.Helper()
	c, err := sqlconn.Open(sqlconn.FileURI(path), func(err error) error { return errors.Join(errOurs, err) }, "journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var errOurs = errors.New("ours")

// exec runs a statement to its end.
func exec(c *sqlconn.Conn, text string, args ...any) error {
	s, err := c.Prepare(text)
	if err == nil {
		err = s.Bind(args)
	}
	if err == nil {
		err = s.Run()
	}
	return err
}

// What was bound is what a row gives back, whatever its size was before.
func TestValues(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "a?b#c.db"))
	if err := c.Script("CREATE TABLE t (i, s, b, f, w); CREATE TABLE u (x)"); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 63, 200_000, 5} {
		text, blob := strings.Repeat("ä\x00", size), bytes.Repeat([]byte{0, 7}, size)
		if err := errors.Join(exec(c, "DELETE FROM t"),
			exec(c, "INSERT INTO t VALUES (?, ?, ?, ?, ?)", int64(-1)<<62+int64(size), text, blob, size%2 == 1, word(text))); err != nil {
			t.Fatal(err)
		}
		if c.Changes() != 1 {
			t.Errorf("%d rows changed", c.Changes())
		}
		s, err := c.Prepare("SELECT i, s, b, f, w, typeof(b) FROM t")
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := s.Step(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		var i int64
		var a, kind string
		var b []byte
		var f bool
		var w word
		if err := s.Scan(&i, &a, &b, &f, &w, &kind); err != nil {
			t.Fatal(err)
		}
		if i != int64(-1)<<62+int64(size) || a != text || !bytes.Equal(b, blob) || f != (size%2 == 1) || w != word(text) || kind != "blob" {
			t.Errorf("size %d: %d %d %d %t %d %s", size, i, len(a), len(b), f, len(w), kind)
		}
		if more, err := s.Step(); more || err != nil {
			t.Fatal(more, err)
		}
	}
}

// A failure says what SQLite says, carries what the caller adds, and leaves the
// statement fit for use.
func TestFailures(t *testing.T) {
	c := open(t, filepath.Join(t.TempDir(), "t.db"))
	if err := c.Script("CREATE TABLE t (x INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	insert := func(x any) error { return exec(c, "INSERT INTO t VALUES (?)", x) }
	if err := insert(1); err != nil {
		t.Fatal(err)
	}
	var e *sqlconn.Error
	err := insert(1)
	if !errors.Is(err, errOurs) || !errors.As(err, &e) || !strings.Contains(err.Error(), "UNIQUE constraint failed: t.x") || sqlconn.IsBusy(err) {
		t.Errorf("second insert: %v", err)
	}
	if err := insert(2); err != nil {
		t.Errorf("after a failure: %v", err)
	}
	for name, err := range map[string]error{
		"struct": insert(struct{}{}), "no table": exec(c, "SELECT * FROM nothing"), "too few": exec(c, "SELECT ?"),
	} {
		if !errors.Is(err, errOurs) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A second writer is told that the file is busy; the first one's changes are
// gone when it rolls back.
func TestTransactions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.db")
	a, b := open(t, path), open(t, path)
	if err := errors.Join(a.Script("CREATE TABLE t (x)"), a.Command("BEGIN IMMEDIATE"), exec(a, "INSERT INTO t VALUES (1)")); err != nil {
		t.Fatal(err)
	}
	if !a.InTransaction() || b.InTransaction() {
		t.Error("InTransaction: wrong")
	}
	if err := b.Command("BEGIN IMMEDIATE"); !sqlconn.IsBusy(err) {
		t.Errorf("second writer: %v", err)
	}
	if err := a.Command("ROLLBACK"); err != nil || a.InTransaction() {
		t.Fatal(err)
	}
	s, err := b.Prepare("SELECT count(*) FROM t")
	if err != nil {
		t.Fatal(err)
	}
	n := -1
	if ok, err := s.Step(); !ok || err != nil || s.Scan(&n) != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}
