package store

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/sqlconn"
	"github.com/ace-toolkit/ace/core/suite"
)

// Examine counts what waits beside a store that is in use, and changes no file.
func TestExamine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ace", "store.db")
	if c, err := Examine(t.Context(), path, 0, 0); err != nil || c.Exists {
		t.Errorf("no store: %+v, %v", c, err)
	}
	s, err := Open(t.Context(), path, suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Update(t.Context(), func(tx *Tx) error {
		for i, e := range []OutboxEntry{
			{MessageID: "a", State: Pending, CreatedAt: 5, NextAttemptAt: 100},
			{MessageID: "b", State: Pending, CreatedAt: 6, NextAttemptAt: 101, Attempts: 1, FirstAttemptAt: 50},
			{MessageID: "c", State: Pending, CreatedAt: 7, NextAttemptAt: 500, Attempts: 1, FirstAttemptAt: 51},
			{MessageID: "d", State: Delivered, CreatedAt: 8, NextAttemptAt: 1, Attempts: 1, FirstAttemptAt: 1, SettledAt: 2},
		} {
			e.Peer, e.Content = "p", []byte("{}")
			if err := tx.AddOutbox(e); err != nil {
				return err
			}
			m := Message{MessageID: e.MessageID, Peer: "p", Body: []byte("{}"), ReceivedAt: int64(10 + i), Handled: i == 0}
			if err := tx.AddMessage(m); err != nil {
				return err
			}
		}
		return tx.Bind("ace:sha256:00")
	})
	if err != nil {
		t.Fatal(err)
	}
	files := func() (all []byte) {
		for _, beside := range []string{"", "-wal"} {
			text, err := os.ReadFile(path + beside)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		return all
	}
	before := files()
	c, err := Examine(t.Context(), path, 100, 50)
	want := Condition{
		Exists: true, Bytes: c.Bytes, LogBytes: c.LogBytes, Version: len(migrations), OurVersion: len(migrations), Identity: "ace:sha256:00",
		Unhandled: 3, Pending: 3, Overdue: 1, Ending: 1, NewestAt: 13,
	}
	if err != nil || c != want || c.Bytes+c.LogBytes != int64(len(before)) {
		t.Errorf("%+v, %v, want %+v", c, err, want)
	}
	if !bytes.Equal(before, files()) {
		t.Error("looking at the store changed it")
	}
	if err := s.Close(); err != nil { // who closes last would move the log into the database
		t.Fatal(err)
	}
	conn, err := sqlconn.Open(sqlconn.FileURI(path), coded, "journal_mode(WAL)")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Script("DELETE FROM outbox"); err != nil {
		t.Fatal(err)
	}
	conn.KeepLog()
	conn.Close()
	before = files()
	if c, err := Examine(t.Context(), path, 100, 50); err != nil || c.Pending != 0 || !bytes.Equal(before, files()) {
		t.Errorf("nobody else has it open: %+v, %v", c, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Examine(t.Context(), path, 0, 0); err == nil {
		t.Error("a file that others can read was read")
	}
}
