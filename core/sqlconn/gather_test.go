package sqlconn_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core/sqlconn"
	"github.com/ace-toolkit/ace/internal/faultdisk"
)

// disk notes what is done to the write-ahead log below a folder.
type disk struct {
	mu   sync.Mutex
	ops  []faultdisk.Kind
	fail faultdisk.Kind // refuse these
}

func watch(t *testing.T, dir string) *disk {
	d := &disk{}
	t.Cleanup(faultdisk.Watch(dir, func(op faultdisk.Op) int32 {
		d.mu.Lock()
		defer d.mu.Unlock()
		if !strings.HasSuffix(op.Path, "-wal") {
			return faultdisk.OK
		}
		d.ops = append(d.ops, op.Kind)
		if op.Kind == d.fail {
			return faultdisk.WriteFailed
		}
		return faultdisk.OK
	}))
	return d
}

// during returns what is done to the log while f runs.
func (d *disk) during(f func()) string {
	d.mu.Lock()
	d.ops = nil
	d.mu.Unlock()
	f()
	d.mu.Lock()
	defer d.mu.Unlock()
	words := make([]string, len(d.ops))
	for i, op := range d.ops {
		words[i] = string(op)
	}
	return strings.Join(words, " ")
}

func openGathering(t *testing.T, path string, pragmas ...string) *sqlconn.Conn {
	t.Helper()
	c, err := sqlconn.Open(sqlconn.FileURI(path), func(err error) error { return err },
		append([]string{"journal_mode(WAL)", "synchronous(FULL)"}, pragmas...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.GatherCommits(); err != nil {
		t.Fatal(err)
	}
	return c
}

const fiveTables = `CREATE TABLE IF NOT EXISTS a (x); CREATE TABLE IF NOT EXISTS b (x); CREATE TABLE IF NOT EXISTS c (x);
	CREATE TABLE IF NOT EXISTS d (x); CREATE TABLE IF NOT EXISTS e (x)`

// insert adds a row of a size to each table, and commits them.
func insert(c *sqlconn.Conn, size int) error {
	err := c.Command("BEGIN IMMEDIATE")
	for _, table := range []string{"a", "b", "c", "d", "e"} {
		err = errors.Join(err, exec(c, "INSERT INTO "+table+" VALUES (?)", make([]byte, size)))
	}
	return errors.Join(err, c.Commit())
}

func count(t *testing.T, c *sqlconn.Conn) (n int64) {
	t.Helper()
	s, err := c.Prepare("SELECT (SELECT count(*) FROM a) + (SELECT count(*) FROM b) + (SELECT count(*) FROM c) + (SELECT count(*) FROM d) + (SELECT count(*) FROM e)")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Reset()
	if ok, err := s.Step(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if err := s.Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func checkWhole(t *testing.T, c *sqlconn.Conn) {
	t.Helper()
	s, err := c.Prepare("PRAGMA integrity_check")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Reset()
	var verdict string
	if _, err := s.Step(); err != nil {
		t.Fatal(err)
	}
	if err := s.Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("%s: %v", verdict, err)
	}
}

// A commit reaches the log in one write and one sync, and others see all of it.
func TestCommitsAreGathered(t *testing.T) {
	dir := t.TempDir()
	d := watch(t, dir)
	c, other := openGathering(t, filepath.Join(dir, "x.db")), openGathering(t, filepath.Join(dir, "x.db"))
	if err := errors.Join(c.Script(fiveTables), insert(c, 10)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		did := d.during(func() {
			if err := insert(c, 10); err != nil {
				t.Fatal(err)
			}
		})
		if did != "write sync" {
			t.Errorf("a commit did %s", did)
		}
	}
	if n := count(t, other); n != 20 {
		t.Errorf("others see %d rows", n)
	}
	// What is larger than what is held back goes in several.
	did := d.during(func() {
		if err := insert(other, 60_000); err != nil {
			t.Fatal(err)
		}
	})
	if did != "write write write sync" {
		t.Errorf("a large commit did %s", did)
	}
	if n := count(t, c); n != 25 {
		t.Errorf("others see %d rows", n)
	}
	checkWhole(t, c)
}

// Pages that leave the cache before the commit are in the log by then, and the
// commit writes some of them again.
func TestCommitOfMoreThanTheCache(t *testing.T) {
	dir := t.TempDir()
	d := watch(t, dir)
	c, other := openGathering(t, filepath.Join(dir, "x.db"), "cache_size(10)"), openGathering(t, filepath.Join(dir, "x.db"))
	if err := c.Script(fiveTables); err != nil {
		t.Fatal(err)
	}
	did := d.during(func() {
		err := c.Command("BEGIN IMMEDIATE")
		for range 40 {
			for _, table := range []string{"a", "b", "c", "d", "e"} {
				err = errors.Join(err, exec(c, "INSERT INTO "+table+" VALUES (?)", make([]byte, 1500)))
			}
		}
		// New pages behind those that are written again.
		err = errors.Join(err, exec(c, "INSERT INTO a VALUES (?)", make([]byte, 9000)))
		if n := count(t, other); n != 0 {
			t.Errorf("others see %d rows before the commit", n)
		}
		if err := errors.Join(err, c.Commit()); err != nil {
			t.Fatal(err)
		}
	})
	if strings.Count(did, "write") < 10 || strings.Count(did, "sync") != 1 {
		t.Fatalf("the cache held all of it: %s", did)
	}
	// A commit whose last page was in the log before it reads that page again.
	err := c.Command("BEGIN IMMEDIATE")
	for range 200 {
		err = errors.Join(err, exec(c, "INSERT INTO e VALUES (?)", make([]byte, 1500)))
	}
	count(t, c) // takes the cache
	err = errors.Join(err, exec(c, "UPDATE e SET x = zeroblob(1400) WHERE rowid = (SELECT max(rowid) FROM e)"), c.Commit())
	if n := count(t, other); n != 401 || err != nil {
		t.Fatalf("others see %d rows: %v", n, err)
	}
	if n := count(t, recovered(t, dir)); n != 401 {
		t.Errorf("the files have %d rows", n)
	}
	// Without the commit nothing is left behind.
	err = c.Command("BEGIN IMMEDIATE")
	for range 200 {
		err = errors.Join(err, exec(c, "INSERT INTO a VALUES (?)", make([]byte, 1500)))
	}
	if err := errors.Join(err, c.Command("ROLLBACK"), insert(other, 10), insert(c, 10)); err != nil {
		t.Fatal(err)
	}
	if n, m := count(t, c), count(t, other); n != 411 || m != 411 {
		t.Errorf("%d rows, others see %d", n, m)
	}
	checkWhole(t, other)
}

// recovered opens the files as they are now, as after a crash.
func recovered(t *testing.T, dir string) *sqlconn.Conn {
	t.Helper()
	copied := t.TempDir()
	for _, name := range []string{"x.db", "x.db-wal"} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(copied, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := openGathering(t, filepath.Join(copied, "x.db"))
	checkWhole(t, c)
	return c
}

// A commit whose write or sync fails is none, and the next one is whole.
func TestFailedCommit(t *testing.T) {
	for _, kind := range []faultdisk.Kind{faultdisk.Write, faultdisk.Sync} {
		t.Run(string(kind), func(t *testing.T) {
			dir := t.TempDir()
			d := watch(t, dir)
			c, other := openGathering(t, filepath.Join(dir, "x.db")), openGathering(t, filepath.Join(dir, "x.db"))
			if err := errors.Join(c.Script(fiveTables), insert(c, 10)); err != nil {
				t.Fatal(err)
			}
			d.fail = kind
			if err := insert(c, 20); err == nil {
				t.Error("committed")
			}
			d.fail = ""
			if c.InTransaction() {
				if err := c.Command("ROLLBACK"); err != nil {
					t.Fatal(err)
				}
			}
			if n := count(t, other); n != 5 {
				t.Errorf("others see %d rows", n)
			}
			if err := errors.Join(insert(other, 30), insert(c, 40)); err != nil {
				t.Fatal(err)
			}
			if n, m := count(t, c), count(t, other); n != 15 || m != 15 {
				t.Errorf("%d rows, others see %d", n, m)
			}
			checkWhole(t, other)
		})
	}
}

// Where SQLite tells of a commit before a sync, nothing is held back.
func TestUnsyncedCommitsAreNotGathered(t *testing.T) {
	dir := t.TempDir()
	d := watch(t, dir)
	c, other := openGathering(t, filepath.Join(dir, "x.db"), "synchronous(NORMAL)"), openGathering(t, filepath.Join(dir, "x.db"))
	if err := errors.Join(c.Script(fiveTables), insert(c, 10)); err != nil {
		t.Fatal(err)
	}
	did := d.during(func() {
		if err := insert(c, 10); err != nil {
			t.Fatal(err)
		}
	})
	if strings.Count(did, "write") != 10 {
		t.Errorf("a commit of five pages did %s", did)
	}
	if n := count(t, other); n != 10 {
		t.Errorf("others see %d rows", n)
	}
}
