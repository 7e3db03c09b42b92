package relaydb_test

import (
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// removals are the ways in which the first packet of alice goes, and the time
// by which a sweep is to have removed it.
var removals = map[string]func(*testing.T, *relaydb.DB, relaydb.Identity) (now int64){
	"acknowledged": func(t *testing.T, d *relaydb.DB, i relaydb.Identity) int64 {
		must(t, d.Ack(ctx, caller("alice", i), "1-1"))
		return now
	},
	"expired": func(*testing.T, *relaydb.DB, relaydb.Identity) int64 { return now + 100 },
	"unregistered": func(t *testing.T, d *relaydb.DB, i relaydb.Identity) int64 {
		must(t, d.Unregister(ctx, caller("alice", i), i, now+1, now))
		return now
	},
	"purged": func(t *testing.T, d *relaydb.DB, _ relaydb.Identity) int64 {
		must(t, d.Purge(ctx, "alice", now))
		return now
	},
	"making room": func(t *testing.T, d *relaydb.DB, _ relaydb.Identity) int64 {
		p := packet("alice", "bob", "needs the room")
		p.Now, p.Expires = now+100, now+200
		enqueueIn(t, d, p, relaydb.Room{Entries: 1, Bytes: 1 << 20})
		return now
	},
}

// TestRemovedBytesAreGone removes a packet that is in the log, or has moved out
// of it, in every way. After a sweep its bytes are in none of the files, and
// the packets beside it are whole.
func TestRemovedBytesAreGone(t *testing.T) {
	for name, remove := range removals {
		for where, moved := range map[string]bool{"log": false, "moved": true} {
			t.Run(name+" "+where, func(t *testing.T) {
				dir := dataDir(t)
				path := filepath.Join(dir, "relay.db")
				d := open(t, path)
				alice := registered(t, d, "alice")
				registered(t, d, "carol")
				kept := packet("carol", "bob", sized(2, 5000))
				kept.Expires = now + 1000
				gone := packet("alice", "bob", sized(1, 5000))
				enqueue(t, d, gone)
				enqueue(t, d, kept)
				if moved {
					must(t, d.MoveAll(ctx))
				}
				if !inFiles(t, dir, sized(1, 5000)) || !inFiles(t, dir, string(gone.Digest)) {
					t.Fatal("the packet is in no file: the test looks in the wrong place")
				}
				must(t, d.Sweep(ctx, remove(t, d, alice)))
				if inFiles(t, dir, sized(1, 40)) {
					t.Error("its bytes are in a file")
				}
				if inFiles(t, dir, string(gone.Digest)) {
					t.Error("its digest is in a file")
				}
				if got := queue(t, d, "carol"); len(got) != 1 || string(got[0].Packet) != sized(2, 5000) {
					t.Errorf("the packet beside it: %d entries", len(got))
				}
				sound(t, d)
				must(t, d.Close())
				if inFiles(t, dir, sized(1, 40)) {
					t.Error("its bytes are in a file again")
				}
			})
		}
	}
}

// TestReplacedTwinIsGone queues a packet anew whose twin has expired: there is
// one left in the files.
func TestReplacedTwinIsGone(t *testing.T) {
	dir := dataDir(t)
	d := open(t, filepath.Join(dir, "relay.db"))
	alice := registered(t, d, "alice")
	p := packet("alice", "bob", sized(1, 5000))
	enqueue(t, d, p)
	p.Now, p.Expires = p.Expires, p.Expires+100
	enqueue(t, d, p)
	must(t, d.Sweep(ctx, now))
	wantTexts(t, d, sized(1, 5000))
	must(t, d.Ack(ctx, caller("alice", alice), "1-2"))
	must(t, d.Sweep(ctx, now))
	if inFiles(t, dir, sized(1, 40)) {
		t.Error("its bytes are in a file")
	}
}

// TestErasedAfterACrash ends the relay between an acknowledgement and the
// erasing: the next one erases.
func TestErasedAfterACrash(t *testing.T) {
	dir := dataDir(t)
	d := open(t, filepath.Join(dir, "relay.db"))
	alice := registered(t, d, "alice")
	for n := range 3 {
		enqueue(t, d, packet("alice", "bob", sized(n, 5000)))
	}
	reading, goOn := make(chan struct{}), make(chan struct{})
	resume := once(t, goOn)
	ended := make(chan error, 1)
	go func() { // a reader keeps the eraser waiting
		first := true
		_, err := d.Entries(ctx, relaydb.Span{ACEID: "alice", Incarnation: alice.Incarnation, Entries: 100, Bytes: 1 << 20, Now: now}, func(relaydb.Entry) bool {
			if first {
				first = false
				close(reading)
				<-goOn
			}
			return true
		})
		ended <- err
	}()
	<-reading
	must(t, d.Ack(ctx, caller("alice", alice), "1-2"))
	crashed := copyLive(t, dir)
	resume()
	must(t, <-ended)
	if !inFiles(t, crashed, sized(1, 5000)) {
		t.Fatal("it is erased already: the test is too slow")
	}
	d = open(t, filepath.Join(crashed, "relay.db"))
	d.Tidy()
	must(t, d.Sweep(ctx, now))
	for n := range 2 {
		if inFiles(t, crashed, sized(n, 40)) {
			t.Errorf("packet %d is in a file", n)
		}
	}
	wantTexts(t, d, sized(2, 5000))
	sound(t, d)
}
