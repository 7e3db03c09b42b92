package relaydb_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/internal/faultdisk"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

func wantFull(t *testing.T, err error) {
	t.Helper()
	wantFailed(t, err)
	if !errors.Is(err, relaydb.DiskFull) {
		t.Errorf("got %v, want one that says that the disk is full", err)
	}
}

// TestNoRoomForPackets lets the disk have no room in each of the places where a
// packet is written, or fail there. The packet is refused, and is not there
// later either; with room again all goes on, without opening the store anew.
func TestNoRoomForPackets(t *testing.T) {
	const segment = 8192
	for name, c := range map[string]struct {
		fails func(faultdisk.Op) bool
		code  int32
		want  func(*testing.T, error)
	}{
		"packet log": {func(op faultdisk.Op) bool { return strings.HasSuffix(op.Path, ".log") && op.Offset > 0 }, faultdisk.Full, wantFull},
		"segment":    {func(op faultdisk.Op) bool { return strings.HasSuffix(op.Path, ".log") && op.Offset == 0 }, faultdisk.Full, wantFull},
		"database":   {func(op faultdisk.Op) bool { return strings.HasSuffix(op.Path, "-wal") }, faultdisk.Full, wantFull},
		"broken log": {func(op faultdisk.Op) bool { return strings.HasSuffix(op.Path, ".log") && op.Offset > 0 }, faultdisk.WriteFailed, wantFailed},
	} {
		t.Run(name, func(t *testing.T) {
			dir := dataDir(t)
			path := filepath.Join(dir, "relay.db")
			var full atomic.Bool
			defer faultdisk.Watch(dir, func(op faultdisk.Op) int32 {
				if op.Kind == faultdisk.Write && full.Load() && c.fails(op) {
					return c.code
				}
				return faultdisk.OK
			})()
			o := relaydb.Options{Before: func(change packetlog.Change) error {
				op := faultdisk.Op{Kind: faultdisk.Kind(change.Kind), Path: change.Path, Offset: change.Offset}
				if change.Kind != packetlog.Write || !full.Load() || !c.fails(op) {
					return nil
				}
				if c.code == faultdisk.Full {
					return syscall.ENOSPC
				}
				return syscall.EIO
			}}
			d, err := relaydb.OpenWith(ctx, path, now, o.WithSegments(segment))
			must(t, err)
			t.Cleanup(func() { d.Close() })
			registered(t, d, "alice")
			want := []string{sized(0, 5000), sized(1, 5000)}
			for _, text := range want {
				enqueue(t, d, packet("alice", "bob", text))
			}
			if name == "packet log" || name == "broken log" { // the segment is begun already
				want = append(want, "begins a segment")
				enqueue(t, d, packet("alice", "bob", "begins a segment"))
			}
			before := total(t, d.LogFiles())
			full.Store(true)
			for n := range 3 {
				_, err := d.Enqueue(ctx, packet("alice", "bob", sized(10+n, 3000)), room)
				c.want(t, err)
			}
			wantTexts(t, d, want...)
			full.Store(false)
			if now := total(t, d.LogFiles()); now > before+100 {
				t.Errorf("the log has %d bytes, had %d", now, before)
			}
			if inFiles(t, dir, sized(11, 3000)) && name != "database" {
				t.Error("what was refused is in a file")
			}
			for n := range 4 {
				want = append(want, sized(20+n, 4000))
				enqueue(t, d, packet("alice", "bob", want[len(want)-1]))
			}
			must(t, d.Check(ctx))
			wantTexts(t, d, want...)
			sound(t, d)
			must(t, d.Close())
			d = openSegmented(t, path, segment)
			wantTexts(t, d, want...)
			sound(t, d)
		})
	}
}

// TestRefusedIsNotThereAfterACrash ends the relay right after a packet was
// refused because the database had no room.
func TestRefusedIsNotThereAfterACrash(t *testing.T) {
	dir := dataDir(t)
	path := filepath.Join(dir, "relay.db")
	var full atomic.Bool
	defer faultdisk.Watch(dir, func(op faultdisk.Op) int32 {
		if op.Kind == faultdisk.Write && full.Load() && strings.HasSuffix(op.Path, "-wal") {
			return faultdisk.Full
		}
		return faultdisk.OK
	})()
	d := open(t, path)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "first"))
	full.Store(true)
	_, err := d.Enqueue(ctx, packet("alice", "bob", "refused"), room)
	wantFull(t, err)
	crashed := copyLive(t, dir)
	full.Store(false)
	enqueue(t, d, packet("alice", "bob", "second"))
	d = open(t, filepath.Join(crashed, "relay.db"))
	wantTexts(t, d, "first")
	enqueue(t, d, packet("alice", "bob", "third"))
	wantTexts(t, d, "first", "third")
	sound(t, d)
}

// TestNewSegmentThatIsNotSynced breaks the store: what the disk has of a file
// that it failed to take is unknown.
func TestNewSegmentThatIsNotSynced(t *testing.T) {
	path := filepath.Join(dataDir(t), "relay.db")
	d, tap := openTapped(t, path, 4096)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", sized(0, 5000)))
	known := d.LogFiles()
	tap.set(func(c packetlog.Change) error {
		if c.Kind == packetlog.Sync && c.Path != known[0] {
			return syscall.EIO
		}
		return nil
	})
	_, err := d.Enqueue(ctx, packet("alice", "bob", "refused"), room)
	wantFailed(t, err)
	within(t, d.Broken(), "the store is not broken")
	tap.clear()
	wantFailed(t, d.Check(ctx))
	_, err = d.Enqueue(ctx, packet("alice", "bob", "refused too"), room)
	wantFailed(t, err)
	_ = d.Close()
	d = openSegmented(t, path, 4096)
	wantTexts(t, d, sized(0, 5000))
	enqueue(t, d, packet("alice", "bob", "later"))
	wantTexts(t, d, sized(0, 5000), "later")
	sound(t, d)
}

// TestNoRoomToErase has no room for zeros, as on a file system that never
// writes in place: the store goes on, and erases when there is room.
func TestNoRoomToErase(t *testing.T) {
	dir := dataDir(t)
	d, tap := openTapped(t, filepath.Join(dir, "relay.db"), 0)
	alice := registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", sized(0, 5000)))
	tap.set(func(c packetlog.Change) error {
		if c.Kind == packetlog.Write {
			return syscall.ENOSPC
		}
		return nil
	})
	must(t, d.Ack(ctx, caller("alice", alice), "1-1"))
	wantFailed(t, d.Sweep(ctx, now))
	must(t, d.Check(ctx))
	tap.clear()
	enqueue(t, d, packet("alice", "bob", "later"))
	must(t, d.Sweep(ctx, now))
	if inFiles(t, dir, sized(0, 40)) {
		t.Error("its bytes are in a file")
	}
	wantTexts(t, d, "later")
}
