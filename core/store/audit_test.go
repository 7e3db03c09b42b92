package store_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// numbers returns the At of rows.
func numbers(rows []store.Audit) (at []int64) {
	for _, r := range rows {
		at = append(at, r.At)
	}
	return at
}

// A row comes back as it was written, and what later calls write stays behind it.
func TestAuditRows(t *testing.T) {
	s := newStore(t)
	row := store.Audit{
		At: 5, Event: audit.MessageRejected, Code: "invalid_body", Peer: alice, MessageID: "00000001-a", Relay: "https://r", KELSeq: 3, ExpiresAt: 9, Count: 2,
	}
	update(t, s, func(tx *store.Tx) error { return tx.AddAudit(row) })
	update(t, s, func(tx *store.Tx) error { return tx.AddAudit(store.Audit{At: 4, Event: audit.PinAdopted, Peer: bob}) })
	update(t, s, func(tx *store.Tx) error {
		all, err := tx.Audits(store.AuditFilter{})
		row.Seq = 1
		check(t, err, len(all) == 2 && all[0] == row && all[1].Seq == 2 && all[1].Event == audit.PinAdopted, "rows %+v", all)
		return nil
	})
}

func TestAuditFilter(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		for _, a := range []store.Audit{
			{At: 1, Event: audit.PinAdopted, Peer: alice},
			{At: 2, Event: audit.MessageDropped, Peer: alice, MessageID: "00000001-a"},
			{At: 3, Event: audit.MessageDropped, Peer: bob, MessageID: "00000001-b"},
			{At: 4, Event: audit.ContactBlocked, Peer: bob},
			{At: 5, Event: audit.StorePruned, Count: 7},
		} {
			if err := tx.AddAudit(a); err != nil {
				return err
			}
		}
		return nil
	})
	for _, c := range []struct {
		name   string
		filter store.AuditFilter
		want   []int64
	}{
		{"everything", store.AuditFilter{}, []int64{1, 2, 3, 4, 5}},
		{"behind a row", store.AuditFilter{After: 3}, []int64{4, 5}},
		{"since a time", store.AuditFilter{Since: 2}, []int64{2, 3, 4, 5}},
		{"about a peer", store.AuditFilter{Peer: alice}, []int64{1, 2}},
		{"about a message", store.AuditFilter{MessageID: "00000001-a"}, []int64{2}},
		{"about the start of an ID", store.AuditFilter{MessageID: "00000001"}, []int64{2, 3}},
		{"of an event", store.AuditFilter{Events: []audit.Event{audit.PinAdopted}}, []int64{1}},
		{"of two events", store.AuditFilter{Events: []audit.Event{audit.StorePruned, audit.MessageDropped}}, []int64{2, 3, 5}},
		{"of an event whose name goes on", store.AuditFilter{Events: []audit.Event{"pin.adopted_again"}}, nil},
		{"the newest two", store.AuditFilter{Limit: 2}, []int64{4, 5}},
		{"the newest about a peer", store.AuditFilter{Limit: 1, Peer: alice}, []int64{2}},
	} {
		update(t, s, func(tx *store.Tx) error {
			rows, err := tx.Audits(c.filter)
			check(t, err, slices.Equal(numbers(rows), c.want), "%s: rows %v, want %v", c.name, numbers(rows), c.want)
			return nil
		})
	}
}

// Strangers can send as many packets as they like: what is noted of them leaves
// room for the owner's decisions, and goes before them.
func TestAuditKeepsDecisionsLongest(t *testing.T) {
	s := newStore(t)
	s.BoundAudit(store.AuditBounds{Rows: 10})
	update(t, s, func(tx *store.Tx) error {
		for i := range int64(50) {
			a := store.Audit{At: i, Event: audit.MessageDropped}
			if i%10 == 0 {
				a.Event = audit.ContactBlocked
			}
			if err := tx.AddAudit(a); err != nil {
				return err
			}
		}
		return nil
	})
	update(t, s, func(tx *store.Tx) error {
		rows, err := tx.Audits(store.AuditFilter{})
		want := []int64{0, 10, 20, 30, 40, 45, 46, 47, 48, 49}
		check(t, err, slices.Equal(numbers(rows), want), "kept %v, want %v", numbers(rows), want)
		for i := range int64(20) {
			if err := tx.AddAudit(store.Audit{At: 100 + i, Event: audit.PinAdopted}); err != nil {
				return err
			}
		}
		rows, err = tx.Audits(store.AuditFilter{})
		check(t, err, len(rows) == 10 && rows[0].At == 110, "of decisions alone %v are kept", numbers(rows))
		return nil
	})
}

func TestAuditEndsByAge(t *testing.T) {
	s := newStore(t)
	for _, c := range []struct {
		bounds store.AuditBounds
		want   int
	}{{store.AuditBounds{}, 2}, {store.AuditBounds{Seconds: 60}, 1}} {
		s.BoundAudit(c.bounds)
		update(t, s, func(tx *store.Tx) error {
			now := int64(90 * 86400)
			for _, at := range []int64{0, 1, now - 59} {
				if err := tx.AddAudit(store.Audit{At: at, Event: audit.PinAdopted}); err != nil {
					return err
				}
			}
			if err := tx.PruneAudit(now); err != nil {
				return err
			}
			rows, err := tx.Audits(store.AuditFilter{Limit: c.want + 1})
			check(t, err, len(rows) >= c.want && rows[len(rows)-1].At == now-59, "kept %v", numbers(rows))
			check(t, err, !slices.ContainsFunc(rows, func(a store.Audit) bool { return a.At == 0 || c.want == 1 && a.At == 1 }), "kept %v", numbers(rows))
			return nil
		})
	}
}

// What was noted before schema 7 is an event of today's vocabulary.
func TestSchema3KeepsTheAuditLog(t *testing.T) {
	path := unpackSchema3(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, outcome := range []string{"dropped", "rejected"} {
		if _, err := db.Exec("INSERT INTO audit (at, message_id, peer, outcome, code) VALUES (7, 'm', 'p', ?, 'c')", outcome); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	key, err := suite.SeedFromBytes(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	update(t, open(t, path, key), func(tx *store.Tx) error {
		rows, err := tx.Audits(store.AuditFilter{})
		want := []store.Audit{
			{Seq: 1, At: 7, Event: audit.MessageDropped, Code: "c", Peer: "p", MessageID: "m"},
			{Seq: 2, At: 7, Event: audit.MessageRejected, Code: "c", Peer: "p", MessageID: "m"},
		}
		check(t, err, slices.Equal(rows, want), "rows %+v", rows)
		return nil
	})
}

func TestAttemptsAreBounded(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		for _, id := range []string{"m", "other"} {
			if err := tx.AddOutbox(store.OutboxEntry{MessageID: id, Peer: alice, Content: []byte("{}"), State: store.Delivered, SettledAt: 5}); err != nil {
				return err
			}
			for n := range 40 {
				if err := tx.AddAttempt(store.Attempt{MessageID: id, Number: n + 1, At: int64(n)}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	update(t, s, func(tx *store.Tx) error {
		kept, err := tx.Attempts("m")
		var got []int
		for _, a := range kept {
			got = append(got, a.Number)
		}
		want := []int{1, 2, 3, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40}
		check(t, err, slices.Equal(got, want), "kept %v, want %v", got, want)
		_, err = tx.DeleteSettled(5)
		check(t, err, true, "")
		left, err := tx.Attempts("m")
		check(t, err, len(left) == 0, "%d attempts outlive their message", len(left))
		return nil
	})
}

func TestAttemptComesBackAsItWas(t *testing.T) {
	s := newStore(t)
	a := store.Attempt{
		MessageID: "m", Number: 2, At: 3, Relay: "https://r", Status: 403, Code: "not_permitted", RemoteCode: "not_permitted",
		Prekey: "k", PrekeyIsPeer: true, PermitExpiresAt: 4, NextAttemptAt: 5,
	}
	update(t, s, func(tx *store.Tx) error {
		if err := tx.AddOutbox(store.OutboxEntry{MessageID: "m", Peer: alice, Content: []byte("{}"), State: store.Pending}); err != nil {
			return err
		}
		return tx.AddAttempt(a)
	})
	update(t, s, func(tx *store.Tx) error {
		got, err := tx.Attempts("m")
		check(t, err, len(got) == 1 && got[0] == a, "attempt %+v", got)
		return nil
	})
}

func TestOutboxWithPrefix(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		for i := range 3 {
			id := fmt.Sprintf("0000000%d-a", i)
			if err := tx.AddOutbox(store.OutboxEntry{MessageID: id, Peer: alice, Content: []byte("{}"), State: store.Pending}); err != nil {
				return err
			}
		}
		for prefix, want := range map[string]int{"00000001": 1, "0000000": 2, "00000001-a": 1, "00000003": 0} {
			got, err := tx.OutboxWithPrefix(prefix, 2)
			check(t, err, len(got) == want, "%q finds %d", prefix, len(got))
		}
		return nil
	})
}
