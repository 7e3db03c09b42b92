package relaydb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/internal/faultdisk"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// book is what one worker has asked of the store and what it was told. It has
// one recipient, and asks for one thing after another.
type book struct {
	id     string
	alice  relaydb.Identity
	random *rand.Rand
	n      int

	mu     sync.Mutex
	page   page
	asking *page // what the page becomes if the decision under way is taken
}

// page is the state of a recipient: texts by stream order, and spent nonces.
type page struct {
	texts  []string
	nonces []string
}

func (p page) with(text string) *page {
	return &page{append(slices.Clone(p.texts), text), p.nonces}
}

func (p page) without(n int, nonce string) *page {
	return &page{slices.Clone(p.texts[n:]), append(slices.Clone(p.nonces), nonce)}
}

// work asks for random decisions until one fails, and returns why.
func (b *book) work(d *relaydb.DB) error {
	for {
		b.n++
		if len(b.page.texts) > 0 && b.random.IntN(3) == 0 {
			if err := b.ack(d, 1+b.random.IntN(len(b.page.texts))); err != nil {
				return err
			}
			continue
		}
		text := fmt.Sprintf("%s %d %s", b.id, b.n, strings.Repeat("x", b.random.IntN(6000)))
		b.ask(b.page.with(text))
		if _, err := d.Enqueue(ctx, packet(b.id, "bob", text), relaydb.Room{Entries: 1000, Bytes: 1 << 30}); err != nil {
			return err
		}
		b.told()
	}
}

// ack acknowledges the oldest n packets.
func (b *book) ack(d *relaydb.DB, n int) error {
	var id string
	_, err := d.Entries(ctx, relaydb.Span{ACEID: b.id, Incarnation: b.alice.Incarnation, Entries: int64(n), Bytes: 1 << 30, Now: now},
		func(e relaydb.Entry) bool { id = e.StreamID; return true })
	if err != nil {
		return err
	}
	nonce := fmt.Sprint(b.id, " ", b.n)
	b.ask(b.page.without(n, nonce))
	if err := d.Ack(ctx, relaydb.Caller{ACEID: b.id, Incarnation: b.alice.Incarnation, Nonce: nonce, Forget: now + 601}, id); err != nil {
		return err
	}
	b.told()
	return nil
}

func (b *book) ask(p *page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking = p
}

func (b *book) told() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.page, b.asking = *b.asking, nil
}

// outcomes returns what the store may hold now: what was told, or that and
// what is being asked.
func (b *book) outcomes() (pages []page) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pages = []page{b.page}
	if b.asking != nil {
		pages = append(pages, *b.asking)
	}
	return pages
}

// compare checks that the store holds one of the outcomes and goes on from it.
func (b *book) compare(t *testing.T, d *relaydb.DB, outcomes []page) {
	t.Helper()
	var texts []string
	for _, e := range queue(t, d, b.id) {
		texts = append(texts, string(e.Packet))
	}
	for _, p := range outcomes {
		if slices.Equal(texts, p.texts) {
			b.page, b.asking = p, nil
			b.checkNonces(t, d)
			return
		}
	}
	t.Fatalf("%s has %d entries, want %d or those of %d other outcomes", b.id, len(texts), len(outcomes[0].texts), len(outcomes)-1)
}

func (b *book) checkNonces(t *testing.T, d *relaydb.DB) {
	t.Helper()
	for _, nonce := range b.page.nonces {
		refused(t, d.Spend(ctx, relaydb.Caller{ACEID: b.id, Incarnation: b.alice.Incarnation, Nonce: nonce, Forget: now + 601}), relaydb.Replayed)
	}
	b.page.nonces = nil
}

// newBooks registers a recipient for each of some workers.
func newBooks(t *testing.T, d *relaydb.DB, seed uint64) []*book {
	t.Helper()
	var books []*book
	for i := range 4 {
		id := fmt.Sprint("agent ", i)
		books = append(books, &book{id: id, alice: registered(t, d, id), random: rand.New(rand.NewPCG(seed, uint64(i)))})
	}
	return books
}

// together lets all workers work until the store fails or closes.
func together(d *relaydb.DB, books []*book) (wait func() []error) {
	var workers sync.WaitGroup
	errs := make([]error, len(books))
	for i, b := range books {
		workers.Go(func() { errs[i] = b.work(d) })
	}
	return func() []error { workers.Wait(); return errs }
}

// openFlaky opens a store with short segments, whose packet log is on the disk
// of faultdisk as well.
func openFlaky(t *testing.T, path string) *relaydb.DB { return openFlakyAhead(t, path, 0) }

// openFlakyAhead is openFlaky with decisions going on for a number of groups
// while the disk does not answer.
func openFlakyAhead(t *testing.T, path string, ahead int) *relaydb.DB {
	t.Helper()
	o := relaydb.Options{Before: func(c packetlog.Change) error {
		switch faultdisk.Ask(faultdisk.Op{Kind: faultdisk.Kind(c.Kind), Path: c.Path, Data: c.Data, Offset: c.Offset, Size: c.Size}) {
		case faultdisk.OK:
			return nil
		case faultdisk.Full:
			return syscall.ENOSPC
		case faultdisk.ReadOnly:
			return syscall.EROFS
		}
		return syscall.EIO
	}}
	d, err := relaydb.OpenWith(ctx, path, now, o.WithSegments(32<<10).WithGroupsAhead(ahead))
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

// TestPowerCut cuts the power again and again, at a random operation on the
// files, and opens what the disk may hold then: every decision that was told
// is there, and the one under way is there as a whole or not at all.
func TestPowerCut(t *testing.T) {
	const seed = 1
	cuts := 30
	if testing.Short() {
		cuts = 10
	}
	random := rand.New(rand.NewPCG(seed, 99))
	root := t.TempDir()
	dir := filepath.Join(root, "0")
	d := openFlaky(t, filepath.Join(dir, "relay.db"))
	books := newBooks(t, d, seed)
	must(t, d.Close())
	for n := 1; n <= cuts; n++ {
		next := filepath.Join(root, fmt.Sprint(n))
		outcomes := cutPower(t, dir, next, books, random)
		dir = next
		d := openFlaky(t, filepath.Join(dir, "relay.db"))
		for i, b := range books {
			b.compare(t, d, outcomes[i])
		}
		must(t, d.Close())
	}
}

// cutPower works on the store of a folder, lays into another what the disk
// may hold at some instant, and returns what the workers may find there.
func cutPower(t *testing.T, dir, next string, books []*book, random *rand.Rand) (outcomes [][]page) {
	t.Helper()
	disk := newDisk(t, dir, random)
	instant := 1 + random.IntN(400)
	off := make(chan struct{})
	var ops int
	var left map[string][]byte
	var mu sync.Mutex // one operation at a time, as for the instant
	stop := faultdisk.Watch(dir, func(op faultdisk.Op) int32 {
		mu.Lock()
		defer mu.Unlock()
		if ops++; ops == instant {
			for _, b := range books {
				outcomes = append(outcomes, b.outcomes())
			}
			left = disk.cut()
			close(off)
		}
		disk.note(op)
		return faultdisk.OK
	})
	defer stop()
	d := openFlaky(t, filepath.Join(dir, "relay.db"))
	wait := together(d, books)
	sweeping, end := context.WithCancel(ctx)
	var sweeps sync.WaitGroup
	sweeps.Go(func() {
		for sweeping.Err() == nil {
			_ = d.Sweep(sweeping, now) // moves the log into the file
		}
	})
	within(t, off, "nothing more is written")
	end()
	must(t, d.Close())
	sweeps.Wait()
	wait()
	lay(t, next, left)
	return outcomes
}

// TestFsyncFails lets one fsync fail, of the log or of the file. No decision is
// told as taken from then on, nothing is synced again, and what was told before
// is there when the store is opened anew.
func TestFsyncFails(t *testing.T) {
	fails := 12
	if testing.Short() {
		fails = 4
	}
	for n := range fails {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "relay")
			path := filepath.Join(dir, "relay.db")
			var armed, broken atomic.Bool
			var until, retried atomic.Int64
			until.Store(int64(1 + 5*n))
			stop := faultdisk.Watch(dir, func(op faultdisk.Op) int32 {
				if op.Kind != faultdisk.Sync {
					return faultdisk.OK
				}
				if broken.Load() {
					retried.Add(1)
				}
				if armed.Load() && until.Add(-1) == 0 {
					return faultdisk.FsyncFailed
				}
				return faultdisk.OK
			})
			defer stop()
			d := openFlaky(t, path)
			books := newBooks(t, d, uint64(n))
			armed.Store(true)
			wait := together(d, books)
			for until.Load() > 0 {
				_ = d.Sweep(ctx, now)
			}
			within(t, d.Broken(), "the store does not say that it is broken")
			for _, err := range wait() {
				wantFailed(t, err)
			}
			// A commit that was under way beside a failed checkpoint has ended by
			// now, and nobody was told that it went well.
			broken.Store(true)
			wantFailed(t, d.Check(ctx))
			wantFailed(t, d.Err())
			wantFailed(t, d.Spend(ctx, caller(books[0].id, books[0].alice)))
			if err := d.Sweep(ctx, now); err == nil {
				t.Error("a sweep of a broken store succeeds")
			}
			_ = d.Close()
			if n := retried.Load(); n > 0 {
				t.Errorf("%d syncs after the failed one", n)
			}
			broken.Store(false)
			d = open(t, path)
			for _, b := range books {
				b.compare(t, d, b.outcomes())
			}
			must(t, d.Check(ctx))
		})
	}
}

// within waits for what has to come.
func within(t *testing.T, c <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatal(otherwise)
	}
}

func wantFailed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, fault.StorageFailed) {
		t.Errorf("got %v, want %s", err, fault.StorageFailed)
	}
}

// TestWritesFail fills the disk up, makes it read-only or lets it refuse
// writes. Every decision meanwhile is refused clearly and none is half taken. A
// full disk that has room again is used again without opening the store anew.
func TestWritesFail(t *testing.T) {
	for name, c := range map[string]struct {
		code     int32
		recovers bool
	}{
		"full":      {faultdisk.Full, true},
		"read-only": {faultdisk.ReadOnly, true},
		"broken":    {faultdisk.WriteFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "relay")
			path := filepath.Join(dir, "relay.db")
			var code atomic.Int32
			stop := faultdisk.Watch(dir, func(op faultdisk.Op) int32 {
				if op.Kind == faultdisk.Write {
					return code.Load()
				}
				return faultdisk.OK
			})
			defer stop()
			d := openFlaky(t, path)
			alice := registered(t, d, "alice")
			want := []string{"before"}
			enqueue(t, d, packet("alice", "bob", "before"))

			code.Store(c.code)
			for i := range 3 {
				_, err := d.Enqueue(ctx, packet("alice", "bob", fmt.Sprint("refused ", i)), room)
				wantFailed(t, err)
			}
			wantFailed(t, d.Ack(ctx, caller("alice", alice), "1-1"))
			code.Store(faultdisk.OK)
			if c.recovers {
				enqueue(t, d, packet("alice", "bob", "after"))
				want = append(want, "after")
				must(t, d.Check(ctx))
				sameTexts(t, d, want)
			}
			_ = d.Close()
			d = open(t, path)
			sameTexts(t, d, want)
			enqueue(t, d, packet("alice", "bob", "later"))
		})
	}
}

func sameTexts(t *testing.T, d *relaydb.DB, want []string) {
	t.Helper()
	texts := map[string]bool{}
	for _, e := range queue(t, d, "alice") {
		texts[string(e.Packet)] = true
	}
	if got := slices.Sorted(maps.Keys(texts)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the queue has %q, want %q", got, want)
	}
}
