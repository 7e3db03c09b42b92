package store

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
)

func openNew(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "ace", "store.db"), suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *Store) must(t *testing.T, f func(*Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func withhold(tx *Tx, m Message) error {
	_, err := tx.AddWithheld(m)
	return err
}

// A sender whose messages fill quarantine pushes out his own, and none of others.
// What goes is told.
func TestQuarantineIsNotPushedOutByOthers(t *testing.T) {
	s := openNew(t)
	add := func(tx *Tx, peer, id, gone string) {
		t.Helper()
		got, err := tx.AddWithheld(Message{MessageID: id, Peer: peer, Body: []byte("{}")})
		switch {
		case err != nil:
			t.Fatal(err)
		case gone == "" && got != nil:
			t.Fatalf("%s pushed out %+v", id, got)
		case gone != "" && (got == nil || got.MessageID != gone || got.Peer != "flood"):
			t.Fatalf("%s pushed out %+v, want %s", id, got, gone)
		}
	}
	s.must(t, func(tx *Tx) error {
		add(tx, "quiet", "first", "")
		for i := range maxWithheld - 1 {
			add(tx, "flood", fmt.Sprint(i), "")
		}
		add(tx, "flood", "more", "0")
		add(tx, "flood", "more", "") // the same again takes no room
		add(tx, "quiet", "second", "1")
		all, err := tx.WithheldMessages()
		if len(all) != maxWithheld || all[0].MessageID != "first" || all[maxWithheld-1].MessageID != "second" {
			t.Errorf("%d are kept, from %q", len(all), all[0].MessageID)
		}
		return err
	})
}

// What is in quarantine has one number for good, a packet or a message, and what
// comes of one kind pushes out none of the other.
func TestQuarantineNumbers(t *testing.T) {
	s := openNew(t)
	m := Message{MessageID: "m", Peer: "p", Type: "t", ThreadID: "x", Body: []byte("{}"), SentAt: 1, ReceivedAt: 2}
	s.must(t, func(tx *Tx) error {
		return errors.Join(tx.AddQuarantine(Quarantined{StreamID: "1-0", Packet: []byte("{}")}), withhold(tx, m),
			withhold(tx, m), tx.AddQuarantine(Quarantined{StreamID: "2-0", Packet: []byte("{}")}))
	})
	s.must(t, func(tx *Tx) error {
		packets, err := tx.Quarantine()
		if err != nil || len(packets) != 2 || packets[0].ID != 1 {
			t.Errorf("packets %+v: %v", packets, err)
		}
		kept, ok, err := tx.WithheldMessage(2)
		if err != nil || !ok || kept.MessageID != m.MessageID || kept.ThreadID != "x" || kept.SentAt != 1 || kept.ReceivedAt != 2 {
			t.Errorf("message %+v: %v", kept, err)
		}
		if has, err := tx.HasWithheld("p", "m"); !has || err != nil {
			t.Errorf("it is not there: %v", err)
		}
		if has, err := tx.HasWithheld("q", "m"); has || err != nil {
			t.Errorf("that of another: %v", err)
		}
		if any, err := tx.HasHistory(); !any || err != nil {
			t.Errorf("what is withheld was taken in: %v", err)
		}
		found, err := tx.DropQuarantined(packets[1].ID)
		if !found || err != nil {
			t.Errorf("drop: %v", err)
		}
		return withhold(tx, Message{MessageID: "n", Peer: "p", Body: []byte("{}")})
	})
	s.must(t, func(tx *Tx) error {
		all, err := tx.WithheldMessages()
		if err != nil || len(all) != 2 || all[1].Number <= 4 {
			t.Errorf("a number was given twice: %+v, %v", all, err)
		}
		for i := range maxWithheld + 10 {
			if err := withhold(tx, Message{MessageID: fmt.Sprint(i), Peer: "p", Body: []byte("{}")}); err != nil {
				return err
			}
		}
		if all, err = tx.WithheldMessages(); len(all) != maxWithheld || all[0].MessageID != "10" {
			t.Errorf("%d are kept: %v", len(all), err)
		}
		if packets, err := tx.Quarantine(); len(packets) != 1 {
			t.Errorf("messages pushed out packets: %v, %v", packets, err)
		}
		for range maxQuarantine + 10 {
			if err := tx.AddQuarantine(Quarantined{StreamID: "3-0", Packet: []byte("{}")}); err != nil {
				return err
			}
			if err := withhold(tx, Message{MessageID: suite.NewMessageID(), Peer: "p", Body: []byte("{}")}); err != nil {
				return err
			}
		}
		if packets, err := tx.Quarantine(); len(packets) != maxQuarantine {
			t.Errorf("%d packets are kept: %v", len(packets), err)
		}
		return nil
	})
}

// The numbers of a store from before go on behind the last one it gave, also when
// that one was dropped.
func TestQuarantineNumbersGoOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ace", "store.db")
	if err := prepareFile(path); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	at := slices.Index(migrations, "policy.sql")
	for _, name := range migrations[:at] {
		text, err := sources.ReadFile(name)
		if err == nil {
			_, err = db.Exec(string(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, statement := range []string{
		fmt.Sprintf("PRAGMA user_version = %d", at), "INSERT INTO quarantine (stream_id, packet, code, at) VALUES ('1-0', x'7b7d', 'c', 1), ('2-0', x'7b7d', 'c', 1)",
		"DELETE FROM quarantine WHERE seq = 2",
		"INSERT INTO outbox (message_id, peer, sealed, type, thread_id, request_id, created_at, state, next_attempt_at) VALUES ('m', 'p', x'7b7d', 't', '', '', 1, 'pending', 1)",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), path, suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.must(t, func(tx *Tx) error {
		if err := tx.AddQuarantine(Quarantined{StreamID: "3-0", Packet: []byte("{}")}); err != nil {
			return err
		}
		packets, err := tx.Quarantine()
		if err != nil || len(packets) != 2 || packets[1].ID != 3 {
			t.Errorf("packets %+v: %v", packets, err)
		}
		e, ok, err := tx.Outbox("m")
		if !ok || e.State != Pending || e.HeldAt != 0 || e.Reason != "" {
			t.Errorf("entry %+v: %v", e, err)
		}
		return nil
	})
}

// What is held for its owner has not ended: upkeep removes it not before it has,
// and a copy of the store sends it no more than what was queued.
func TestHeldEntries(t *testing.T) {
	s := openNew(t)
	held := OutboxEntry{MessageID: "h", Peer: "p", Content: []byte("{}"), State: PendingApproval, HeldAt: 5, HeldUntil: 10, NextAttemptAt: 5}
	s.must(t, func(tx *Tx) error {
		queued := held
		queued.MessageID, queued.State, queued.HeldAt, queued.HeldUntil = "q", Pending, 0, 0
		if err := errors.Join(tx.Bind("me"), tx.AddOutbox(held), tx.AddOutbox(queued)); err != nil {
			return err
		}
		if n, err := tx.DeleteSettled(1000); n != 0 || err != nil {
			t.Errorf("%d were removed: %v", n, err)
		}
		for until, want := range map[int64]int{9: 0, 10: 1} {
			if due, err := tx.OutboxHeld(until); len(due) != want || err != nil {
				t.Errorf("at %d: %v, %v", until, due, err)
			}
		}
		if due, err := tx.OutboxPending(1000); len(due) != 1 || due[0].MessageID != "q" {
			t.Errorf("due %v: %v", due, err)
		}
		if ahead, err := tx.OutboxAhead("p", "q"); ahead != "" || err != nil {
			t.Errorf("%q is ahead: %v", ahead, err)
		}
		return tx.Requeue("h", 7)
	})
	s.must(t, func(tx *Tx) error {
		entries, err := tx.OutboxEntries()
		if err != nil || entries[0].MessageID != "q" || entries[1].CreatedAt != 7 {
			t.Errorf("entries %+v: %v", entries, err)
		}
		if ahead, err := tx.OutboxAhead("p", "h"); ahead != "q" || err != nil {
			t.Errorf("%q is ahead: %v", ahead, err)
		}
		if err := tx.AddOutbox(OutboxEntry{MessageID: "last", Peer: "p", Content: []byte("{}"), State: Pending}); err != nil {
			return err
		}
		if entries, err = tx.OutboxEntries(); entries[2].MessageID != "last" {
			t.Errorf("entries %+v: %v", entries, err)
		}
		return nil
	})
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := s.Snapshot(t.Context(), path, 50); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var left int
	if err := db.QueryRow("SELECT count(*) FROM outbox WHERE state <> 'expired'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d go on in a copy: %v", left, err)
	}
}
