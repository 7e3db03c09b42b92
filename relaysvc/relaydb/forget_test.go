package relaydb_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestClockJumpsAhead sweeps with a clock that is an hour ahead of what has
// passed: nothing is forgotten. It is forgotten when the time has passed.
func TestClockJumpsAhead(t *testing.T) {
	elapsed := int64(5000) // since some moment
	d, err := relaydb.OpenWith(ctx, filepath.Join(dataDir(t), "relay.db"), now, relaydb.Options{Elapsed: func() int64 { return elapsed }})
	must(t, err)
	t.Cleanup(func() { d.Close() })
	alice := registered(t, d, "alice")
	c := caller("alice", alice)
	must(t, d.Spend(ctx, c))
	enqueue(t, d, packet("alice", "bob", "stays"))

	must(t, d.Sweep(ctx, now+3600))
	refused(t, d.Spend(ctx, c), relaydb.Replayed)
	if n := len(queue(t, d, "alice")); n != 1 {
		t.Fatalf("%d entries after the clock came back", n)
	}
	must(t, d.Sweep(ctx, now-3600))
	elapsed += 602
	must(t, d.Sweep(ctx, now-3600))
	refused(t, d.Spend(ctx, c), relaydb.Replayed)
	must(t, d.Sweep(ctx, now+3600))
	must(t, d.Spend(ctx, c))
	if n := len(queue(t, d, "alice")); n != 0 {
		t.Fatalf("%d entries after their time", n)
	}
}

// TestFullQueueAfterAJump sends to a full queue, and beyond a sender's share,
// with a clock that is ahead of what has passed: nothing makes room that is not
// over.
func TestFullQueueAfterAJump(t *testing.T) {
	for name, room := range map[string]relaydb.Room{
		"entries": {Entries: 1, Bytes: 1 << 20},
		"bytes":   {Entries: 10, Bytes: 8},
		"share":   {Entries: 10, Bytes: 1 << 20, SenderEntries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			elapsed := int64(5000)
			d, err := relaydb.OpenWith(ctx, filepath.Join(dataDir(t), "relay.db"), now, relaydb.Options{Elapsed: func() int64 { return elapsed }})
			must(t, err)
			t.Cleanup(func() { d.Close() })
			registered(t, d, "alice")
			enqueueIn(t, d, packet("alice", "bob", "stays"), room)
			late := packet("alice", "bob", "late")
			late.Now, late.Expires = now+3600, now+7200
			_, err = d.Enqueue(ctx, late, room)
			refused(t, err, relaydb.Full)
			if got := queue(t, d, "alice"); len(got) != 1 || string(got[0].Packet) != "stays" {
				t.Fatalf("after the clock came back: %v", got)
			}
			elapsed += 100
			enqueueIn(t, d, late, room)
		})
	}
}

// TestSweepTakesAllThatExpired sweeps more than one transaction takes, of
// several queues and both kinds, and nothing else.
func TestSweepTakesAllThatExpired(t *testing.T) {
	d := newDB(t)
	room := relaydb.Room{Entries: 1000, Bytes: 1 << 30, Strangers: 1000, PerNetwork: 1000}
	var keep int
	for n := range 3 {
		id := fmt.Sprint("agent ", n)
		i := registered(t, d, id)
		must(t, d.PublishDescriptor(ctx, relaydb.Descriptor{ACEID: id, KELEnd: i.KELEnd, ExpiresAt: now + 1<<30, Raw: []byte("{}")}))
		must(t, d.PublishCard(ctx, relaydb.Card{ACEID: id, KELEnd: i.KELEnd, Open: true, Raw: []byte("{}")}, 0, 0,
			func(relaydb.Bindings) (bool, error) { return false, nil }))
		for k := range 150 {
			p := packet(id, "bob", fmt.Sprint("packet ", k))
			if k%10 == 0 {
				p.Expires = now + 1000
				keep++
			}
			if k%4 == 1 {
				p.KELEnd = ""
			}
			if queued, err := d.Enqueue(ctx, p, room); err != nil || !queued {
				t.Fatalf("queued %v, error %v", queued, err)
			}
		}
	}
	must(t, d.Sweep(ctx, now+100))
	if r := sound(t, d); r.Entries != int64(keep) {
		t.Fatalf("%d entries, want %d", r.Entries, keep)
	}
}

// TestLongQueueIsAcknowledged removes more than one transaction takes, up to
// stream IDs beyond what was given.
func TestLongQueueIsAcknowledged(t *testing.T) {
	for _, through := range []string{"1-299", "1-100000", "2-0", "99999999999999999999-0"} {
		d := newDB(t)
		alice := registered(t, d, "alice")
		for n := range 300 {
			enqueueIn(t, d, packet("alice", "bob", fmt.Sprint("packet ", n)), relaydb.Room{Entries: 1000, Bytes: 1 << 30})
		}
		must(t, d.Ack(ctx, caller("alice", alice), through))
		left := 0
		if through == "1-299" {
			left = 1
		}
		if r := sound(t, d); r.Entries != int64(left) {
			t.Fatalf("%s: %d entries are left", through, r.Entries)
		}
		enqueue(t, d, packet("alice", "bob", "later"))
		if got := queue(t, d, "alice"); got[len(got)-1].StreamID != "1-301" {
			t.Fatalf("%s: then %s", through, got[len(got)-1].StreamID)
		}
		must(t, d.Close())
	}
}

// TestQueuedDuringRemovalStays acknowledges everything, and more than there is,
// while packets are queued between the transactions that this takes.
func TestQueuedDuringRemovalStays(t *testing.T) {
	room := relaydb.Room{Entries: 10_000, Bytes: 1 << 30}
	var d *relaydb.DB
	var acking atomic.Bool
	var later sync.WaitGroup
	var queued atomic.Int64
	d, err := relaydb.OpenWith(ctx, filepath.Join(dataDir(t), "relay.db"), now, relaydb.Options{Observe: func(relaydb.Commit) {
		if !acking.Load() {
			return
		}
		n := queued.Add(1)
		later.Go(func() {
			if q, err := d.Enqueue(ctx, packet("alice", "bob", fmt.Sprint("later ", n)), room); err != nil || !q {
				t.Errorf("queued %v, error %v", q, err)
			}
		})
	}})
	must(t, err)
	t.Cleanup(func() { d.Close() })
	alice := registered(t, d, "alice")
	for n := range 1000 {
		enqueueIn(t, d, packet("alice", "bob", fmt.Sprint("packet ", n)), room)
	}
	acking.Store(true)
	must(t, d.Ack(ctx, caller("alice", alice), "99-0"))
	acking.Store(false)
	later.Wait()
	if r := sound(t, d); r.Entries != queued.Load() || r.Entries == 0 {
		t.Fatalf("%d entries, want the %d that came later", r.Entries, queued.Load())
	}
}

func enqueueIn(t *testing.T, d *relaydb.DB, p relaydb.Packet, room relaydb.Room) {
	t.Helper()
	if queued, err := d.Enqueue(ctx, p, room); err != nil || !queued {
		t.Fatalf("queued %v, error %v", queued, err)
	}
}

// TestBytesGoByThemselves waits until what was acknowledged, expired or erased
// with its identity is in none of the files, while the store is in use and
// nobody sweeps.
func TestBytesGoByThemselves(t *testing.T) {
	for name, remove := range map[string]func(*testing.T, *relaydb.DB, relaydb.Identity) error{
		"acknowledged": func(t *testing.T, d *relaydb.DB, i relaydb.Identity) error {
			return d.Ack(ctx, caller("alice", i), "1-1")
		},
		"unregistered": func(t *testing.T, d *relaydb.DB, i relaydb.Identity) error {
			return d.Unregister(ctx, caller("alice", i), i, now+1, now)
		},
		"purged": func(t *testing.T, d *relaydb.DB, i relaydb.Identity) error { return d.Purge(ctx, "alice", now) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			d := open(t, filepath.Join(dir, "relay.db"))
			alice := registered(t, d, "alice")
			registered(t, d, "carol")
			enqueue(t, d, packet("alice", "bob", strings.Repeat("find me ", 3000)))
			must(t, remove(t, d, alice))
			for deadline := time.Now().Add(20 * time.Second); inFiles(t, dir, "find me find me"); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the bytes are still on the disk")
				}
				if err := try(t, d, "carol", "bob", 100, room); err != nil && !errors.Is(err, relaydb.Full) {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestBytesGoWithTheEnd closes a store right after an acknowledgement: a relay
// that is stopped for good leaves nothing of it.
func TestBytesGoWithTheEnd(t *testing.T) {
	dir := dataDir(t)
	d := open(t, filepath.Join(dir, "relay.db"))
	alice := registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", strings.Repeat("find me ", 3000)))
	must(t, d.Ack(ctx, caller("alice", alice), "1-1"))
	must(t, d.Close())
	if inFiles(t, dir, "find me find me") {
		t.Error("the bytes are still on the disk")
	}
}

// TestStats compares what the store says of itself with what was put in.
func TestStats(t *testing.T) {
	path := filepath.Join(dataDir(t), "relay.db")
	d := open(t, path)
	alice := registered(t, d, "alice")
	registered(t, d, "carol")
	registered(t, d, "dave")
	must(t, d.PublishDescriptor(ctx, relaydb.Descriptor{ACEID: "alice", KELEnd: alice.KELEnd, ExpiresAt: now + 1000, Raw: []byte("{}")}))
	must(t, d.PublishCard(ctx, relaydb.Card{ACEID: "alice", KELEnd: alice.KELEnd, Open: true, Raw: []byte("{}")}, 0, 0,
		func(relaydb.Bindings) (bool, error) { return false, nil }))
	must(t, d.Suspend(ctx, "dave", true))
	must(t, d.Purge(ctx, "carol", now))
	p := packet("alice", "bob", "with a permit")
	p.Expires = now - 500 + wire.OfflineWindowSeconds
	enqueue(t, d, p)
	s := packet("alice", "bob", "of a stranger")
	s.KELEnd, s.Expires = "", now-200+wire.ContactRequestTTLSeconds
	enqueue(t, d, s)
	must(t, d.Spend(ctx, caller("alice", alice)))
	want := relaydb.Stats{
		Entries: 2, Bytes: 26, StrangerEntries: 1, OldestAge: 500, Registered: 2, Suspended: 1, Retired: 1, Nonces: 1, NetworkQueued: 26,
	}
	check := func() {
		t.Helper()
		got, err := d.Stats(ctx, now)
		must(t, err)
		if got.FileSize == 0 || got.PacketLogSize == 0 {
			t.Error("the files have no size")
		}
		got.FileSize, got.LogSize, got.PacketLogSize, got.NetworkStored = 0, 0, 0, 0
		if got != want {
			t.Fatalf("got %+v\nwant %+v", got, want)
		}
	}
	check()
	must(t, d.Close())
	if _, err := d.Stats(ctx, now); fault.CodeOf(err) != fault.StorageFailed {
		t.Fatalf("of a closed store: %v", err)
	}
	d = open(t, path)
	check()
}
