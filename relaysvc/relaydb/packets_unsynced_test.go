package relaydb_test

import (
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// answer is what an Enqueue has returned.
type answer struct {
	text   string
	queued bool
	err    error
}

// sendLater queues packets, each on its own, once the one before it waits for
// the disk.
func sendLater(t *testing.T, d *relaydb.DB, answers chan answer, packets ...relaydb.Packet) {
	t.Helper()
	for _, p := range packets {
		before := d.HandedOver()
		go func() {
			queued, err := d.Enqueue(ctx, p, room)
			answers <- answer{string(p.Raw), queued, err}
		}()
		until(t, "the packet is not decided", func() bool {
			wantSilence(t, answers)
			return d.HandedOver() > before
		})
	}
}

func wantSilence(t *testing.T, answers chan answer) {
	t.Helper()
	select {
	case a := <-answers:
		t.Fatalf("answered before the disk was: %+v", a)
	default:
	}
}

// TestUnsyncedIsNotSeen has packets wait for the disk. Nobody is answered for
// them, nor for a duplicate of one, and no reader sees them; decisions go on.
func TestUnsyncedIsNotSeen(t *testing.T) {
	d, tap := openTapped(t, filepath.Join(dataDir(t), "relay.db"), 0)
	alice := registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "first"))
	enqueue(t, d, packet("alice", "bob", "second"))

	held, release := tap.holdSync(t)
	answers := make(chan answer, 9)
	third := packet("alice", "bob", "third")
	go func() {
		queued, err := d.Enqueue(ctx, third, room)
		answers <- answer{"third", queued, err}
	}()
	within(t, held, "the packet log is not synced")
	sendLater(t, d, answers, third, packet("alice", "bob", "fourth"))

	wantTexts(t, d, "first", "second")
	wantNewest(t, d, alice, "1-2")
	wantQueued(t, d, third, false)
	must(t, d.Spend(ctx, caller("alice", alice)))
	must(t, d.Ack(ctx, caller("alice", alice), "1-1"))
	wantTexts(t, d, "second")
	wantSilence(t, answers)

	release()
	fresh := 0
	for range 3 {
		a := <-answers
		must(t, a.err)
		if a.queued {
			fresh++
		}
	}
	if fresh != 2 {
		t.Fatalf("%d packets were queued, want two and a duplicate", fresh)
	}
	wantTexts(t, d, "second", "third", "fourth")
	wantNewest(t, d, alice, "1-4")
	wantQueued(t, d, third, true)
	sound(t, d)
}

func wantNewest(t *testing.T, d *relaydb.DB, i relaydb.Identity, want string) {
	t.Helper()
	if got, err := d.Newest(ctx, "alice", i.Incarnation); err != nil || got != want {
		t.Fatalf("the newest is %s (%v), want %s", got, err, want)
	}
}

func wantQueued(t *testing.T, d *relaydb.DB, p relaydb.Packet, want bool) {
	t.Helper()
	if r, err := d.Recipient(ctx, p); err != nil || r.Queued != want {
		t.Fatalf("queued %v (%v), want %v", r.Queued, err, want)
	}
}

// TestUnsyncedIsDeleted acknowledges beyond what was given while a packet waits
// for the disk: its sender is answered, and it is gone.
func TestUnsyncedIsDeleted(t *testing.T) {
	path := filepath.Join(dataDir(t), "relay.db")
	d, tap := openTapped(t, path, 0)
	alice := registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "before"))
	held, release := tap.holdSync(t)
	answers := make(chan answer, 1)
	go func() {
		queued, err := d.Enqueue(ctx, packet("alice", "bob", "first"), room)
		answers <- answer{"first", queued, err}
	}()
	within(t, held, "the packet log is not synced")
	must(t, d.Ack(ctx, caller("alice", alice), "1-100000"))
	release()
	if a := <-answers; a.err != nil || !a.queued {
		t.Fatalf("%+v", a)
	}
	wantTexts(t, d)
	enqueue(t, d, packet("alice", "bob", "second"))
	must(t, d.Sweep(ctx, now))
	must(t, d.Close())
	d = open(t, path)
	wantTexts(t, d, "second")
	wantNewest(t, d, alice, "1-3")
	sound(t, d)
}

// TestUnsyncedIsNotMoved has a segment become sparse whose packets wait for the
// disk: one that moved would be seen before those that came before it.
func TestUnsyncedIsNotMoved(t *testing.T) {
	d, tap := openTapped(t, filepath.Join(dataDir(t), "relay.db"), 4096)
	registered(t, d, "alice")
	carol := registered(t, d, "carol")
	enqueue(t, d, packet("alice", "bob", "first"))
	held, release := tap.holdSync(t)
	answers := make(chan answer, 9)
	go func() {
		queued, err := d.Enqueue(ctx, packet("carol", "bob", sized(1, 3500)), room)
		answers <- answer{"carol's", queued, err}
	}()
	within(t, held, "the packet log is not synced")
	sendLater(t, d, answers, packet("alice", "bob", sized(2, 600)), packet("carol", "bob", "begins a segment"))
	if n := len(d.LogFiles()); n != 2 {
		t.Fatalf("%d segments", n)
	}
	must(t, d.Ack(ctx, caller("carol", carol), "1-100000"))
	d.MoveOne()
	wantTexts(t, d, "first")
	wantSilence(t, answers)
	release()
	for range 3 {
		must(t, (<-answers).err)
	}
	wantTexts(t, d, "first", sized(2, 600))
	d.Tidy()
	if n := len(d.LogFiles()); n != 1 {
		t.Errorf("%d segments are left", n)
	}
	wantTexts(t, d, "first", sized(2, 600))
	sound(t, d)
}
