package relaydb_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/relaysvc/packetlog"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// tap stands before the changes of a packet log and lets a test decide what
// becomes of them.
type tap struct {
	hook atomic.Pointer[func(packetlog.Change) error]
}

func (p *tap) set(hook func(packetlog.Change) error) { p.hook.Store(&hook) }
func (p *tap) clear()                                { p.hook.Store(nil) }

func (p *tap) before(c packetlog.Change) error {
	if hook := p.hook.Load(); hook != nil {
		return (*hook)(c)
	}
	return nil
}

// holdSync has the next sync wait until it is released.
func (p *tap) holdSync(t *testing.T) (held <-chan struct{}, release func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	var one atomic.Bool
	p.set(func(c packetlog.Change) error {
		if c.Kind == packetlog.Sync && one.CompareAndSwap(false, true) {
			close(reached)
			<-released
		}
		return nil
	})
	return reached, once(t, released)
}

// once returns what closes a channel, at the latest when the test ends: a store
// closes only when nobody is held up.
func once(t *testing.T, c chan struct{}) func() {
	end := sync.OnceFunc(func() { close(c) })
	t.Cleanup(end)
	return end
}

// openTapped opens a store with segments of a size, 0 for the usual one.
func openTapped(t *testing.T, path string, segment int64) (*relaydb.DB, *tap) {
	t.Helper()
	tap := &tap{}
	d, err := relaydb.OpenWith(ctx, path, now, relaydb.Options{Before: tap.before}.WithSegments(segment).WithGroupsAhead(4))
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d, tap
}

// openSegmented opens a store with segments of a size.
func openSegmented(t *testing.T, path string, segment int64) *relaydb.DB {
	t.Helper()
	d, _ := openTapped(t, path, segment)
	return d
}

// until waits for what has to become so.
func until(t *testing.T, otherwise string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(otherwise)
		}
	}
}

// copyFiles copies files into another folder, under their names.
func copyFiles(t *testing.T, to string, files ...string) {
	t.Helper()
	for _, name := range files {
		content, err := os.ReadFile(name)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(to, filepath.Base(name)), content, 0o600))
	}
}

// files returns the files of a folder that match.
func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	return found
}

// copyLive copies a store in use, at a moment when nobody writes.
func copyLive(t *testing.T, dir string) (to string) {
	t.Helper()
	to = dataDir(t)
	copyFiles(t, to, filepath.Join(dir, "relay.db"), filepath.Join(dir, "relay.db-wal"))
	copyFiles(t, to, files(t, dir, "packets-*.log")...)
	return to
}

// total returns the length of files together.
func total(t *testing.T, files []string) (size int64) {
	t.Helper()
	for _, name := range files {
		info, err := os.Stat(name)
		must(t, err)
		size += info.Size()
	}
	return size
}

// listen publishes what makes an identity open to strangers.
func listen(t *testing.T, d *relaydb.DB, i relaydb.Identity, id string) {
	t.Helper()
	must(t, d.PublishDescriptor(ctx, relaydb.Descriptor{ACEID: id, KELEnd: i.KELEnd, ExpiresAt: now + 1<<30, Raw: []byte("{}")}))
	must(t, d.PublishCard(ctx, relaydb.Card{ACEID: id, KELEnd: i.KELEnd, Open: true, Raw: []byte("{}")}, 0, 0,
		func(relaydb.Bindings) (bool, error) { return false, nil }))
}

// stranger is a packet without a permit.
func stranger(to, from, text string) relaydb.Packet {
	p := packet(to, from, text)
	p.KELEnd = ""
	return p
}

// state is what the owner and the operator see of some queues.
func state(t *testing.T, d *relaydb.DB, ids ...string) string {
	t.Helper()
	var b strings.Builder
	r := sound(t, d)
	fmt.Fprintln(&b, r.Entries, r.Bytes)
	for _, id := range ids {
		a, err := d.Account(ctx, id)
		must(t, err)
		i, err := d.Identity(ctx, id)
		must(t, err)
		newest, err := d.Newest(ctx, id, i.Incarnation)
		must(t, err)
		fmt.Fprintln(&b, id, a.Entries, a.Bytes, a.Strangers, newest)
		for _, e := range queue(t, d, id) {
			fmt.Fprintln(&b, e.StreamID, string(e.Packet))
		}
	}
	return b.String()
}

func wantTexts(t *testing.T, d *relaydb.DB, want ...string) {
	t.Helper()
	if got := textsOf(t, d); !slices.Equal(got, want) {
		t.Fatalf("the queue has %d packets %.60q, want %d %.60q", len(got), got, len(want), want)
	}
}

// sized is a text of a length that occurs once.
func sized(n, length int) string {
	text := fmt.Sprintf("<%d>", n)
	return strings.Repeat(text, length/len(text)+1)[:length]
}
