package relaydb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
)

func newStore(t *testing.T) *DB {
	t.Helper()
	d, err := Open(context.Background(), filepath.Join(t.TempDir(), "data", "relay.db"), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// TestGroupFailure puts a decision that fails in the middle of a group: the
// others are durable, what it had written is not, and neither is lost what a
// refused one had settled.
func TestGroupFailure(t *testing.T) {
	d := newStore(t)
	insert := func(id string) func(*tx) error {
		return func(t *tx) error {
			return t.insertIdentity(Registration{ACEID: id, Digest: "m", KELEnd: "e", KEL: []byte("[]"), Network: "n"})
		}
	}
	fails := func(t *tx) error {
		if err := insert("undone")(t); err != nil {
			return err
		}
		_, err := t.exec("INSERT INTO kels (identity, log) VALUES (999, x'00')")
		return err
	}
	refuses := func(t *tx) error {
		if err := insert("settled")(t); err != nil {
			return err
		}
		return Full
	}
	group := []func(*tx) error{insert("a"), refuses, fails, insert("b")}
	want := []error{nil, Full, fault.StorageFailed, nil}

	// The writer is busy while the group gathers.
	started, release := make(chan struct{}), make(chan struct{})
	var tasks sync.WaitGroup
	tasks.Go(func() {
		_ = d.write(context.Background(), func(*tx) error { close(started); <-release; return nil })
	})
	<-started
	got := make([]error, len(group))
	for i, fn := range group {
		tasks.Go(func() { got[i] = d.write(context.Background(), fn) })
	}
	close(release)
	tasks.Wait()
	for i := range group {
		if !errors.Is(got[i], want[i]) {
			t.Errorf("decision %d: got %v, want %v", i, got[i], want[i])
		}
	}
	for id, kept := range map[string]bool{"a": true, "b": true, "settled": true, "undone": false} {
		if _, err := d.Identity(context.Background(), id); (err == nil) != kept {
			t.Errorf("%s: %v, want kept %v", id, err, kept)
		}
	}
}

// TestGroupCommit commits a whole group at once, without the luck of the
// scheduler.
func TestGroupCommit(t *testing.T) {
	jobs := make(chan *job, groupLimit+1)
	for i := range groupLimit + 1 {
		jobs <- &job{done: make(chan error, 1), run: func(t *tx) error {
			return t.insertIdentity(Registration{ACEID: fmt.Sprint(i), KEL: []byte("[]")})
		}}
	}
	group := gather(jobs, <-jobs)
	if len(group) != groupLimit {
		t.Fatalf("%d decisions in a group, want %d", len(group), groupLimit)
	}
	path := filepath.Join(t.TempDir(), "other.db")
	w, err := openWriter(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.commit(group)
	for i, j := range group {
		if err := <-j.done; err != nil {
			t.Fatalf("decision %d: %v", i, err)
		}
	}
	var n int
	if _, err := w.tx.row("SELECT count(*) FROM identities", nil, &n); err != nil || n != groupLimit {
		t.Fatalf("%d rows, error %v", n, err)
	}
}

// TestBrokenDisk checks that nothing is written after a commit failed to reach
// the disk.
func TestBrokenDisk(t *testing.T) {
	w, err := openWriter(context.Background(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	w.broken = fault.New(fault.StorageFailed, "fsync failed")
	for range 2 {
		ran := false
		j := &job{done: make(chan error, 1), run: func(*tx) error { ran = true; return nil }}
		w.commit([]*job{j})
		if err := <-j.done; !errors.Is(err, fault.StorageFailed) || ran {
			t.Fatalf("ran %v, error %v", ran, err)
		}
	}
}

// TestPlans checks that the queries which grow with use walk an index in its
// order: they sort nothing and scan no table.
func TestPlans(t *testing.T) {
	d := newStore(t)
	for name, query := range map[string]string{
		"recipient":     selectRecipient,
		"entries":       selectEntries,
		"directory":     directoryQuery(""),
		"directory tag": directoryQuery("t"),
		"expired":       "SELECT count(*) FROM entries WHERE " + matchExpired,
		"acknowledged":  "DELETE FROM entries WHERE " + matchThrough,
	} {
		rows, err := d.reader.Query("EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
		if err != nil {
			t.Fatal(name, err)
		}
		steps := 0
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			steps++
			scans := strings.HasPrefix(detail, "SCAN") && !strings.Contains(detail, "USING INDEX") && !strings.HasPrefix(detail, "SCAN CONSTANT")
			if scans || strings.Contains(detail, "TEMP B-TREE") {
				t.Errorf("%s: %s", name, detail)
			}
		}
		if err := rows.Close(); err != nil || steps == 0 {
			t.Fatalf("%s: %d steps, %v", name, steps, err)
		}
	}
}

// TestDurability checks what a commit rests on: the log is synced before it is
// answered.
func TestDurability(t *testing.T) {
	w, err := openWriter(context.Background(), filepath.Join(t.TempDir(), "relay.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "foreign_keys": "1", "secure_delete": "1"} {
		var got string
		if _, err := w.tx.row("PRAGMA "+pragma, nil, &got); err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", pragma, got, err, want)
		}
	}
}

// TestUnregisterLeavesNothing looks for what an identity had stored and queued.
func TestUnregisterLeavesNothing(t *testing.T) {
	d, ctx := newStore(t), context.Background()
	i := Identity{Registered: true, Incarnation: 1, Digest: "m", Barrier: -1, KELEnd: "end"}
	p := Packet{To: "alice", From: "bob", Digest: []byte{1}, Raw: []byte("packet"), KELEnd: "end", Expires: 1}
	queued, err := d.Enqueue(ctx, p, Room{Entries: 1, Bytes: 100})
	if queued || !errors.Is(err, Unreachable) {
		t.Fatalf("queued for nobody: %v, %v", queued, err)
	}
	for _, do := range []func() error{
		func() error {
			return d.Register(ctx, Registration{ACEID: "alice", Digest: "m", KELEnd: "end", KEL: []byte("[]")}, nil)
		},
		func() error {
			return d.PublishDescriptor(ctx, Descriptor{ACEID: "alice", KELEnd: "end", Profiles: []string{"p"}, Raw: []byte("{}")})
		},
		func() error {
			return d.PublishCard(ctx, Card{ACEID: "alice", KELEnd: "end", Listed: true, Tags: []string{"t"}, Raw: []byte("{}")}, 0, 0,
				func(Bindings) (bool, error) { return false, nil })
		},
		func() error {
			return d.Block(ctx, Caller{ACEID: "alice", Incarnation: 1, Nonce: "1"}, Block{Peer: "eve", Blocked: true}, 9)
		},
		func() error { _, err := d.Enqueue(ctx, p, Room{Entries: 1, Bytes: 100}); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() (n [7]int) {
		t.Helper()
		if _, err := d.read(ctx, `SELECT (SELECT count(agent) FROM descriptors), (SELECT count(*) FROM descriptor_profiles),
  (SELECT count(bundle) + count(listing) FROM cards), (SELECT count(*) FROM card_tags), (SELECT count(*) FROM blocks),
  (SELECT count(*) FROM entries), (SELECT entries + bytes FROM queues)`, nil,
			&n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6]); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := rows(); got != [7]int{1, 1, 2, 1, 1, 1, 7} {
		t.Fatalf("before: %v", got)
	}
	if err := d.Unregister(ctx, Caller{ACEID: "alice", Incarnation: 1, Nonce: "2"}, i, 1, 1); err != nil {
		t.Fatal(err)
	}
	if got := rows(); got != [7]int{} {
		t.Fatalf("left behind: %v", got)
	}
}
