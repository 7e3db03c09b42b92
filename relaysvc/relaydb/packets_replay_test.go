package relaydb_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// reopened closes a store, keeps its database as it is then under a name, and
// opens it again.
func reopened(t *testing.T, d *relaydb.DB, path, keep string) *relaydb.DB {
	t.Helper()
	must(t, d.Close())
	content, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(keep, content, 0o600))
	return open(t, path)
}

// TestReplay opens the database of an earlier moment with the log of a later
// one, as a power cut leaves them. What came between is as it was.
func TestReplay(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := open(t, path)
	alice, carol := registered(t, d, "alice"), registered(t, d, "carol")
	listen(t, d, alice, "alice")
	twin := packet("alice", "bob", "twin")
	enqueue(t, d, twin)
	enqueue(t, d, packet("alice", "bob", "before"))
	must(t, d.Spend(ctx, caller("carol", carol)))

	earlier := filepath.Join(dataDir(t), "relay.db")
	d = reopened(t, d, path, earlier)
	for n := range 5 {
		enqueue(t, d, packet("alice", "bob", sized(n, 3000)))
		enqueue(t, d, packet("carol", "bob", sized(n, 100+n)))
	}
	enqueue(t, d, stranger("alice", "eve", "from a stranger"))
	twin.Now, twin.Expires = twin.Expires, twin.Expires+500
	enqueue(t, d, twin)
	want := state(t, d, "alice", "carol")
	must(t, d.Close())

	copyFiles(t, filepath.Dir(earlier), files(t, dir, "packets-*.log")...)
	d = open(t, earlier)
	if got := state(t, d, "alice", "carol"); got != want {
		t.Fatalf("after replaying:\n%.2000s\nwant:\n%.2000s", got, want)
	}
	// The stranger counts as one from that network.
	enqueue(t, d, stranger("alice", "eve", "another"))
	if _, err := d.Enqueue(ctx, stranger("alice", "eve", "too many"), room); err != relaydb.Full {
		t.Fatalf("a third stranger of the network: %v", err)
	}
	want = state(t, d, "alice", "carol")
	must(t, d.Close())
	before := contents(t, filepath.Dir(earlier))
	d = open(t, earlier)
	if got := state(t, d, "alice", "carol"); got != want {
		t.Fatalf("after the second opening:\n%.2000s\nwant:\n%.2000s", got, want)
	}
	must(t, d.Close())
	for name, content := range contents(t, filepath.Dir(earlier)) {
		if !bytes.Equal(content, before[name]) {
			t.Errorf("%s has changed", name)
		}
	}
}

// TestReplayBringsNothingBack opens the database of a moment after an
// acknowledgement, of packets that are in the part of the log which is replayed.
func TestReplayBringsNothingBack(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := open(t, path)
	alice := registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "first"))
	must(t, d.Close())

	d, tap := openTapped(t, path, 0)
	held, release := tap.holdSync(t)
	answers := make(chan answer, 9)
	go func() {
		queued, err := d.Enqueue(ctx, packet("alice", "bob", "second"), room)
		answers <- answer{"second", queued, err}
	}()
	within(t, held, "the packet log is not synced")
	sendLater(t, d, answers, packet("alice", "bob", "third"))
	must(t, d.Ack(ctx, caller("alice", alice), "1-100000"))
	sendLater(t, d, answers, packet("alice", "bob", "fourth"))
	must(t, d.Spend(ctx, caller("alice", alice)))
	crashed := copyLive(t, dir)
	release()
	for range 3 {
		must(t, (<-answers).err)
	}
	later := packet("alice", "bob", "fifth")
	enqueue(t, d, later)
	copyFiles(t, crashed, files(t, dir, "packets-*.log")...)

	d = open(t, filepath.Join(crashed, "relay.db"))
	got := queue(t, d, "alice")
	if len(got) != 2 || got[0].StreamID != "1-4" || string(got[0].Packet) != "fourth" || got[1].StreamID != "1-5" || string(got[1].Packet) != "fifth" {
		t.Fatalf("after replaying: %v", got)
	}
	sound(t, d)
	d.Tidy()
	wantTexts(t, d, "fourth", "fifth")
	if queued, err := d.Enqueue(ctx, later, room); queued || err != nil {
		t.Fatalf("its sender tries again: queued %v, %v", queued, err)
	}
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, name := range files(t, dir, "*") {
		if filepath.Ext(name) == ".lock" {
			continue
		}
		content, err := os.ReadFile(name)
		must(t, err)
		all[filepath.Base(name)] = content
	}
	return all
}

// TestReplayOfManySegments replays more than one segment.
func TestReplayOfManySegments(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := openSegmented(t, path, 4096)
	registered(t, d, "alice")
	must(t, d.Close())
	earlier := dataDir(t)
	copyFiles(t, earlier, path)
	d = openSegmented(t, path, 4096)
	var want []string
	for n := range 20 {
		want = append(want, fmt.Sprint(n, sized(n, 1500)))
		enqueue(t, d, packet("alice", "bob", want[n]))
	}
	if n := len(d.LogFiles()); n < 5 {
		t.Fatalf("%d segments", n)
	}
	must(t, d.Close())
	copyFiles(t, earlier, files(t, dir, "packets-*.log")...)
	for range 2 {
		d = openSegmented(t, filepath.Join(earlier, "relay.db"), 4096)
		wantTexts(t, d, want...)
		sound(t, d)
		must(t, d.Close())
	}
}
