package relaydb_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestSparseSegmentsGo acknowledges most of many packets: what is left moves, in
// order, and the files are not much longer than it is.
func TestSparseSegmentsGo(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	const segment, size, rounds = 16 << 10, 3000, 40
	d := openSegmented(t, path, segment)
	alice, carol := registered(t, d, "alice"), registered(t, d, "carol")
	var want []string
	for n := range rounds {
		enqueue(t, d, packet("carol", "bob", sized(1000+n, size)))
		enqueue(t, d, packet("carol", "eve", sized(2000+n, size)))
		if n%4 == 0 {
			want = append(want, sized(n, size))
			enqueue(t, d, packet("alice", "bob", want[len(want)-1]))
		}
	}
	segments := len(d.LogFiles())
	must(t, d.Ack(ctx, caller("carol", carol), fmt.Sprint("1-", 2*rounds-1)))
	d.Tidy()
	for range 2 {
		wantTexts(t, d, want...)
		if got := queue(t, d, "carol"); len(got) != 1 || string(got[0].Packet) != sized(2000+rounds-1, size) {
			t.Fatalf("carol has %d packets", len(got))
		}
		r := sound(t, d)
		if n := len(d.LogFiles()); n >= segments/3 {
			t.Errorf("%d segments of %d are left", n, segments)
		}
		if n := total(t, files(t, dir, "packets-*.log")); n > 2*r.Bytes+2*segment {
			t.Errorf("the log has %d bytes, %d are queued", n, r.Bytes)
		}
		must(t, d.Close())
		d = openSegmented(t, path, segment)
	}
	// Those that moved are acknowledged like any.
	must(t, d.Ack(ctx, caller("alice", alice), "1-4"))
	wantTexts(t, d, want[4:]...)
	must(t, d.Sweep(ctx, now))
	if inFiles(t, dir, want[1]) {
		t.Error("a packet that had moved is still in a file")
	}
	enqueue(t, d, packet("alice", "bob", "later"))
	wantTexts(t, d, append(want[4:], "later")...)
	sound(t, d)
}

// TestLogStaysBounded queues and acknowledges much more than is ever queued at a
// time.
func TestLogStaysBounded(t *testing.T) {
	dir := dataDir(t)
	const segment, size, queued = 16 << 10, 2000, 10
	d := openSegmented(t, filepath.Join(dir, "relay.db"), segment)
	alice := registered(t, d, "alice")
	var want []string
	for n := range 200 {
		want = append(want, sized(n, size))
		enqueue(t, d, packet("alice", "bob", want[n]))
		if n >= queued {
			must(t, d.Ack(ctx, caller("alice", alice), fmt.Sprint("1-", n-queued+1)))
		}
	}
	d.Tidy()
	wantTexts(t, d, want[len(want)-queued:]...)
	if n := total(t, files(t, dir, "packets-*.log")); n > 2*queued*size+2*segment {
		t.Errorf("the log has %d bytes, %d are queued", n, queued*size)
	}
	sound(t, d)
}

// TestReadingKeepsItsSnapshot acknowledges, erases, moves and removes under a
// reader: it gets what was there when it began, undamaged.
func TestReadingKeepsItsSnapshot(t *testing.T) {
	const segment, size, packets = 4096, 2000, 12
	path := filepath.Join(dataDir(t), "relay.db")
	damage := 0
	d, err := relaydb.OpenWith(ctx, path, now, relaydb.Options{Damaged: func(string) { damage++ }}.WithSegments(segment))
	must(t, err)
	t.Cleanup(func() { d.Close() })
	alice := registered(t, d, "alice")
	carol := registered(t, d, "carol")
	for n := range packets {
		enqueue(t, d, packet("alice", "bob", sized(n, size)))
		enqueue(t, d, packet("carol", "bob", sized(100+n, size)))
	}
	reading, goOn := make(chan struct{}), make(chan struct{})
	resume := once(t, goOn)
	var begin sync.Once
	var got []string
	var tasks sync.WaitGroup
	tasks.Go(func() {
		_, err := d.Entries(ctx, relaydb.Span{ACEID: "alice", Incarnation: alice.Incarnation, Entries: 100, Bytes: 1 << 20, Now: now}, func(e relaydb.Entry) bool {
			begin.Do(func() { close(reading); <-goOn })
			got = append(got, string(e.Packet))
			return true
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-reading
	turn := d.Turn()
	must(t, d.Ack(ctx, caller("carol", carol), "1-11"))
	must(t, d.Ack(ctx, caller("alice", alice), "1-6"))
	until(t, "the eraser does not come", func() bool { return d.Turn() != turn })
	// It waits for the reader. What waits for it has what was deleted left alone.
	if n := len(d.LogFiles()); n != packets {
		t.Errorf("%d segments are left of %d", n, packets)
	}
	resume()
	tasks.Wait()
	if len(got) != packets {
		t.Fatalf("%d packets were read, want %d", len(got), packets)
	}
	for n, text := range got {
		if text != sized(n, size) {
			t.Fatalf("packet %d is another", n)
		}
	}
	d.Tidy()
	if n := len(d.LogFiles()); n >= packets {
		t.Errorf("%d segments are left", n)
	}
	var want []string
	for n := 6; n < packets; n++ {
		want = append(want, sized(n, size))
	}
	wantTexts(t, d, want...)
	if damage != 0 {
		t.Errorf("%d packets were taken for damaged", damage)
	}
	sound(t, d)
}

// TestReadersBesideTheEraser reads all the time while packets come, go, and are
// moved: what is read is whole, in order and without a gap.
func TestReadersBesideTheEraser(t *testing.T) {
	packets := 300
	if testing.Short() {
		packets = 100
	}
	var damage sync.Map
	d, err := relaydb.OpenWith(ctx, filepath.Join(dataDir(t), "relay.db"), now,
		relaydb.Options{Damaged: func(reason string) { damage.Store(reason, true) }}.WithSegments(8<<10))
	must(t, err)
	t.Cleanup(func() { d.Close() })
	alice := registered(t, d, "alice")
	done := make(chan struct{})
	end := once(t, done)
	var tasks sync.WaitGroup
	for range 2 {
		tasks.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				last := 0
				_, err := d.Entries(ctx, relaydb.Span{ACEID: "alice", Incarnation: alice.Incarnation, Entries: 100, Bytes: 1 << 20, Now: now}, func(e relaydb.Entry) bool {
					var n int
					fmt.Sscanf(string(e.Packet), "<%d>", &n)
					if e.StreamID != fmt.Sprint("1-", n+1) || last != 0 && n != last+1 {
						t.Errorf("%s is packet %d, after %d", e.StreamID, n, last)
					}
					last = n
					return true
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	tasks.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				d.Tidy()
			}
		}
	})
	for n := range packets {
		enqueue(t, d, packet("alice", "bob", sized(n, 1000)))
		if n > 20 {
			must(t, d.Ack(ctx, caller("alice", alice), fmt.Sprint("1-", n-20)))
			if n%20 == 0 {
				must(t, d.Sweep(ctx, now))
			}
		}
	}
	end()
	tasks.Wait()
	damage.Range(func(reason, _ any) bool { t.Errorf("damaged: %v", reason); return true })
	sound(t, d)
}

// TestLastSegmentIsEmptied acknowledges all there is: the log keeps no bytes of
// it, and what comes later is served, also after another start.
func TestLastSegmentIsEmptied(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	const size, header = 5000, 32
	d := openSegmented(t, path, 1<<20)
	alice := registered(t, d, "alice")
	for round := range 3 {
		for n := range 10 {
			enqueue(t, d, packet("alice", "bob", sized(n, size)))
		}
		must(t, d.Ack(ctx, caller("alice", alice), fmt.Sprint("1-", 11*round+10)))
		d.Tidy()
		if n := total(t, files(t, dir, "packets-*.log")); n != header {
			t.Errorf("round %d: the log has %d bytes", round, n)
		}
		sound(t, d)
		must(t, d.Close())
		d = openSegmented(t, path, 1<<20)
		enqueue(t, d, packet("alice", "bob", "later"))
		wantTexts(t, d, "later")
		must(t, d.Ack(ctx, caller("alice", alice), fmt.Sprint("1-", 11*round+11)))
	}
}

// TestLastSegmentInUse has a packet come while the eraser waits to empty the
// last segment: it stays, and what was deleted is erased.
func TestLastSegmentInUse(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := openSegmented(t, path, 1<<20)
	alice, carol := registered(t, d, "alice"), registered(t, d, "carol")
	for n := range 10 {
		enqueue(t, d, packet("carol", "bob", sized(n, 5000)))
	}
	goOn := make(chan struct{})
	resume, ended := once(t, goOn), make(chan error, 1)
	reading := make(chan struct{})
	go func() {
		var begin sync.Once
		_, err := d.Entries(ctx, relaydb.Span{ACEID: "carol", Incarnation: carol.Incarnation, Entries: 100, Bytes: 1 << 20, Now: now}, func(relaydb.Entry) bool {
			begin.Do(func() { close(reading); <-goOn })
			return true
		})
		ended <- err
	}()
	<-reading
	turn := d.Turn()
	must(t, d.Ack(ctx, caller("carol", carol), "1-10"))
	until(t, "the eraser does not come", func() bool { return d.Turn() != turn })
	enqueue(t, d, packet("alice", "bob", "meanwhile"))
	resume()
	must(t, <-ended)
	d.Tidy()
	wantTexts(t, d, "meanwhile")
	for n := range 10 {
		if inFiles(t, dir, sized(n, 40)) {
			t.Errorf("packet %d is in a file", n)
		}
	}
	if n := total(t, files(t, dir, "packets-*.log")); n < 50000 {
		t.Errorf("the log has %d bytes: the packet was not in the way", n)
	}
	must(t, d.Ack(ctx, caller("alice", alice), "1-1"))
	d.Tidy()
	if n := total(t, files(t, dir, "packets-*.log")); n != 32 {
		t.Errorf("the log has %d bytes in the end", n)
	}
	sound(t, d)
}
