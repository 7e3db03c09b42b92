package packetlog_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

func TestReadByPlace(t *testing.T) {
	dir := t.TempDir()
	l := begin(t, dir, 0, small())
	packets := fill(t, l, "p", 12)
	readable(t, l, packets)
	segments := l.Segments()
	if len(segments) < 3 {
		t.Fatalf("%d segments, want some", len(segments))
	}
	size := int64(0)
	for i, s := range segments {
		if i > 0 && s.Start != segments[i-1].End {
			t.Errorf("segment %d begins at %d, the one before ends at %d", i, s.Start, segments[i-1].End)
		}
		if last := i == len(segments)-1; s.Last != last {
			t.Errorf("segment %d: last %v", i, s.Last)
		} else if !last && (s.End-s.Start < smallSegment || s.End-s.Start > 2*smallSegment) {
			t.Errorf("segment %d has %d bytes", i, s.End-s.Start)
		}
		info, err := os.Stat(segmentPath(dir, storeID, s.Start))
		must(t, err)
		if info.Size() != s.End-s.Start || info.Mode() != 0o600 {
			t.Errorf("segment %d: the file has %d bytes, mode %v; want %d", i, info.Size(), info.Mode(), s.End-s.Start)
		}
		size += info.Size()
	}
	if l.Size() != size {
		t.Errorf("size %d, the files have %d", l.Size(), size)
	}
	must(t, l.Sync(l.End()))
	if l.Synced() != l.End() {
		t.Errorf("synced %d, want %d", l.Synced(), l.End())
	}
	for _, p := range packets {
		s, ok := l.SegmentOf(p.place)
		if i := slices.IndexFunc(segments, func(s packetlog.Segment) bool { return p.place < s.End }); !ok || s != segments[i].Start {
			t.Errorf("place %d is in %d (%v), want %d", p.place, s, ok, segments[i].Start)
		}
	}
	must(t, l.Close())
	readable(t, open(t, dir, small()), packets)
	got, dropped := recovered(t, dir, 0)
	same(t, "recovered", got, packets)
	if dropped != 0 {
		t.Errorf("%d bytes cut off a log that is whole", dropped)
	}
}

// TestBatch compares what a group says of itself with the file.
func TestBatch(t *testing.T) {
	l := begin(t, t.TempDir(), 0, small())
	var b packetlog.Batch
	for i := range 9 {
		first := body("first", 90+i)
		l.Begin(&b)
		if b.Len() != 0 {
			t.Fatalf("an empty group has %d bodies", b.Len())
		}
		head := b.Next() - groupHeader
		next := b.Next()
		if place := b.Add([]byte("said"), []byte(first)); place != next {
			t.Fatalf("place %d, announced was %d", place, next)
		}
		if b.Next() != next+int64(len(first)+len("said")) || b.Len() != 1 {
			t.Fatalf("after one body: next %d, %d bodies", b.Next(), b.Len())
		}
		second := b.Add(nil, []byte("second"))
		end := b.End()
		if want := second + 6 + 2*frame; end != want {
			t.Fatalf("the group ends at %d, want %d", end, want)
		}
		before := l.End()
		must(t, l.Write(&b))
		if l.End() != before {
			t.Fatal("a group that was not accepted moves the end")
		}
		l.Accept(&b)
		start, _ := l.SegmentOf(head)
		content := readFile(t, lastPath(t, l))
		if l.End() != end || int64(len(content)) != end-start {
			t.Errorf("end %d, the file ends at %d, announced was %d", l.End(), start+int64(len(content)), end)
		}
		if got := string(content[head-start : head-start+4]); got != "\xffgrp" {
			t.Errorf("the group begins with %q", got)
		}
		if got := string(content[next-start : second-start+6]); got != first+"saidsecond" {
			t.Errorf("bodies and what was said are %q", got)
		}
	}
}

func TestReadWhatIsMissing(t *testing.T) {
	l := begin(t, t.TempDir(), 0, small())
	missing := func(place, size int64) {
		t.Helper()
		if err := l.ReadAt(make([]byte, size), place); !errors.Is(err, packetlog.ErrMissing) {
			t.Errorf("%d bytes at %d: %v", size, place, err)
		}
		if _, ok := l.SegmentOf(place + size - 1); ok {
			t.Errorf("a segment has place %d", place+size-1)
		}
	}
	missing(0, 1)
	fill(t, l, "p", 9)
	missing(-1, 1)
	missing(l.End(), 1)
	missing(l.End()-3, 4)
	missing(1<<62, 1)

	// Nor is it read what a longer group has left that was written over.
	var b packetlog.Batch
	write(t, l, &b, body("long", 300))
	write(t, l, &b, "short")
	l.Accept(&b)
	missing(l.End(), 1)
	missing(l.End()-3, 4)
}

// TestPlaceIsGivenOnce takes places through all that could give one again.
func TestPlaceIsGivenOnce(t *testing.T) {
	dir := t.TempDir()
	l := begin(t, dir, 0, small())
	end := int64(0)
	next := func(what string) {
		t.Helper()
		packets := fill(t, l, what, 4)
		if packets[0].place < end+groupHeader {
			t.Errorf("after %s: place %d, given were all before %d", what, packets[0].place, end)
		}
		end = l.End()
		must(t, l.Sync(end))
	}
	next("making the log")
	var b packetlog.Batch
	write(t, l, &b, body("withdrawn", 90))
	must(t, l.Withdraw(&b))
	next("withdrawing a group")
	for _, s := range l.Segments() {
		if !s.Last {
			must(t, l.Remove(s.Start))
		}
	}
	next("removing segments")
	must(t, l.Close())
	l = begin(t, dir, end, small())
	next("opening it again")
	must(t, l.Close())
	for _, path := range l.Paths() {
		must(t, os.Remove(path))
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		must(t, os.Remove(filepath.Join(dir, e.Name())))
	}
	l = begin(t, dir, end, small())
	next("losing all files")
}

// TestSync counts what is synced, and when.
func TestSync(t *testing.T) {
	synced := map[string]int{}
	o := small()
	o.Before = func(c packetlog.Change) error {
		if c.Kind == packetlog.Sync {
			synced[c.Path]++
		}
		return nil
	}
	l := begin(t, t.TempDir(), 0, o)
	fill(t, l, "p", 1)
	must(t, l.Sync(l.End()))
	fillSegments(t, l, 3)
	clear(synced)
	must(t, l.Sync(l.End()))
	for _, path := range l.Paths() {
		if synced[path] != 1 {
			t.Errorf("%s: synced %d times, want once", filepath.Base(path), synced[path])
		}
	}
	clear(synced)
	must(t, l.Sync(l.End()))
	if len(synced) != 0 {
		t.Errorf("nothing was appended, but this is synced: %v", synced)
	}
	fill(t, l, "p", 1)
	must(t, l.Sync(l.End()))
	if len(synced) != 1 || synced[lastPath(t, l)] != 1 {
		t.Errorf("only the last segment has changed, but this is synced: %v", synced)
	}
}

// TestSyncDuringWrite syncs the groups before while another is being written:
// that is not on the disk afterwards, and the next sync has to put it there.
func TestSyncDuringWrite(t *testing.T) {
	var l *packetlog.Log
	var syncs int
	during := false
	o := small()
	o.Before = func(c packetlog.Change) error {
		if c.Kind == packetlog.Sync {
			syncs++
		}
		if c.Kind == packetlog.Write && during {
			during = false
			must(t, l.Sync(l.End()))
		}
		return nil
	}
	l = begin(t, t.TempDir(), 0, o)
	add(t, l, "first")
	during = true
	add(t, l, "second")
	syncs = 0
	must(t, l.Sync(l.End()))
	if syncs != 1 {
		t.Errorf("%d syncs of the group that was being written during the one before, want 1", syncs)
	}
}

func TestSyncFails(t *testing.T) {
	var broken error
	o := small()
	o.Before = func(c packetlog.Change) error {
		if c.Kind == packetlog.Sync {
			return broken
		}
		return nil
	}
	l := begin(t, t.TempDir(), 0, o)
	fill(t, l, "p", 1)
	must(t, l.Sync(l.End()))
	synced := l.Synced()
	fill(t, l, "q", 1)
	broken = syscall.EIO
	if err := l.Sync(l.End()); !errors.Is(err, fault.StorageFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want storage_failed of EIO", err)
	}
	if l.Synced() != synced {
		t.Errorf("synced %d after a failure, want %d", l.Synced(), synced)
	}
	broken = nil // the disk forgets what it has lost
	if err := l.Sync(l.End()); !errors.Is(err, fault.StorageFailed) || l.Synced() != synced {
		t.Errorf("the sync after one that failed: %v, synced %d", err, l.Synced())
	}
}

// TestWriteFails has every kind of change fail while the log grows: the error
// is returned, and when the disk works again so does the log.
func TestWriteFails(t *testing.T) {
	for _, want := range []error{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT} {
		dir := t.TempDir()
		var fails int // the changes until one fails
		o := small()
		o.Before = func(c packetlog.Change) error {
			if fails--; fails == 0 {
				return want
			}
			return nil
		}
		l := begin(t, dir, 0, o)
		var packets []packet
		failures := 0
		for i := range 60 {
			fails = 1 + i%4
			var b packetlog.Batch
			l.Begin(&b)
			p := packet{said: "said", body: body("p", 50+i)}
			p.place = b.Add([]byte(p.said), []byte(p.body))
			err := l.Write(&b)
			fails = 0
			if err == nil {
				l.Accept(&b)
				packets = append(packets, p)
				continue
			}
			failures++
			if !errors.Is(err, fault.StorageFailed) || !errors.Is(err, want) || errors.Is(err, packetlog.ErrFull) != (want != syscall.EIO) {
				t.Errorf("got %v, want storage_failed of %v", err, want)
			}
			end := l.End()
			must(t, l.Withdraw(&b))
			if l.End() != end {
				t.Errorf("end %d after a group that failed, want %d", l.End(), end)
			}
			for i, s := range l.Segments() {
				if info, err := os.Stat(l.Paths()[i]); err != nil || info.Size() != s.End-s.Start || !s.Last && s.End > end {
					t.Errorf("segment %d-%d has a file of %d bytes, %v; the log ends at %d", s.Start, s.End, info.Size(), err, end)
				}
			}
		}
		if failures < 15 || len(l.Paths()) < 4 {
			t.Fatalf("%d failures, %d segments", failures, len(l.Paths()))
		}
		readable(t, l, packets)
		must(t, l.Close())
		got, dropped := recovered(t, dir, 0)
		same(t, want.Error(), got, packets)
		if dropped > segmentHeader {
			t.Errorf("%d bytes were cut off", dropped)
		}
	}
}

// TestReadersBesideTheWriter reads what is synced while more is appended, synced,
// erased and removed.
func TestReadersBesideTheWriter(t *testing.T) {
	l := begin(t, t.TempDir(), 0, packetlog.Options{SegmentSize: 4 << 10})
	const n = 150
	var known [n]packet
	var synced, removed atomic.Int64 // of known; the place before which all may be gone
	ends := make(chan [2]int64, n)
	var tasks sync.WaitGroup
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	tasks.Go(func() { // syncs, erases and removes
		for e := range ends {
			check(l.Sync(e[1]))
			synced.Store(e[0])
			if e[0]%40 != 0 {
				continue
			}
			p := known[e[0]/2]
			removed.Store(max(p.place+1, removed.Load()))
			check(l.Erase([]packetlog.Range{{Place: p.place, Size: int64(len(p.body))}}))
			for _, s := range l.Segments() {
				if !s.Last && s.End <= p.place {
					check(l.Remove(s.Start))
				}
			}
		}
	})
	for range 2 {
		tasks.Go(func() {
			for synced.Load() < n {
				have := synced.Load()
				for i := max(0, have-20); i < have; i++ {
					p := known[i]
					got := make([]byte, len(p.body))
					err := l.ReadAt(got, p.place)
					if gone := p.place < removed.Load(); !gone && (err != nil || string(got) != p.body) {
						t.Errorf("place %d: %.30q, %v", p.place, got, err)
					} else if gone && err != nil && !errors.Is(err, packetlog.ErrMissing) {
						t.Errorf("place %d of a part that goes: %v", p.place, err)
					}
				}
			}
		})
	}
	for i := range n {
		known[i] = add(t, l, body("packet", 200+i))[0]
		ends <- [2]int64{int64(i + 1), l.End()}
	}
	close(ends)
	tasks.Wait()
}

// TestFolder opens logs in folders with names that mean something elsewhere,
// two in one, and none in one that is not there.
func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a[b]*?\c`)
	must(t, os.Mkdir(dir, 0o700))
	other := packetlog.ID{9}
	a := begin(t, dir, 0, small())
	b, err := packetlog.Open(dir, other, small())
	must(t, err)
	defer b.Close()
	_, err = b.Recover(0, func(packetlog.Record) error { return nil })
	must(t, err)
	mine, others := fill(t, a, "a", 6), fill(t, b, "b", 6)
	readable(t, a, mine)
	readable(t, b, others)
	must(t, a.Close())
	got, _ := recovered(t, dir, 0)
	same(t, "one of two", got, mine)

	if l, err := packetlog.Open(filepath.Join(dir, "none"), storeID, small()); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("a folder that is not there: %v, %v", l, err)
	}
}
