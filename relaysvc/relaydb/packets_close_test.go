package relaydb_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/internal/faultdisk"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestCloseDuringABackup closes the store while a copy of it is being made: the
// backup fails, or is whole. It is none of a damaged store.
func TestCloseDuringABackup(t *testing.T) {
	d := open(t, filepath.Join(dataDir(t), "relay.db"))
	registered(t, d, "alice")
	for n := range 5 {
		enqueue(t, d, packet("alice", "bob", long(n)))
	}
	away := dataDir(t)
	var first sync.Once
	defer faultdisk.Watch(away, func(faultdisk.Op) int32 {
		first.Do(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return faultdisk.OK
	})()
	b, err := d.Backup(ctx, filepath.Join(away, "copy.db"), now)
	if err == nil && !b.Restorable() {
		t.Fatalf("a backup of a damaged store: %q", b.Problems)
	}
	if left := files(t, away, "*"); err != nil && len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestCloseAndOpenUnderTraffic closes a store many times while it is used, in
// every way that changes the packet log. Who is refused is told that the store
// failed; what was answered is there.
func TestCloseAndOpenUnderTraffic(t *testing.T) {
	rounds := 15
	if testing.Short() {
		rounds = 5
	}
	path := filepath.Join(dataDir(t), "relay.db")
	d := openSegmented(t, path, 8192)
	books := newBooks(t, d, 7)
	must(t, d.Close())
	for range rounds {
		d := openSegmented(t, path, 8192)
		wait := together(d, books)
		var others sync.WaitGroup
		others.Go(func() {
			for d.Sweep(ctx, now) == nil {
			}
		})
		others.Go(func() {
			for {
				if r, err := d.Verify(ctx); err != nil {
					return
				} else if len(r.Problems) > 0 {
					t.Errorf("problems: %q", r.Problems)
				}
			}
		})
		var answered atomic.Int64
		others.Go(func() {
			for d.Check(ctx) == nil {
				answered.Add(1)
			}
		})
		until(t, "nothing is answered", func() bool { return answered.Load() > 20 })
		must(t, d.Close())
		others.Wait()
		for _, err := range wait() {
			wantFailed(t, err)
		}
		d = openSegmented(t, path, 8192)
		for _, b := range books {
			b.compare(t, d, b.outcomes())
		}
		sound(t, d)
		must(t, d.Close())
	}
}

// TestCloseWhileTheEraserWaits closes a store whose eraser waits for a reader.
// Both end when the reader does.
func TestCloseWhileTheEraserWaits(t *testing.T) {
	path := filepath.Join(dataDir(t), "relay.db")
	d := openSegmented(t, path, 4096)
	alice := registered(t, d, "alice")
	for n := range 10 {
		enqueue(t, d, packet("alice", "bob", sized(n, 2000)))
	}
	reading, goOn := make(chan struct{}), make(chan struct{})
	resume := once(t, goOn)
	var begin sync.Once
	read := 0
	var tasks sync.WaitGroup
	tasks.Go(func() {
		_, err := d.Entries(ctx, relaydb.Span{ACEID: "alice", Incarnation: alice.Incarnation, Entries: 100, Bytes: 1 << 20, Now: now}, func(e relaydb.Entry) bool {
			begin.Do(func() { close(reading); <-goOn })
			if string(e.Packet) != sized(read, 2000) {
				t.Errorf("%s is another packet", e.StreamID)
			}
			read++
			return true
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-reading
	turn := d.Turn()
	must(t, d.Ack(ctx, caller("alice", alice), "1-8"))
	until(t, "the eraser does not come", func() bool { return d.Turn() != turn })
	tasks.Go(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	until(t, "the store does not close", func() bool { return fault.CodeOf(d.Check(ctx)) == fault.StorageFailed })
	resume()
	tasks.Wait()
	if read != 10 {
		t.Errorf("%d packets were read", read)
	}
	d = openSegmented(t, path, 4096)
	d.Tidy()
	wantTexts(t, d, sized(8, 2000), sized(9, 2000))
	if inFiles(t, filepath.Dir(path), fmt.Sprint(sized(3, 2000))) {
		t.Error("an acknowledged packet is still in a file")
	}
}
