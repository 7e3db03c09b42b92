package relaydb

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fill writes a text into the database.
func fill(t *testing.T, d *DB, id int, text string) {
	t.Helper()
	if err := d.write(context.Background(), func(t *tx) error {
		_, err := t.exec("INSERT INTO bodies (id, packet) VALUES (?, ?)", id, []byte(text))
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestLogStaysShort writes many times the length that the write-ahead log may
// have, without a pause, and reads meanwhile.
func TestLogStaysShort(t *testing.T) {
	ctx := context.Background()
	d := newStore(t)
	d.keeper.limit = 256 // before it has anything to do
	if err := d.Register(ctx, Registration{ACEID: "alice", KELEnd: "end", KEL: []byte("[]"), Network: "n"}, nil); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 100_000)
	var longest atomic.Int64
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			for k := range 200 {
				fill(t, d, 1+k+1000*n, text)
				_, _ = d.Entries(ctx, Span{ACEID: "alice", Incarnation: 1, Entries: 1, Bytes: 1}, func(Entry) bool { return true })
				longest.Store(max(longest.Load(), sizeOf(d.path+"-wal")))
			}
		})
	}
	group.Wait()
	// 80 MB were written. Readers may have been in the way a few times.
	if n := longest.Load(); n > 32<<20 {
		t.Fatalf("the log has %d bytes", n)
	}
	if longest.Load() == 0 {
		t.Fatal("there is no log: the test shows nothing")
	}
}

// TestReadersTakeTurns writes while there is never a moment without a reader:
// each begins before the one before it ends. The log begins anew all the same,
// again and again.
func TestReadersTakeTurns(t *testing.T) {
	ctx := context.Background()
	d := newStore(t)
	d.keeper.limit = 64
	if err := d.Register(ctx, Registration{ACEID: "alice", KELEnd: "end", KEL: []byte("[]"), Network: "n"}, nil); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() { stopped <- d.takeTurns(ctx, stop) }()
	text := strings.Repeat("x", 30_000)
	deadline := time.Now().Add(5 * time.Second)
	for n, begun := 0, 0; begun < 3; n++ {
		if time.Now().After(deadline) {
			t.Errorf("the log began anew %d times and has %d bytes", begun, sizeOf(d.path+"-wal"))
			break
		}
		pages := d.keeper.pages.Load()
		fill(t, d, 1+n, text)
		if d.keeper.pages.Load() < pages {
			begun++
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
}

// takeTurns has one reader after the other until stop is closed, of which each
// begins before the one before it ends.
func (d *DB) takeTurns(ctx context.Context, stop <-chan struct{}) error {
	var before *conn
	defer func() { d.readers.give(before) }()
	for {
		c, err := d.readers.take(ctx)
		if err != nil {
			return err
		}
		for _, text := range []string{"BEGIN", "SELECT count(*) FROM relay"} {
			if err := c.Command(text); err != nil {
				return err
			}
		}
		if before != nil {
			if err := before.Command("ROLLBACK"); err != nil {
				return err
			}
			d.readers.give(before)
		}
		before = c
		select {
		case <-stop:
			return c.Command("ROLLBACK")
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// TestReaderInTheWay holds a read transaction open, as a backup does: decisions
// and sweeps go on, and the log is emptied once it is over.
func TestReaderInTheWay(t *testing.T) {
	ctx := context.Background()
	d := newStore(t)
	d.keeper.limit = 16
	if err := d.Register(ctx, Registration{ACEID: "alice", KELEnd: "end", KEL: []byte("[]"), Network: "n"}, nil); err != nil {
		t.Fatal(err)
	}
	c, err := d.readers.take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"BEGIN", "SELECT count(*) FROM identities"} {
		if err := c.Command(text); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Repeat("find me ", 3000)
	for n := range 50 {
		fill(t, d, 1+n, text)
	}
	if err := d.write(ctx, func(t *tx) error { _, err := t.exec("DELETE FROM bodies"); return err }); err != nil {
		t.Fatal(err)
	}
	swept := make(chan error, 1)
	go func() { swept <- d.Sweep(ctx, 2) }()
	for d.keeper.since.Load() == 0 || len(d.keeper.erasing) > 0 {
		time.Sleep(time.Millisecond)
	}
	if err := c.Command("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	d.readers.give(c)
	if err := <-swept; err != nil {
		t.Fatal(err)
	}
	if d.keeper.since.Load() != 0 {
		t.Error("the keeper goes on emptying the log")
	}
	for _, suffix := range []string{"", "-wal"} {
		if data, err := os.ReadFile(d.path + suffix); err != nil || strings.Contains(string(data), "find me find me") {
			t.Errorf("%q: expired bytes are still there (%v)", suffix, err)
		}
	}
}

// TestEraseEndsWithTheStore waits for a log to be emptied that a reader holds,
// and the store closes.
func TestEraseEndsWithTheStore(t *testing.T) {
	ctx := context.Background()
	d := newStore(t)
	c, err := d.readers.take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"BEGIN", "SELECT count(*) FROM identities"} {
		if err := c.Command(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Register(ctx, Registration{ACEID: "alice", KELEnd: "end", KEL: []byte("[]"), Network: "n"}, nil); err != nil {
		t.Fatal(err)
	}
	erased := make(chan error)
	go func() { erased <- d.keeper.erase(ctx) }()
	for d.keeper.since.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // the keeper has taken it on
	closed := make(chan error)
	go func() { closed <- d.Close() }()
	if err := <-erased; !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
	if err := c.Command("ROLLBACK"); err != nil {
		t.Error(err)
	}
	d.readers.give(c)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestLogIsMovedInSteps writes less than the log may have: pages are moved into
// the file all the same, so that beginning the log anew is little work.
func TestLogIsMovedInSteps(t *testing.T) {
	ctx := context.Background()
	d := newStore(t)
	d.keeper.step = 64
	if err := d.Register(ctx, Registration{ACEID: "alice", KELEnd: "end", KEL: []byte("[]"), Network: "n"}, nil); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("find me ", 10_000)
	for n := 0; sizeOf(d.path) < 1<<20; n++ {
		if n == 1000 {
			t.Fatal("nothing is moved")
		}
		fill(t, d, 1+n, text)
	}
	if n := d.keeper.pages.Load(); n == 0 || n >= d.keeper.limit {
		t.Fatalf("the log has %d pages: it began anew", n)
	}
}
