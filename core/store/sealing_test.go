package store_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/internal/faultdisk"
)

// secret begins every body of a store in the clear.
const secret = "PLAIN-WORDS"

// clearBody is the body of the n-th row, of very different sizes, so that rows
// move between pages.
func clearBody(n int) string {
	return fmt.Sprintf(`{"%s":%d,"more":"%s"}`, secret, n, strings.Repeat(secret+" ", n%7*n%97))
}

// keptRequests is how many requests there were for each that is kept.
const keptRequests = 6

// schema4 writes a store as the program before sealed.sql did, with the given
// number of rows in each table, and returns the folder that it is in.
func schema4(t testing.TB, count int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "ace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "store.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path+"?_pragma=secure_delete(ON)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	run := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.Exec(statement, args...); err != nil {
			t.Fatalf("%.60s: %v", statement, err)
		}
	}
	run("PRAGMA journal_mode = WAL")
	for _, name := range []string{"schema.sql", "threads.sql", "blocks.sql", "receiving.sql"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		run(string(source))
	}
	run("PRAGMA user_version = 4")
	run("BEGIN")
	for n := range count {
		peer, id, body := fmt.Sprintf("ace:sha256:%04d", n%5), fmt.Sprintf("%08d-", n), []byte(clearBody(n))
		run("INSERT INTO message (message_id, peer, type, thread_id, body, sent_at, received_at, handled) VALUES (?, ?, 't', '', ?, ?, ?, ?)", id, peer, body, n, n, n%2)
		run("INSERT INTO outbox (message_id, peer, content, type, thread_id, request_id, created_at, state, next_attempt_at) VALUES (?, ?, ?, 't', '', ?, ?, 'pending', ?)", id, peer, body, id, n, n)
		run("INSERT INTO request (peer, body, received_at) VALUES (?, ?, ?)", fmt.Sprintf("%s-%d", peer, n), body, n+1)
	}
	run("INSERT INTO applied_receipt VALUES ('00000001-', 'delivered', '')")
	run("COMMIT")
	// Rows that go leave gaps, pages with few rows become one, and what SQLite moved
	// then stays in the unused part of a page.
	for seq := 1; seq <= count; seq++ {
		if seq%3 == 0 {
			run("DELETE FROM outbox WHERE seq = ?", seq)
		}
		if seq%keptRequests != 0 {
			run("DELETE FROM request WHERE seq = ?", seq)
		}
	}
	return dir
}

// checkSealed reads what schema4 wrote.
func checkSealed(t testing.TB, s *store.Store, count int) {
	t.Helper()
	err := s.View(t.Context(), func(tx *store.Tx) error {
		messages, err := tx.Messages(store.MessageFilter{})
		if err != nil || len(messages) != count {
			t.Fatalf("%d messages: %v", len(messages), err)
		}
		for n, m := range messages {
			if m.Damaged != nil || string(m.Body) != clearBody(n) || m.SentAt != int64(n) || m.Handled != (n%2 == 1) {
				t.Fatalf("message %d: %+v", n, m)
			}
		}
		waiting, err := tx.CountUnhandled()
		if err != nil || waiting != int64(count+1)/2 {
			t.Errorf("%d messages are unread, of %d: %v", waiting, count, err)
		}
		entries, err := tx.OutboxEntries()
		if err != nil || len(entries) != count-count/3 {
			t.Fatalf("%d entries: %v", len(entries), err)
		}
		for _, e := range entries {
			if e.Damaged != nil || string(e.Content) != clearBody(int(e.CreatedAt)) {
				t.Fatalf("entry %d: %+v", e.CreatedAt, e)
			}
		}
		applied, err := tx.ReceiptApplied("00000001-", "delivered", "")
		if err != nil || !applied {
			t.Errorf("a receipt is forgotten: %v", err)
		}
		requests, err := tx.Requests(0)
		if err != nil || len(requests) != count/keptRequests {
			t.Fatalf("%d requests: %v", len(requests), err)
		}
		for _, q := range requests {
			if q.Damaged != nil || string(q.Body) != clearBody(int(q.ReceivedAt-1)) {
				t.Fatalf("request %d: %+v", q.ReceivedAt, q)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// holds reports whether a text is in a file of a folder.
func holds(t testing.TB, dir, text string) bool {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}

// Opening a store of before seals every row, and while it is open nothing that
// was in the clear is in a file, the write-ahead log included.
func TestMigrationSealsRows(t *testing.T) {
	for _, count := range []int{1, 100, 450} {
		dir := schema4(t, count)
		if !holds(t, dir, secret) {
			t.Fatal("nothing is in the clear: the test does not look")
		}
		key := suite.NewSeed()
		s := open(t, filepath.Join(dir, "store.db"), key)
		checkSealed(t, s, count)
		if holds(t, dir, secret) {
			t.Errorf("%d rows: what was in the clear is in a file", count)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkSealed(t, open(t, filepath.Join(dir, "store.db"), key), count)
	}
}

// A process of the program before that still has the store open writes nothing in
// the clear into it: its statements fail.
func TestOlderProgramCannotWriteClearRows(t *testing.T) {
	dir := schema4(t, 3)
	path := filepath.Join(dir, "store.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	old, err := db.Prepare("INSERT INTO message (message_id, peer, type, thread_id, body, sent_at, received_at, handled) VALUES ('x', 'p', 't', '', ?, 1, 1, 0)")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	s := open(t, path, suite.NewSeed())
	if _, err := old.Exec([]byte(clearBody(1))); err == nil {
		t.Error("it wrote a row")
	}
	checkSealed(t, s, 3)
}

// While another process reads, the traces of the rows stay, and the next opening
// removes them.
func TestTracesGoWhenNobodyReads(t *testing.T) {
	t.Parallel()
	dir := schema4(t, 450)
	path := filepath.Join(dir, "store.db")
	reader, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	reading, err := reader.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := reading.QueryRow("SELECT count(*) FROM message").Scan(&n); err != nil {
		t.Fatal(err)
	}
	key := suite.NewSeed()
	s, err := store.Open(t.Context(), path, key)
	if err != nil {
		t.Fatal(err)
	}
	checkSealed(t, s, 450)
	if !holds(t, dir, secret) {
		t.Error("what the other one reads is gone: the test does not look")
	}
	if err := errors.Join(reading.Rollback(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, key)
	checkSealed(t, s, 450)
	if holds(t, dir, secret) {
		t.Error("what was in the clear is in a file")
	}
}

// Whatever the disk refuses from some moment on while a store is migrated, the
// next opening finds each row sealed or each in the clear, and ends with all of
// them sealed and no trace left.
func TestMigrationCutShort(t *testing.T) {
	const count = 100
	origin, key := schema4(t, count), suite.NewSeed()
	ops := cutMigration(t, origin, key, -1, count)
	if ops < 30 {
		t.Fatalf("%d operations of the disk: the test does not look", ops)
	}
	for cut := 0; cut < ops; cut += max(1, ops/50) {
		cutMigration(t, origin, key, cut, count)
	}
}

// cutMigration opens a copy of a store on a disk that refuses everything from its
// cut-th operation on, -1 for none, opens it again on one that works, and returns
// how many operations the first opening took.
func cutMigration(t *testing.T, origin string, key *suite.Seed, cut, count int) (ops int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "ace")
	if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "store.db")
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Chmod(name, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	dead := false
	stop := faultdisk.Watch(dir, func(op faultdisk.Op) int32 {
		if dead = dead || ops == cut; dead {
			return faultdisk.WriteFailed
		}
		ops++
		return faultdisk.OK
	})
	s, err := store.Open(t.Context(), path, key)
	switch {
	case cut < 0 && err != nil:
		t.Fatal(err)
	case err != nil && !errors.Is(err, fault.StorageFailed):
		t.Errorf("cut at %d: %v", cut, err)
	case err == nil:
		_ = s.Close()
	}
	stop()
	again, err := store.Open(t.Context(), path, key)
	if err != nil {
		t.Fatalf("cut at %d: opened again: %v", cut, err)
	}
	defer again.Close()
	checkSealed(t, again, count)
	if holds(t, dir, secret) {
		t.Errorf("cut at %d: what was in the clear is in a file", cut)
	}
	return ops
}
