package relaydb

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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
	l := newLine()
	for i := range groupLimit + 1 {
		l.jobs = append(l.jobs, &job{done: make(chan struct{}, 1), run: func(t *tx) error {
			return t.insertIdentity(Registration{ACEID: fmt.Sprint(i), KEL: []byte("[]")})
		}})
	}
	group := l.gather(nil)
	if len(group) != groupLimit || len(l.jobs) != 1 || len(l.filled) != 1 {
		t.Fatalf("%d decisions in a group, %d left", len(group), len(l.jobs))
	}
	var commits []Commit
	w := newWriter(t, Options{Observe: func(c Commit) { commits = append(commits, c) }})
	w.commit(group)
	for i, j := range group {
		if <-j.done; j.err != nil {
			t.Fatalf("decision %d: %v", i, j.err)
		}
	}
	if len(commits) != 1 || commits[0].Decisions != groupLimit || commits[0].Took <= 0 {
		t.Fatalf("commits: %v", commits)
	}
	var n int
	if _, err := w.tx.row("SELECT count(*) FROM identities", nil, &n); err != nil || n != groupLimit {
		t.Fatalf("%d rows, error %v", n, err)
	}
}

// TestUndoneGroupLeavesNoTotals undoes a group with packets in it and takes each
// decision again.
func TestUndoneGroupLeavesNoTotals(t *testing.T) {
	w := newWriter(t, Options{})
	decision := func(run func(*tx) error) *job { return &job{done: make(chan struct{}, 1), run: run} }
	w.commit([]*job{decision(func(t *tx) error {
		return t.insertIdentity(Registration{ACEID: "alice", KELEnd: "end", KEL: []byte("[]"), Network: "n"})
	})})
	send := func(text string) *job {
		j := decision(nil)
		j.packet = Packet{To: "alice", From: "bob", Digest: []byte(text), Raw: []byte(text), KELEnd: "end", Expires: 9}
		j.room = Room{Entries: 9, Bytes: 99}
		return j
	}
	w.commit([]*job{send("first"), decision(func(t *tx) error {
		_, err := t.exec("INSERT INTO kels (identity, log) VALUES (999, x'00')")
		return err
	}), send("second")})
	// One that fails in a packet itself, in the middle of another.
	if err := w.tx.begin.Run(); err != nil {
		t.Fatal(err)
	}
	if err := send("third").take(w.tx); err != nil {
		t.Fatal(err)
	}
	_ = w.undo(errClosed)
	w.commit([]*job{send("fourth")})
	var entries, bytes, seq, queued, rows int64
	if _, err := w.tx.row("SELECT q.entries, q.bytes, q.last_seq, n.queued, (SELECT count(*) FROM entries) FROM queues q, networks n", nil,
		&entries, &bytes, &seq, &queued, &rows); err != nil {
		t.Fatal(err)
	}
	if entries != 3 || seq != 3 || rows != 3 || bytes != queued || w.tx.counted.entries.Load() != 3 || w.tx.counted.bytes.Load() != bytes {
		t.Fatalf("%d entries of %d, %d bytes, %d queued, last %d; in memory %d", entries, rows, bytes, queued, seq, w.tx.counted.entries.Load())
	}
}

func newWriter(t *testing.T, o Options) *writer {
	t.Helper()
	path := filepath.Join(t.TempDir(), "relay.db")
	w, err := openWriter(path, o)
	if err != nil {
		t.Fatal(err)
	}
	w.keeper = &keeper{due: make(chan struct{}, 1)}
	w.eraser = &eraser{due: make(chan struct{}, 1)}
	w.syncer = newSyncer(w.tx.log, w.state, w.observe, 0)
	w.syncer.keeper = w.keeper
	ended := make(chan struct{})
	go func() { w.syncer.loop(); close(ended) }()
	t.Cleanup(func() { close(w.syncer.groups); <-ended; w.close() })
	return w
}

// TestBrokenDisk checks that nothing is written after a commit failed to reach
// the disk.
func TestBrokenDisk(t *testing.T) {
	w := newWriter(t, Options{})
	w.state.set(fault.New(fault.StorageFailed, "fsync failed"))
	for range 2 {
		ran := false
		j := &job{done: make(chan struct{}, 1), run: func(*tx) error { ran = true; return nil }}
		w.commit([]*job{j})
		if <-j.done; !errors.Is(j.err, fault.StorageFailed) || ran {
			t.Fatalf("ran %v, error %v", ran, j.err)
		}
	}
}

// TestPlans checks that the queries which grow with use walk an index in its
// order: they sort nothing and scan no table.
func TestPlans(t *testing.T) {
	d := newStore(t)
	for name, query := range map[string]string{
		"recipient":        selectRecipient,
		"queue":            selectQueue,
		"block":            selectBlock,
		"duplicate":        selectDuplicate,
		"share":            selectShare,
		"strangers":        selectStrangers,
		"entries":          selectEntries,
		"expired":          selectExpired,
		"expired in queue": removeQuery("identity = ? AND " + expiredFirst),
		"oldest":           selectOldest,
		"acknowledged":     removeQuery(matchThrough),
		"used":             selectUsed,
		"movable":          selectMovable,
		"newest":           selectNewest,
		"beyond":           removeQuery("place >= ?"),
		"nonces":           deleteNonces,
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
	w := newWriter(t, Options{})
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "foreign_keys": "1", "secure_delete": "1"} {
		var got string
		if _, err := w.tx.row("PRAGMA "+pragma, nil, &got); err != nil || got != want {
			t.Errorf("%s is %s (%v), want %s", pragma, got, err, want)
		}
	}
}

// TestCommitOfPacketsAlone does not wait for the disk, and any other does again.
func TestCommitOfPacketsAlone(t *testing.T) {
	w := newWriter(t, Options{})
	decision := &job{done: make(chan struct{}, 1), run: func(t *tx) error {
		return t.insertIdentity(Registration{ACEID: fmt.Sprint(time.Now()), KELEnd: "end", KEL: []byte("[]"), Network: "n"})
	}}
	send := &job{done: make(chan struct{}, 1), packet: Packet{To: "nobody"}}
	for _, c := range []struct {
		group []*job
		want  string
	}{{[]*job{send}, "1"}, {[]*job{send, decision}, "2"}, {[]*job{send}, "1"}, {[]*job{decision}, "2"}, {[]*job{decision}, "2"}} {
		w.commit(c.group)
		for _, j := range c.group {
			<-j.done
		}
		var got string
		if _, err := w.tx.row("PRAGMA synchronous", nil, &got); err != nil || got != c.want {
			t.Fatalf("synchronous is %s (%v), want %s", got, err, c.want)
		}
	}
}

// TestCommitBesideAFailure has the keeper fail at the disk while a decision is
// being committed: what the files hold is in doubt, and nobody is told that it
// is durable.
func TestCommitBesideAFailure(t *testing.T) {
	var d *DB
	failure := fault.New(fault.StorageFailed, "the disk is gone")
	fails := false
	d, err := OpenWith(t.Context(), filepath.Join(t.TempDir(), "data", "relay.db"), 0, Options{Observe: func(Commit) {
		if fails {
			d.state.set(failure)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	fails = true
	if err := d.Check(t.Context()); !errors.Is(err, failure) {
		t.Fatalf("got %v", err)
	}
}

// TestEndedContext decides nothing for who is gone already.
func TestEndedContext(t *testing.T) {
	d := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := d.write(ctx, func(*tx) error {
		t.Error("a decision was taken")
		return nil
	})
	if fault.CodeOf(err) != fault.LockBusy {
		t.Fatalf("got %v", err)
	}
}

// TestGroupIsBounded gathers more than one commit may have, in packets and in
// bytes.
func TestGroupIsBounded(t *testing.T) {
	for _, c := range []struct{ jobs, bytes, want int }{
		{3, 10, 3}, {groupLimit + 1, 10, groupLimit}, {4, groupBytes - 1, 2}, {4, groupBytes, 1}, {2, 2 * groupBytes, 1},
	} {
		l, raw := newLine(), make([]byte, c.bytes)
		for range c.jobs {
			l.jobs = append(l.jobs, &job{packet: Packet{Raw: raw}})
		}
		if got := len(l.gather(nil)); got != c.want || len(l.jobs) != c.jobs-c.want {
			t.Errorf("of %d packets of %d bytes %d are gathered, want %d", c.jobs, c.bytes, got, c.want)
		}
	}
}
