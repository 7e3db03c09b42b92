package packetlog_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// life is a log in use between two power cuts, and what is known of it.
type life struct {
	t      *testing.T
	random *rand.Rand
	disk   *disk
	log    *packetlog.Log
	groups [][]packet // accepted, in order
	ends   []int64    // of them
	flying []packet   // the group that may be there: not accepted, or not yet withdrawn
	synced int        // groups that Sync has returned for
	floor  int        // those that the store has durably noted as synced
	n      int        // of bodies, to tell them apart
}

// TestPowerCut cuts the power in the middle of any change of any file, again
// and again, and recovers each time what Sync has returned for, and nothing
// that was not written or that was withdrawn.
func TestPowerCut(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		y := &life{t: t, random: random}
		dir := filepath.Join(t.TempDir(), "0")
		lay(t, dir, nil)
		for cut := 1; cut < 8 && !t.Failed(); cut++ {
			y.live(dir)
			dir = filepath.Join(t.TempDir(), fmt.Sprint(cut))
			lay(t, dir, y.disk.after)
			y.recover(dir)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// live uses the log until the power goes.
func (y *life) live(dir string) {
	y.disk = newDisk(y.t, dir, y.random.IntN(60), y.random)
	syncing := false
	l, err := packetlog.Open(dir, storeID, packetlog.Options{SegmentSize: 3000, Before: func(c packetlog.Change) error {
		// The goroutine that syncs is not the one that appends.
		if c.Kind == packetlog.Write && !syncing && y.log != nil && y.random.IntN(3) == 0 {
			syncing = true
			y.sync()
			syncing = false
		}
		return y.disk.before(c)
	}})
	must(y.t, err)
	defer func() { y.log = nil; _ = l.Close() }()
	if _, err := l.Recover(y.from(), func(packetlog.Record) error { return nil }); err != nil {
		y.known(err)
		return
	}
	y.log = l
	y.synced = len(y.groups)
	for y.disk.after == nil {
		switch y.random.IntN(8) {
		case 0:
			y.sync()
		case 1:
			y.floor = y.synced
		case 2:
			y.erase()
		case 3:
			y.group(false)
		default:
			y.group(true)
		}
	}
}

// from returns a place that the store may have noted as synced.
func (y *life) from() int64 {
	n := y.floor + y.random.IntN(y.synced-y.floor+1)
	if n == 0 {
		return 0
	}
	return y.ends[n-1]
}

func (y *life) known(err error) {
	y.t.Helper()
	if err != nil && !errors.Is(err, errPower) {
		y.t.Error(err)
	}
}

func (y *life) sync() {
	groups, end := len(y.groups), int64(0)
	if groups > 0 {
		end = y.ends[groups-1]
	}
	if err := y.log.Sync(end); err != nil {
		y.known(err)
		return
	}
	y.synced = groups
}

// group appends a group, or withdraws it.
func (y *life) group(accept bool) {
	var b packetlog.Batch
	y.log.Begin(&b)
	var packets []packet
	for range 1 + y.random.IntN(3) {
		y.n++
		p := packet{said: fmt.Sprint("said of ", y.n), body: body(fmt.Sprint(y.n), y.random.IntN(900))}
		p.place = b.Add([]byte(p.said), []byte(p.body))
		packets = append(packets, p)
	}
	y.flying = packets
	err := y.log.Write(&b)
	y.known(err)
	if accept && err == nil {
		y.log.Accept(&b)
		y.groups, y.ends, y.flying = append(y.groups, packets), append(y.ends, b.End()), nil
		return
	}
	if err := y.log.Withdraw(&b); err != nil {
		y.known(err)
		return
	}
	y.flying = nil
}

// erase erases a body that the store does not need replayed, and removes
// segments of such.
func (y *life) erase() {
	if y.floor == 0 {
		return
	}
	p := y.groups[y.random.IntN(y.floor)][0]
	y.known(y.log.Erase([]packetlog.Range{{Place: p.place, Size: int64(len(p.body))}}))
	for _, s := range y.log.Segments() {
		if !s.Last && s.End <= y.ends[y.floor-1] && y.random.IntN(2) == 0 {
			y.known(y.log.Remove(s.Start))
		}
	}
}

// recover compares what the log holds after a power cut with what was done.
func (y *life) recover(dir string) {
	y.t.Helper()
	from := y.from()
	left := map[string][]byte{}
	entries, err := filepath.Glob(filepath.Join(dir, "*"))
	must(y.t, err)
	for _, path := range entries {
		left[path] = readFile(y.t, path)
	}
	// In a folder of its own, so that the next life has to recover too.
	looking := filepath.Join(y.t.TempDir(), "looking")
	lay(y.t, looking, left)
	l, err := packetlog.Open(looking, storeID, packetlog.Options{SegmentSize: 3000})
	must(y.t, err)
	defer l.Close()
	got, _ := recoverAll(y.t, l, from)

	if len(y.flying) > 0 {
		last := y.flying[len(y.flying)-1]
		y.groups = append(y.groups, y.flying)
		y.ends = append(y.ends, last.place+int64(len(last.body)+len(last.said)+frame*len(y.flying)))
		y.flying = nil
	}
	first := 0
	for first < len(y.ends) && y.ends[first] <= from {
		first++
	}
	n := first
	for ; n < len(y.groups) && len(got) > 0; n++ {
		g := y.groups[n]
		if len(got) < len(g) || !slices.Equal(got[:len(g)], g) {
			break
		}
		got = got[len(g):]
	}
	if len(got) > 0 {
		y.t.Errorf("after %d groups this is recovered, which was not written there: %.300s", n, fmt.Sprintf("%+v", got))
	}
	if n < y.synced {
		y.t.Errorf("%d groups are recovered, %d had reached the disk", n, y.synced)
	}
	end := from
	if n > first {
		end = y.ends[n-1]
	}
	// Perhaps it goes on in a segment that has no group yet.
	if l.End() != end && l.End() != end+segmentHeader {
		y.t.Errorf("the log ends at %d, after %d groups of %v from %d", l.End(), n, y.ends, from)
	}
	y.groups, y.ends = y.groups[:n], y.ends[:n]
}
