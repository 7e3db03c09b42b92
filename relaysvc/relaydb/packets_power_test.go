package relaydb_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/internal/faultdisk"
)

// durable returns the files as they are sure to be after a power cut.
func (d *disk) durable() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := map[string][]byte{}
	for path, f := range d.files {
		left[path] = slices.Clone(f.synced)
	}
	return left
}

// eraseWatch notes what reaches the disk, lets one sync of the packet log wait,
// and keeps what the disk holds once a packet was overwritten.
type eraseWatch struct {
	disk *disk

	mu       sync.Mutex
	held     chan struct{} // closed when a sync waits; nil for none to wait
	released chan struct{}
	zeros    bool
	left     map[string][]byte
}

func (w *eraseWatch) hold(t *testing.T) (held chan struct{}, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held, w.released = make(chan struct{}), make(chan struct{})
	return w.held, once(t, w.released)
}

func (w *eraseWatch) hook(op faultdisk.Op) int32 {
	log := strings.HasSuffix(op.Path, ".log")
	w.mu.Lock()
	if op.Kind == faultdisk.Sync && log && w.held != nil {
		close(w.held)
		w.held = nil
		released := w.released
		w.mu.Unlock()
		<-released
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	w.disk.note(op)
	switch {
	case op.Kind == faultdisk.Write && log && len(bytes.Trim(op.Data, "\x00")) == 0:
		w.zeros = true
	case op.Kind == faultdisk.Sync && log && w.zeros && w.left == nil:
		w.left = w.disk.durable()
	}
	return faultdisk.OK
}

// TestErasedIsDeletedOnTheDisk cuts the power when a deleted packet was
// overwritten. Its deletion has reached the disk before, and so has the place up
// to which the log need not be replayed: else replaying would stop at it, and
// take the packets behind it away that were answered.
func TestErasedIsDeletedOnTheDisk(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := open(t, path)
	alice := registered(t, d, "alice")
	registered(t, d, "carol")
	enqueue(t, d, packet("carol", "bob", "first"))
	must(t, d.Close())

	watch := &eraseWatch{disk: newDisk(t, dir, nil)}
	defer faultdisk.Watch(dir, watch.hook)()
	d = openFlakyAhead(t, path, 4)
	answers := make(chan answer, 2)
	send := func(to, text string) {
		queued, err := d.Enqueue(ctx, packet(to, "bob", text), room)
		answers <- answer{text, queued, err}
	}
	held, release := watch.hold(t)
	go send("alice", "deleted")
	within(t, held, "the packet log is not synced")
	must(t, d.Ack(ctx, caller("alice", alice), "1-100000"))
	release()
	must(t, (<-answers).err)
	enqueue(t, d, packet("carol", "bob", "answered"))
	held, release = watch.hold(t)
	go send("carol", "under way")
	within(t, held, "the packet log is not synced")
	must(t, d.Sweep(ctx, now))
	release()
	must(t, (<-answers).err)
	must(t, d.Close())
	if watch.left == nil {
		t.Fatal("nothing was overwritten")
	}

	after := filepath.Join(t.TempDir(), "after")
	lay(t, after, watch.left)
	d = open(t, filepath.Join(after, "relay.db"))
	if got := queue(t, d, "carol"); len(got) < 2 || string(got[1].Packet) != "answered" {
		t.Fatalf("a packet that was answered is lost: %v", got)
	}
	if got := queue(t, d, "alice"); len(got) > 0 {
		t.Fatalf("a packet that was acknowledged is back: %v", got)
	}
	sound(t, d)
}
