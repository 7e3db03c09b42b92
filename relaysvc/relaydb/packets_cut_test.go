package relaydb_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestLogShorterThanTheDatabase cuts the log in a group that the disk had not
// taken, while the database has: its packets were answered to nobody and go, and
// what comes next is read back right, also when what the database wanted erased
// of the lost part is.
func TestLogShorterThanTheDatabase(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := open(t, path)
	alice := registered(t, d, "alice")
	carol := registered(t, d, "carol")
	enqueue(t, d, packet("alice", "bob", "first"))
	must(t, d.Close())

	d, tap := openTapped(t, path, 0)
	defer d.Close()
	held, release := tap.holdSync(t)
	answers := make(chan answer, 9)
	go func() {
		queued, err := d.Enqueue(ctx, packet("alice", "bob", sized(2, 3000)), room)
		answers <- answer{"second", queued, err}
	}()
	within(t, held, "the packet log is not synced")
	sendLater(t, d, answers, packet("carol", "bob", sized(3, 3000)), packet("alice", "bob", sized(4, 3000)))
	must(t, d.Ack(ctx, caller("carol", carol), "1-1"))
	must(t, d.Spend(ctx, caller("alice", alice)))
	crashed := copyLive(t, dir)
	release()

	log := files(t, crashed, "packets-*.log")[0]
	content, err := os.ReadFile(log)
	must(t, err)
	must(t, os.Truncate(log, int64(find(t, content, sized(2, 3000)))+1000))
	path = filepath.Join(crashed, "relay.db")
	d2 := open(t, path)
	wantTexts(t, d2, "first")
	if r := sound(t, d2); r.Entries != 1 || r.Bytes != 5 {
		t.Fatalf("%+v", r)
	}
	var want []string
	for n := range 6 {
		want = append(want, sized(10+n, 2000))
		enqueue(t, d2, packet("alice", "bob", want[n]))
	}
	d2.Tidy()
	for range 2 {
		if got := queue(t, d2, "alice"); len(got) != 7 || got[1].StreamID != "1-4" {
			t.Fatalf("%d entries, the second is %s: stream IDs go on", len(got), got[1].StreamID)
		}
		wantTexts(t, d2, slices.Concat([]string{"first"}, want)...)
		sound(t, d2)
		must(t, d2.Close())
		d2 = open(t, path)
	}
}

// TestLogShorterThanItWas cuts off what had reached the disk. What is lost is
// put aside when it is read, and what comes later is not taken for it: neither
// is served in its place, nor removed with it.
func TestLogShorterThanItWas(t *testing.T) {
	path := filepath.Join(dataDir(t), "relay.db")
	const segment = 8192
	d := openSegmented(t, path, segment)
	alice := registered(t, d, "alice")
	for n := range 3 {
		enqueue(t, d, packet("alice", "bob", sized(n, 2000)))
	}
	log := d.LogFiles()[0]
	must(t, d.Close())
	content, err := os.ReadFile(log)
	must(t, err)
	must(t, os.Truncate(log, int64(find(t, content, sized(1, 2000)))+500))

	d = openSegmented(t, path, segment)
	enqueue(t, d, packet("alice", "bob", sized(3, 2000)))
	must(t, d.Ack(ctx, caller("alice", alice), "1-3"))
	for n := range 6 {
		enqueue(t, d, packet("alice", "bob", sized(4+n, 2000)))
	}
	d.Tidy()
	var want []string
	for n := range 7 {
		want = append(want, sized(3+n, 2000))
	}
	wantTexts(t, d, want...)
	sound(t, d)
	must(t, d.Close())
	d = openSegmented(t, path, segment)
	wantTexts(t, d, want...)
}

// TestMissingLog takes the files of the log away: nothing is served in place of
// what was acknowledged to its senders, and nothing changes until they are back.
func TestMissingLog(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := openSegmented(t, path, 4096)
	registered(t, d, "alice")
	for n := range 4 {
		enqueue(t, d, packet("alice", "bob", sized(n, 3000)))
	}
	must(t, d.Close())
	away := dataDir(t)
	logs := files(t, dir, "packets-*.log")
	copyFiles(t, away, logs...)
	for _, name := range logs {
		must(t, os.Remove(name))
	}
	before := contents(t, dir)
	_, err := relaydb.Open(ctx, path, now)
	if fault.CodeOf(err) != fault.StorageFailed || !strings.Contains(err.Error(), filepath.Base(logs[0])[:len("packets-00000000-")]) {
		t.Fatalf("opened without its packet log: %v", err)
	}
	if after := contents(t, dir); len(after) != len(before) || string(after["relay.db"]) != string(before["relay.db"]) {
		t.Fatal("the store has changed")
	}
	copyFiles(t, dir, files(t, away, "*")...)
	d = open(t, path)
	wantTexts(t, d, sized(0, 3000), sized(1, 3000), sized(2, 3000), sized(3, 3000))
	sound(t, d)
}

// TestMissingSegment takes one file of several away: its packets are put aside,
// the others are served, and what comes later goes where it should.
func TestMissingSegment(t *testing.T) {
	for name, missing := range map[string]int{"first": 0, "middle": 1, "last": 3} {
		t.Run(name, func(t *testing.T) {
			dir := dataDir(t)
			path := filepath.Join(dir, "relay.db")
			d := openSegmented(t, path, 4096)
			registered(t, d, "alice")
			for n := range 8 {
				enqueue(t, d, packet("alice", "bob", sized(n, 2500)))
			}
			logs := d.LogFiles()
			if len(logs) != 4 {
				t.Fatalf("%d segments", len(logs))
			}
			must(t, d.Close())
			must(t, os.Remove(logs[missing]))

			d = openSegmented(t, path, 4096)
			for n := range 4 {
				enqueue(t, d, packet("alice", "bob", sized(8+n, 2500)))
			}
			var want []string
			for n := range 12 {
				if n/2 != missing {
					want = append(want, sized(n, 2500))
				}
			}
			wantTexts(t, d, want...)
			s, err := d.Stats(ctx, now)
			must(t, err)
			if s.Damaged != 2 || s.Quarantined != 2 {
				t.Fatalf("%+v", s)
			}
			d.Tidy()
			must(t, d.Close())
			d = openSegmented(t, path, 4096)
			wantTexts(t, d, want...)
			sound(t, d)
		})
	}
}

// TestMissingSegmentBeforeOthers takes the file away from which on the log has
// to be replayed, after a crash. What follows was answered and must not go with
// it: nothing is opened until the file is back.
func TestMissingSegmentBeforeOthers(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	d := openSegmented(t, path, 4096)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", sized(0, 2000)))
	must(t, d.Close())
	crashed := dataDir(t)
	copyFiles(t, crashed, path)
	d = openSegmented(t, path, 4096)
	var want []string
	for n := range 8 {
		want = append(want, sized(n, 2000))
		if n > 0 {
			enqueue(t, d, packet("alice", "bob", want[n]))
		}
	}
	must(t, d.Close())
	logs := files(t, dir, "packets-*.log")
	copyFiles(t, crashed, logs[1:]...)
	before := contents(t, crashed)
	if _, err := relaydb.Open(ctx, filepath.Join(crashed, "relay.db"), now); fault.CodeOf(err) != fault.StorageFailed {
		t.Errorf("opened without a part of its packet log: %v", err)
	}
	for name := range before {
		if _, err := os.Stat(filepath.Join(crashed, name)); err != nil {
			t.Errorf("%s is gone", name)
		}
	}
	copyFiles(t, crashed, logs[0])
	d = openSegmented(t, filepath.Join(crashed, "relay.db"), 4096)
	wantTexts(t, d, want...)
	sound(t, d)
}
