package store_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// written are three rows of each table that holds what people wrote: two of one
// peer and one of another.
func written(t *testing.T) (s *store.Store, path string, key *suite.Seed) {
	t.Helper()
	path, key = filepath.Join(t.TempDir(), "ace", "store.db"), suite.NewSeed()
	s = open(t, path, key)
	update(t, s, func(tx *store.Tx) error {
		var errs []error
		for i, peer := range []string{alice, alice, bob} {
			id, body := fmt.Sprintf("0000000%d-", i), fmt.Appendf(nil, `{"what was written":%d}`, i)
			errs = append(errs,
				tx.AddMessage(store.Message{MessageID: id, Peer: peer, Type: "t", Body: body, ReceivedAt: int64(i)}),
				tx.AddOutbox(store.OutboxEntry{MessageID: id, Peer: peer, Content: body, Type: "t", RequestID: id, State: store.Pending}),
				tx.AddRequest(store.Request{Peer: fmt.Sprint(peer, i), Body: body, ReceivedAt: int64(i + 1)}))
		}
		return errors.Join(errs...)
	})
	return s, path, key
}

// row is what a list says of one row.
type row struct {
	name    string
	body    []byte
	damaged error
}

// listed reads the three tables, each by its list and then row by row.
func listed(t *testing.T, s *store.Store) map[string][]row {
	t.Helper()
	all := map[string][]row{}
	add := func(table, name string, body []byte, damaged error) {
		all[table] = append(all[table], row{name, body, damaged})
	}
	err := s.View(t.Context(), func(tx *store.Tx) error {
		messages, err := tx.Messages(store.MessageFilter{})
		check(t, err, len(messages) == 3, "%d messages", len(messages))
		for _, m := range messages {
			add("message", m.MessageID, m.Body, m.Damaged)
			one, err := tx.MessagesWithPrefix(m.MessageID, m.Peer, 2)
			check(t, err, len(one) == 1 && bytes.Equal(one[0].Body, m.Body) && (one[0].Damaged == nil) == (m.Damaged == nil), "one by one: %v", one)
		}
		entries, err := tx.OutboxEntries()
		check(t, err, len(entries) == 3, "%d entries", len(entries))
		for _, e := range entries {
			add("outbox", e.MessageID, e.Content, e.Damaged)
			one, ok, err := tx.Outbox(e.MessageID)
			check(t, err, ok && bytes.Equal(one.Content, e.Content) && (one.Damaged == nil) == (e.Damaged == nil), "one by one: %v", one)
			one, ok, err = tx.OutboxByRequest(e.Peer, e.RequestID)
			check(t, err, ok && bytes.Equal(one.Content, e.Content) && (one.Damaged == nil) == (e.Damaged == nil), "by request: %v", one)
		}
		pending, err := tx.OutboxPending(1)
		check(t, err, len(pending) == 3, "%d pending", len(pending))
		requests, err := tx.Requests(0)
		check(t, err, len(requests) == 3, "%d requests", len(requests))
		for _, q := range requests {
			add("request", q.Peer, q.Body, q.Damaged)
			one, ok, err := tx.Request(q.Peer, 0)
			check(t, err, ok && bytes.Equal(one.Body, q.Body) && (one.Damaged == nil) == (q.Damaged == nil), "one by one: %v", one)
		}
		heads, err := tx.RequestHeads(0)
		check(t, err, len(heads) == 3 && heads[2].Peer == requests[2].Peer && heads[2].ReceivedAt == 3 && heads[2].Body == nil, "heads %v", heads)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	result, err := db.Exec(statement)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		t.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}

// A body opens in its own row alone, and one that does not takes no other with it
// (agentlink-messages, At rest on your node: "with the message's record ID as associated
// data").
func TestBodiesAreBoundToTheirRows(t *testing.T) {
	const swap = "UPDATE %[1]s SET sealed = o.sealed FROM (SELECT seq, sealed FROM %[1]s) AS o WHERE o.seq = 3 - %[1]s.seq AND %[1]s.seq <= 2"
	for name, c := range map[string]struct {
		statement, table string
		damaged          []int // rows
	}{
		"two messages swapped":            {fmt.Sprintf(swap, "message"), "message", []int{0, 1}},
		"two contents swapped":            {fmt.Sprintf(swap, "outbox"), "outbox", []int{0, 1}},
		"two requests swapped":            {fmt.Sprintf(swap, "request"), "request", []int{0, 1}},
		"a message given another sender":  {"UPDATE message SET peer = 'ace:sha256:cccc' WHERE seq = 1", "message", []int{0}},
		"a message given another ID":      {"UPDATE message SET message_id = '00000009-' WHERE seq = 1", "message", []int{0}},
		"a content sent to somebody else": {"UPDATE outbox SET peer = 'ace:sha256:cccc' WHERE seq = 2", "outbox", []int{1}},
		"a request of somebody else":      {"UPDATE request SET peer = 'ace:sha256:cccc' WHERE seq = 3", "request", []int{2}},
		"a message for a content":         {"UPDATE outbox SET sealed = (SELECT m.sealed FROM message AS m WHERE m.seq = outbox.seq)", "outbox", []int{0, 1, 2}},
		"one bit changed":                 {"UPDATE message SET sealed = CAST(substr(sealed, 1, length(sealed) - 1) || x'00' AS BLOB) WHERE seq = 3", "message", []int{2}},
		"emptied":                         {"UPDATE request SET sealed = x'' WHERE seq = 2", "request", []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			s, path, _ := written(t)
			execute(t, path, c.statement)
			for table, list := range listed(t, s) {
				for i, r := range list {
					bad := table == c.table && slices.Contains(c.damaged, i)
					switch want := fmt.Sprintf(`{"what was written":%d}`, i); {
					case !bad && (r.damaged != nil || string(r.body) != want):
						t.Errorf("%s %d: %s, %v", table, i, r.body, r.damaged)
					case bad && (!errors.Is(r.damaged, fault.StorageFailed) || !errors.Is(r.damaged, store.ErrDamaged) || r.body != nil):
						t.Errorf("%s %d opened: %s, %v", table, i, r.body, r.damaged)
					case bad && !strings.Contains(r.damaged.Error(), r.name):
						t.Errorf("%s %d: the error does not name %s: %v", table, i, r.name, r.damaged)
					}
				}
			}
		})
	}
}

// Under another vault key nothing opens, and all is listed; under its own all
// does.
func TestBodiesNeedTheirVaultKey(t *testing.T) {
	_, path, key := written(t)
	for _, list := range listed(t, open(t, path, suite.NewSeed())) {
		for _, r := range list {
			if !errors.Is(r.damaged, store.ErrDamaged) {
				t.Errorf("%s opened under another key: %s", r.name, r.body)
			}
		}
	}
	for table, list := range listed(t, open(t, path, key)) {
		for _, r := range list {
			if r.damaged != nil {
				t.Errorf("%s %s: %v", table, r.name, r.damaged)
			}
		}
	}
}

// What was written is in no file of an open or a closed store, and not in a
// backup's copy of it.
func TestBodiesAreNotInTheFiles(t *testing.T) {
	s, path, _ := written(t)
	dir := filepath.Dir(path)
	if err := s.Snapshot(t.Context(), filepath.Join(dir, "copy.db"), 9); err != nil {
		t.Fatal(err)
	}
	if holds(t, dir, "what was written") {
		t.Error("a body is in a file")
	}
	if !holds(t, dir, alice) { // who and when stay readable
		t.Error("no peer is in a file: the test does not look")
	}
}
