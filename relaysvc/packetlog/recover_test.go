package packetlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

func TestRecoverNothing(t *testing.T) {
	dir := t.TempDir()
	for _, from := range []int64{0, 4711} {
		l := open(t, dir, small())
		got, dropped := recoverAll(t, l, from)
		if len(got) != 0 || dropped != 0 || l.End() != from || l.Synced() != from || len(l.Paths()) != 0 {
			t.Errorf("an empty log from %d: %v, %d dropped, end %d, synced %d, files %v", from, got, dropped, l.End(), l.Synced(), l.Paths())
		}
	}
}

// TestRecoverFrom recovers from every end of a group, which are also the starts
// and ends of segments.
func TestRecoverFrom(t *testing.T) {
	dir := t.TempDir()
	l := begin(t, dir, 0, small())
	var packets []packet
	from := map[int64]int{0: 0} // how many packets are before
	for i := range 14 {
		packets = append(packets, add(t, l, body(fmt.Sprint("a", i), 40), "", body(fmt.Sprint("b", i), 33*i))...)
		from[l.End()] = len(packets)
	}
	segments := l.Segments()
	if len(segments) < 3 {
		t.Fatalf("%d segments", len(segments))
	}
	for _, s := range segments {
		if _, ok := from[s.Start]; !ok {
			t.Errorf("segment %d begins where no group ends", s.Start)
		}
	}
	must(t, l.Close())
	for at, before := range from {
		got, dropped := recovered(t, dir, at)
		same(t, fmt.Sprint("from ", at), got, packets[before:])
		if dropped != 0 {
			t.Errorf("from %d: %d bytes dropped", at, dropped)
		}
	}
}

// TestRecoverBeyondTheEnd opens a log that is shorter than the store believes:
// what is appended comes after all places that the store may know.
func TestRecoverBeyondTheEnd(t *testing.T) {
	for _, beyond := range []int64{1, 100, 10 * smallSegment} {
		dir := t.TempDir()
		l := begin(t, dir, 0, small())
		packets := fill(t, l, "p", 6)
		from := l.End() + beyond
		must(t, l.Close())
		l = begin(t, dir, from, small())
		if l.End() != from || l.Synced() != from {
			t.Errorf("end %d, synced %d, want %d", l.End(), l.Synced(), from)
		}
		readable(t, l, packets)
		more := fill(t, l, "more", 6)
		must(t, l.Close())
		got, dropped := recovered(t, dir, from)
		same(t, fmt.Sprint(beyond, " beyond"), got, more)
		if dropped != 0 {
			t.Errorf("%d bytes dropped", dropped)
		}
		readable(t, open(t, dir, small()), slices.Concat(packets, more))
	}
}

// TestRecoverRefusesAGap opens a log that has segments after the place that the
// store is sure of, but not what comes before them. Nothing is cut off.
func TestRecoverRefusesAGap(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"gone":  os.Remove,
		"short": func(path string) error { return os.Truncate(path, segmentHeader+10) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := begin(t, dir, 0, small())
			fillSegments(t, l, 4)
			segments, paths := l.Segments(), l.Paths()
			must(t, l.Close())
			must(t, harm(paths[1]))
			l = open(t, dir, small())
			_, err := l.Recover(segments[1].End-1, func(packetlog.Record) error { return nil })
			if !errors.Is(err, fault.StorageFailed) || !strings.Contains(err.Error(), paths[2]) {
				t.Fatalf("got %v", err)
			}
			for _, path := range paths[2:] {
				if _, err := os.Stat(path); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestRecoverStopsWhenTold(t *testing.T) {
	dir := t.TempDir()
	l := begin(t, dir, 0, small())
	fill(t, l, "p", 6)
	size := l.Size()
	must(t, l.Close())
	l = open(t, dir, small())
	no := errors.New("no")
	calls := 0
	if _, err := l.Recover(0, func(packetlog.Record) error { calls++; return no }); !errors.Is(err, no) || calls != 1 {
		t.Errorf("got %v after %d calls", err, calls)
	}
	if l.Size() != size {
		t.Errorf("the log has %d bytes, before it were %d", l.Size(), size)
	}
}

// torn is a log of two segments, of whose last group the file is to be damaged,
// or of more, in which that group is in the middle.
type torn struct {
	dir            string
	files          map[string][]byte
	before         []packet // the damage
	path           string
	at, end, total int64 // of the group in its file; all that may be dropped
}

func newTorn(t *testing.T, middle bool) torn {
	t.Helper()
	x := torn{dir: t.TempDir(), files: map[string][]byte{}}
	l := begin(t, x.dir, 0, small())
	x.before = slices.Concat(fillSegment(t, l), fill(t, l, "next", 2)) // room is left in the second segment
	start := l.End()
	add(t, l, body("torn", 37), "", body("also", 21))
	x.path = lastPath(t, l)
	s := l.Segments()[len(l.Segments())-1]
	x.at, x.end = start-s.Start, l.End()-s.Start
	if x.at <= segmentHeader {
		t.Fatal("the group begins a segment")
	}
	if middle {
		fill(t, l, "after", 8)
	}
	for _, path := range l.Paths() {
		x.files[path] = readFile(t, path)
	}
	x.total = l.End() - start
	must(t, l.Close())
	return x
}

// damaged recovers after the group's file was given another content.
func (x torn) damaged(t *testing.T, what string, content []byte, dropped int64) {
	t.Helper()
	for path, old := range x.files {
		writeFile(t, path, old)
	}
	writeFile(t, x.path, content)
	l := open(t, x.dir, small())
	got, have := recoverAll(t, l, 0)
	same(t, what, got, x.before)
	if have != dropped {
		t.Errorf("%s: %d bytes dropped, want %d", what, have, dropped)
	}
	if info, err := os.Stat(x.path); err != nil || info.Size() != x.at {
		t.Errorf("%s: the file has %d bytes, %v; want %d", what, info.Size(), err, x.at)
	}
	if left, _ := filepath.Glob(filepath.Join(x.dir, "*.log")); !slices.Equal(left, l.Paths()) || left[len(left)-1] != x.path {
		t.Errorf("%s: there are %v, the log has %v", what, left, l.Paths())
	}
	more := add(t, l, body("more", 50), "x")
	must(t, l.Sync(l.End()))
	must(t, l.Close())
	got, have = recovered(t, x.dir, 0)
	same(t, what+", appended", got, slices.Concat(x.before, more))
	if have != 0 {
		t.Errorf("%s: %d bytes dropped afterwards", what, have)
	}
}

func TestRecoverTruncated(t *testing.T) {
	x := newTorn(t, false)
	content := x.files[x.path]
	for size := x.at; size < x.end; size++ {
		x.damaged(t, fmt.Sprint("to ", size-x.at), content[:size], size-x.at)
	}
}

func TestRecoverFlipped(t *testing.T) {
	for _, middle := range []bool{false, true} {
		x := newTorn(t, middle)
		for at := x.at; at < x.end; at++ {
			content := slices.Clone(x.files[x.path])
			content[at] ^= 1 << (at % 8)
			x.damaged(t, fmt.Sprintf("middle %v, byte %d", middle, at-x.at), content, x.total)
		}
	}
}

// TestRecoverZeros has the file longer than what was written of it.
func TestRecoverZeros(t *testing.T) {
	x := newTorn(t, false)
	content := x.files[x.path]
	for _, kept := range []int64{0, 1, 31, 32, 33, 60} {
		zeroed := slices.Concat(content[:x.at+kept], make([]byte, x.total-kept))
		x.damaged(t, fmt.Sprint(kept, " kept"), zeroed, x.total)
	}
	x.damaged(t, "zeros after", slices.Concat(content[:x.at], make([]byte, 3*smallSegment)), 3*smallSegment)
}

// TestRecoverMoved has a group that is whole, but another place's.
func TestRecoverMoved(t *testing.T) {
	x := newTorn(t, false)
	content := x.files[x.path]
	groups := content[segmentHeader:x.at]
	x.damaged(t, "moved", slices.Concat(content[:x.at], groups), int64(len(groups)))
}

// TestRecoverClaims has headers that claim more than there is: they take no
// memory for it.
func TestRecoverClaims(t *testing.T) {
	x := newTorn(t, false)
	for _, claims := range [][2]uint32{{1 << 31, 0}, {0, 1 << 31}, {1<<32 - 1, 1<<32 - 1}, {1<<32 - 1, 40}, {uint32(x.total), 0}} {
		content := slices.Clone(x.files[x.path])
		binary.BigEndian.PutUint32(content[x.at+16:], claims[0])
		binary.BigEndian.PutUint32(content[x.at+20:], claims[1])
		allocated := allocations(func() { x.damaged(t, fmt.Sprint(claims), content, x.total) })
		if allocated > 16<<20 {
			t.Errorf("%v: %d bytes allocated", claims, allocated)
		}
	}
}

// TestRecoverFails has each step of cutting fail where segments follow the torn
// group: the next attempt does what is left.
func TestRecoverFails(t *testing.T) {
	x := newTorn(t, true)
	content := slices.Clone(x.files[x.path])
	content[x.at] = 0
	writeFile(t, x.path, content)
	for _, kind := range []packetlog.Kind{packetlog.Truncate, packetlog.Delete, packetlog.Sync} {
		o := small()
		o.Before = func(c packetlog.Change) error {
			if c.Kind == kind {
				return errors.New("the disk failed")
			}
			return nil
		}
		l := open(t, x.dir, o)
		if _, err := l.Recover(0, func(packetlog.Record) error { return nil }); !errors.Is(err, fault.StorageFailed) {
			t.Errorf("%s fails: %v", kind, err)
		}
		if l.Synced() != 0 {
			t.Errorf("%s fails: synced %d", kind, l.Synced())
		}
		must(t, l.Close())
	}
	got, _ := recovered(t, x.dir, 0)
	same(t, "after failures", got, x.before)
}

// TestRecoverSyncs makes sure that what is found has reached the disk: a
// process that was killed may have left it in the system's memory.
func TestRecoverSyncs(t *testing.T) {
	dir := t.TempDir()
	l := begin(t, dir, 0, small())
	fillSegments(t, l, 4)
	segments, paths := l.Segments(), l.Paths()
	must(t, l.Close())
	var synced []string
	o := small()
	o.Before = func(c packetlog.Change) error {
		if c.Kind == packetlog.Sync {
			synced = append(synced, c.Path)
		}
		return nil
	}
	begin(t, dir, segments[2].Start, o)
	for _, path := range paths[2:] {
		if !slices.Contains(synced, path) {
			t.Errorf("%s is not synced", filepath.Base(path))
		}
	}
	if slices.Contains(synced, paths[0]) {
		t.Error("the first segment is synced again")
	}
}

func TestWithdraw(t *testing.T) {
	for _, made := range []bool{false, true} { // in a segment, in one that is made for it
		dir := t.TempDir()
		l := begin(t, dir, 0, small())
		packets := fill(t, l, "p", 1)
		if made {
			packets = append(packets, fillSegment(t, l)...)
		}
		segments := len(l.Paths())
		end := l.End()
		var b packetlog.Batch
		write(t, l, &b, body("withdrawn", 300))
		if len(l.Paths()) > segments != made {
			t.Fatalf("a segment was made: %v, want %v", !made, made)
		}
		must(t, l.Withdraw(&b))
		if l.End() != end || bytes.Contains(readFile(t, lastPath(t, l)), []byte("withdrawn")) {
			t.Errorf("end %d, want %d; or the group is in the file", l.End(), end)
		}
		got, dropped := recovered(t, dir, 0)
		same(t, "withdrawn", got, packets)
		if dropped != 0 {
			t.Errorf("%d bytes dropped", dropped)
		}

		write(t, l, &b, body("over", 300))
		packets = append(packets, write(t, l, &b, "short")...)
		l.Accept(&b)
		must(t, l.Close())
		got, _ = recovered(t, dir, 0)
		same(t, "written over", got, packets)
	}
}

// TestWithdrawReachesTheDisk: a power cut does not bring the group back.
func TestWithdrawReachesTheDisk(t *testing.T) {
	var kinds []packetlog.Kind
	var broken packetlog.Kind
	o := small()
	o.Before = func(c packetlog.Change) error {
		kinds = append(kinds, c.Kind)
		if c.Kind == broken {
			return errors.New("the disk failed")
		}
		return nil
	}
	l := begin(t, t.TempDir(), 0, o)
	fill(t, l, "p", 1)
	var b packetlog.Batch
	for _, broken = range []packetlog.Kind{"", packetlog.Truncate, packetlog.Sync} {
		write(t, l, &b, "withdrawn")
		kinds = nil
		err := l.Withdraw(&b)
		if (err != nil) != (broken != "") || err != nil && !errors.Is(err, fault.StorageFailed) {
			t.Errorf("%q fails: %v", broken, err)
		}
		if want := []packetlog.Kind{packetlog.Truncate, packetlog.Sync}; broken == "" && !slices.Equal(kinds, want) {
			t.Errorf("%v, want %v", kinds, want)
		}
		broken = ""
	}
}
