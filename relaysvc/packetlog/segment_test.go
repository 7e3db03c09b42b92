package packetlog_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// TestSegmentBeingMade has the power go while a segment is made: what its file
// holds of the header is no obstacle, and the segment is made again.
func TestSegmentBeingMade(t *testing.T) {
	for _, first := range []bool{true, false} {
		for _, content := range [][]byte{nil, make([]byte, 1), make([]byte, segmentHeader), headerOf(storeID, 0)[:9], headerOf(storeID, 0)[:segmentHeader-1]} {
			dir := t.TempDir()
			l := begin(t, dir, 0, small())
			var packets []packet
			if !first {
				packets = fillSegment(t, l)
			}
			end := l.End()
			must(t, l.Close())
			writeFile(t, segmentPath(dir, storeID, end), content)

			what := fmt.Sprintf("first %v, %d bytes", first, len(content))
			l = begin(t, dir, 0, small())
			if l.End() != end {
				t.Errorf("%s: end %d, want %d", what, l.End(), end)
			}
			more := fill(t, l, "more", 2)
			if path := lastPath(t, l); path != segmentPath(dir, storeID, end) {
				t.Errorf("%s: the next segment is %s", what, path)
			}
			must(t, l.Close())
			got, dropped := recovered(t, dir, 0)
			same(t, what, got, slices.Concat(packets, more))
			if dropped != 0 {
				t.Errorf("%s: %d bytes dropped", what, dropped)
			}
		}
	}
	// One that was made, but has no group yet.
	dir := t.TempDir()
	writeFile(t, segmentPath(dir, storeID, 7000), headerOf(storeID, 7000))
	l := begin(t, dir, 7000, small())
	packets := fill(t, l, "p", 1)
	if len(l.Paths()) != 1 {
		t.Errorf("files %v", l.Paths())
	}
	got, _ := recovered(t, dir, 7000)
	same(t, "made", got, packets)
}

// TestForeignSegments has files at the place of a segment that are none of it.
func TestForeignSegments(t *testing.T) {
	other := storeID // in the 4 bytes that are in the name
	other[15]++
	for name, c := range map[string]struct {
		start   int64 // by the name
		content []byte
	}{
		"another log":     {0, headerOf(other, 0)},
		"renamed":         {0, headerOf(storeID, 500)},
		"a negative name": {-1, headerOf(storeID, -1)},
		"another mark":    {0, append([]byte("\xffacelog2"), headerOf(storeID, 0)[8:]...)},
		"zeros":           {0, make([]byte, segmentHeader+1)},
		"text":            {0, []byte("this is a text that is longer than a header")},
	} {
		dir := t.TempDir()
		path := segmentPath(dir, storeID, c.start)
		writeFile(t, path, c.content)
		if l, err := packetlog.Open(dir, storeID, small()); !errors.Is(err, fault.StorageFailed) {
			t.Errorf("%s: %v, %v", name, l, err)
		}
		if got := readFile(t, path); string(got) != string(c.content) {
			t.Errorf("%s: the file was changed to %q", name, got)
		}
	}
	// Another log's, by its name, is left alone.
	dir := t.TempDir()
	writeFile(t, segmentPath(dir, packetlog.ID{9}, 0), headerOf(packetlog.ID{9}, 0))
	writeFile(t, segmentPath(dir, storeID, 0)+".old", headerOf(storeID, 0))
	if l := begin(t, dir, 0, small()); len(l.Paths()) != 0 {
		t.Errorf("files %v", l.Paths())
	}
}

func TestFilesOthersMayRead(t *testing.T) {
	dir := t.TempDir()
	l := begin(t, dir, 0, small())
	packets := fill(t, l, "p", 9)
	for _, path := range l.Paths() {
		must(t, os.Chmod(path, 0o644))
		if l, err := packetlog.Open(dir, storeID, small()); !errors.Is(err, fault.StorageFailed) {
			t.Errorf("%s is for all to read: %v, %v", path, l, err)
		}
		must(t, os.Chmod(path, 0o600))
	}
	got, _ := recovered(t, dir, 0)
	same(t, "mended", got, packets)
}

func TestErase(t *testing.T) {
	dir := t.TempDir()
	o := packetlog.Options{SegmentSize: 400 << 10}
	l := begin(t, dir, 0, o)
	var packets []packet
	for i, size := range []int{100, 1, 64 << 10, 64<<10 + 1, 200 << 10, 0, 3, 300 << 10, 50, 60} {
		packets = append(packets, add(t, l, body(fmt.Sprint("a", i), 30), body(fmt.Sprint("erased", i), size), body(fmt.Sprint("b", i), 30))...)
	}
	must(t, l.Sync(l.End()))
	if len(l.Paths()) != 2 {
		t.Fatalf("%d segments, want 2", len(l.Paths()))
	}
	var ranges []packetlog.Range
	want := map[string][]byte{}
	for i, path := range l.Paths() {
		want[path] = readFile(t, path)
		for j, p := range packets {
			s := l.Segments()[i]
			if j%3 == 1 && p.place >= s.Start && p.place < s.End {
				clear(want[path][p.place-s.Start:][:len(p.body)])
			}
		}
	}
	for i, p := range packets {
		if i%3 == 1 {
			ranges = append(ranges, packetlog.Range{Place: p.place, Size: int64(len(p.body))})
		}
	}
	end := l.End()
	ranges = append(ranges, packetlog.Range{Place: -5, Size: 3}, packetlog.Range{Place: end, Size: 70 << 10}, packetlog.Range{Place: 1 << 50, Size: 1})
	must(t, l.Erase(ranges))
	for path, content := range want {
		if got := readFile(t, path); string(got) != string(content) {
			t.Errorf("%s: something else than the bodies to erase is zero, or they are not", path)
		}
	}
	for i, p := range packets {
		got := make([]byte, len(p.body))
		if err := l.ReadAt(got, p.place); err != nil || i%3 == 1 && !isZero(got) || i%3 != 1 && string(got) != p.body {
			t.Errorf("packet %d: %.30q, %v", i, got, err)
		}
	}
	// A part of which the log has only the beginning.
	last := packets[len(packets)-1]
	must(t, l.Erase([]packetlog.Range{{Place: last.place, Size: 1 << 20}}))
	if got := readFile(t, lastPath(t, l)); len(got) != len(want[lastPath(t, l)]) {
		t.Errorf("the file has %d bytes, had %d", len(got), len(want[lastPath(t, l)]))
	}
	// The log goes on behind it.
	more := add(t, l, "more")
	got, dropped := recovered(t, dir, end)
	same(t, "after erasing", got, more)
	if dropped != 0 {
		t.Errorf("%d bytes dropped", dropped)
	}
}

// TestEraseFails also makes sure that what is erased is synced, in every
// segment once.
func TestEraseFails(t *testing.T) {
	var broken packetlog.Kind
	var cause error
	synced := map[string]int{}
	o := small()
	o.Before = func(c packetlog.Change) error {
		if c.Kind == broken {
			return cause
		}
		if c.Kind == packetlog.Sync {
			synced[c.Path]++
		}
		return nil
	}
	l := begin(t, t.TempDir(), 0, o)
	packets := fill(t, l, "p", 9)
	must(t, l.Sync(l.End()))
	var ranges []packetlog.Range
	for _, p := range packets {
		ranges = append(ranges, packetlog.Range{Place: p.place, Size: int64(len(p.body))})
	}
	for _, cause = range []error{syscall.EIO, syscall.ENOSPC} {
		for _, broken = range []packetlog.Kind{packetlog.Write, packetlog.Sync} {
			err := l.Erase(ranges)
			if !errors.Is(err, fault.StorageFailed) || !errors.Is(err, cause) || errors.Is(err, packetlog.ErrFull) != (cause == syscall.ENOSPC) {
				t.Errorf("%s fails of %v: %v", broken, cause, err)
			}
		}
	}
	broken = ""
	clear(synced)
	must(t, l.Erase(ranges))
	for _, path := range l.Paths() {
		if synced[path] != 1 {
			t.Errorf("%s: synced %d times, want once", path, synced[path])
		}
	}
	// Erasing is not what Sync answers for.
	if must(t, l.Sync(l.End())); l.Synced() != l.End() {
		t.Errorf("synced %d, want %d", l.Synced(), l.End())
	}
}

func TestRemove(t *testing.T) {
	dir := t.TempDir()
	l := begin(t, dir, 0, small())
	packets := fill(t, l, "p", 16)
	must(t, l.Sync(l.End()))
	segments := l.Segments()
	gone := segments[1]
	must(t, l.Remove(gone.Start+1)) // no start of a segment
	must(t, l.Remove(l.End()))
	readable(t, l, packets)

	must(t, l.Remove(gone.Start))
	must(t, l.Remove(gone.Start))
	if _, err := os.Stat(segmentPath(dir, storeID, gone.Start)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	if got, want := l.Segments(), slices.Delete(slices.Clone(segments), 1, 2); !slices.Equal(got, want) {
		t.Errorf("segments %v, want %v", got, want)
	}
	check := func(l *packetlog.Log) {
		t.Helper()
		for _, p := range packets {
			if p.place < gone.Start || p.place >= gone.End {
				readable(t, l, []packet{p})
			} else if err := l.ReadAt(make([]byte, len(p.body)), p.place); !errors.Is(err, packetlog.ErrMissing) {
				t.Errorf("place %d of the removed segment: %v", p.place, err)
			} else if _, ok := l.SegmentOf(p.place); ok {
				t.Errorf("place %d belongs to a segment", p.place)
			}
		}
	}
	check(l)
	must(t, l.Erase([]packetlog.Range{{Place: gone.Start + segmentHeader, Size: 90}}))
	must(t, l.Close())
	l = begin(t, dir, l.End(), small())
	check(l)
	got, _ := recovered(t, dir, gone.End)
	same(t, "after the removed segment", got, packets[slices.IndexFunc(packets, func(p packet) bool { return p.place >= gone.End }):])
}

// TestRemoveDuringRead removes segments that are being read: a reader is told
// that they are missing, or still reads what they had.
func TestRemoveDuringRead(t *testing.T) {
	l := begin(t, t.TempDir(), 0, packetlog.Options{SegmentSize: 1})
	packets := fill(t, l, "p", 40)
	var tasks sync.WaitGroup
	var reading atomic.Int64
	for range 3 {
		tasks.Go(func() {
			for _, p := range packets[:len(packets)-2] {
				reading.Store(max(p.place, reading.Load()))
				got := make([]byte, len(p.body))
				err := error(nil)
				for ; err == nil; err = l.ReadAt(got, p.place) {
					if !isZero(got) && string(got) != p.body {
						t.Errorf("place %d: %.60q", p.place, got)
						return
					}
				}
				if !errors.Is(err, packetlog.ErrMissing) {
					t.Errorf("place %d: %v", p.place, err)
				}
			}
		})
	}
	for _, s := range l.Segments() {
		for !s.Last && reading.Load() < s.Start {
			runtime.Gosched()
		}
		if !s.Last {
			must(t, l.Remove(s.Start))
		}
	}
	tasks.Wait()
}

func TestRemoveFails(t *testing.T) {
	broken := false
	o := small()
	o.Before = func(c packetlog.Change) error {
		if broken && c.Kind == packetlog.Delete {
			return syscall.EIO
		}
		return nil
	}
	l := begin(t, t.TempDir(), 0, o)
	packets := fill(t, l, "p", 9)
	broken = true
	if err := l.Remove(0); !errors.Is(err, fault.StorageFailed) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v", err)
	}
	readable(t, l, packets)
	broken = false
	must(t, os.Remove(l.Paths()[0])) // what is gone already needs no removing
	must(t, l.Remove(0))
	if l.Segments()[0].Start == 0 {
		t.Error("the segment is still there")
	}
}

// TestEmpty empties the last segment: what it had is gone from the file, and
// what comes later is at new places, in another one.
func TestEmpty(t *testing.T) {
	dir := t.TempDir()
	l := begin(t, dir, 0, small())
	must(t, l.Empty()) // there is none
	packets := fill(t, l, "gone", 3)
	must(t, l.Sync(l.End()))
	end, path := l.End(), lastPath(t, l)
	must(t, l.Empty())
	if got := readFile(t, path); len(got) != segmentHeader || l.End() != end {
		t.Fatalf("the file has %d bytes, the log ends at %d, before at %d", len(got), l.End(), end)
	}
	if err := l.ReadAt(make([]byte, 1), packets[0].place); !errors.Is(err, packetlog.ErrMissing) {
		t.Errorf("reading what is gone: %v", err)
	}
	must(t, l.Empty()) // again
	for range 2 {      // with a start in between, and without
		more := fill(t, l, "more", 2)
		if more[0].place <= end || lastPath(t, l) == path {
			t.Errorf("the next is at %d, after %d, in %s", more[0].place, end, lastPath(t, l))
		}
		must(t, l.Close())
		got, dropped := recovered(t, dir, end)
		same(t, "after it", got, more)
		if dropped != 0 {
			t.Errorf("%d bytes dropped", dropped)
		}
		l = begin(t, dir, end, small())
		must(t, l.Sync(l.End()))
		end, path = l.End(), lastPath(t, l)
		must(t, l.Empty())
		must(t, l.Close())
		l = begin(t, dir, end, small())
	}
}
