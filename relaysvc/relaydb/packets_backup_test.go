package relaydb_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/internal/faultdisk"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestBackupOfPackets backs a store up whose packets are in the log, moved out
// of it, or both, and restores it elsewhere: the backup alone holds them all.
func TestBackupOfPackets(t *testing.T) {
	for name, moved := range map[string]int{"log": 0, "both": 2, "moved": 4} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dataDir(t), "relay.db")
			d := open(t, path)
			alice := registered(t, d, "alice")
			listen(t, d, alice, "alice")
			var want []string
			for n := range 4 {
				if n == moved {
					must(t, d.MoveAll(ctx))
				}
				want = append(want, sized(n, 3000))
				enqueue(t, d, packet("alice", "bob", want[n]))
			}
			if moved == 4 {
				must(t, d.MoveAll(ctx))
			}
			enqueue(t, d, stranger("alice", "eve", "a stranger's"))
			want = append(want, "a stranger's")
			copied := filepath.Join(dataDir(t), "copy.db")
			b, err := d.Backup(ctx, copied, now)
			must(t, err)
			if !b.Restorable() || b.Entries != 5 {
				t.Fatalf("%+v", b)
			}
			wantTexts(t, d, want...)
			must(t, d.Close())

			elsewhere := filepath.Join(t.TempDir(), "other", "relay.db")
			_, err = relaydb.Restore(ctx, copied, elsewhere, false, now+9)
			must(t, err)
			d = open(t, elsewhere)
			wantTexts(t, d, want...)
			enqueue(t, d, packet("alice", "bob", "later"))
			wantTexts(t, d, append(want, "later")...)
			must(t, d.Ack(ctx, caller("alice", alice), "1-5"))
			d.Tidy()
			wantTexts(t, d, "later")
			sound(t, d)
		})
	}
}

// TestBackupOfADamagedLog says that it is the copy of a damaged store, and
// holds the other packets.
func TestBackupOfADamagedLog(t *testing.T) {
	d, _ := damagedLog(t, func(file []byte) { file[find(t, file, "packet 1 packet 1")] ^= 1 })
	copied := filepath.Join(dataDir(t), "copy.db")
	b, err := d.Backup(ctx, copied, now)
	must(t, err)
	if b.Restorable() || len(b.Problems) != 1 || b.Entries != 5 {
		t.Fatalf("%+v", b)
	}
	served(t, d, 0, 2, 3, 4)
	// Put aside, it is damaged no more.
	b, err = d.Backup(ctx, copied+"2", now)
	must(t, err)
	if !b.Restorable() || b.Entries != 4 || b.Quarantined != 1 {
		t.Fatalf("%+v", b)
	}
}

// TestBackupUnderLoad backs a store up again and again while packets come, go
// and are moved. Each copy is whole, and is one moment of the queue.
func TestBackupUnderLoad(t *testing.T) {
	dir := dataDir(t)
	d := openSegmented(t, filepath.Join(dir, "relay.db"), 16<<10)
	alice := registered(t, d, "alice")
	done := make(chan struct{})
	end := once(t, done)
	var tasks sync.WaitGroup
	var sent, first atomic.Int64
	first.Store(1)
	tasks.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			if queued, err := d.Enqueue(ctx, packet("alice", "bob", sized(n, 1500)), room); err != nil || !queued {
				t.Errorf("queued %v, error %v", queued, err)
				return
			}
			sent.Store(int64(n))
			if n%10 != 0 {
				continue
			}
			if err := d.Ack(ctx, caller("alice", alice), fmt.Sprint("1-", n-5)); err != nil {
				t.Error(err)
				return
			}
			first.Store(int64(n - 4))
		}
	})
	for n := range 6 {
		least, after := first.Load(), sent.Load()
		until(t, "nothing is sent", func() bool { return sent.Load() > after+20 || t.Failed() })
		after = sent.Load()
		copied := filepath.Join(dataDir(t), "copy.db")
		b, err := d.Backup(ctx, copied, now)
		must(t, err)
		if !b.Restorable() {
			t.Fatalf("problems %q", b.Problems)
		}
		elsewhere := filepath.Join(t.TempDir(), "other", "relay.db")
		_, err = relaydb.Restore(ctx, copied, elsewhere, false, now+int64(n))
		must(t, err)
		r := open(t, elsewhere)
		got := queue(t, r, "alice")
		for i, e := range got {
			var generation, seq int
			fmt.Sscanf(e.StreamID, "%d-%d", &generation, &seq)
			if string(e.Packet) != sized(seq, 1500) {
				t.Fatalf("%s is another packet", e.StreamID)
			}
			if i == 0 && int64(seq) < least {
				t.Fatalf("%s had been acknowledged before", e.StreamID)
			}
			if i == len(got)-1 && int64(seq) < after {
				t.Fatalf("it ends with %s, 1-%d had been answered before", e.StreamID, after)
			}
		}
		must(t, r.Close())
	}
	end()
	tasks.Wait()
	sound(t, d)
}

// TestBackupKeepsWhatItCopies acknowledges packets while a copy of them is being
// made: their bytes stay until it is.
func TestBackupKeepsWhatItCopies(t *testing.T) {
	dir := dataDir(t)
	d := open(t, filepath.Join(dir, "relay.db"))
	alice := registered(t, d, "alice")
	for n := range 5 {
		enqueue(t, d, packet("alice", "bob", long(n)))
	}
	away := dataDir(t)
	var begin sync.Once
	defer faultdisk.Watch(away, func(faultdisk.Op) int32 {
		begin.Do(func() {
			turn := d.Turn()
			if err := d.Ack(ctx, caller("alice", alice), "1-4"); err != nil {
				t.Error(err)
			}
			for d.Turn() == turn {
				time.Sleep(time.Millisecond)
			}
			// The eraser has come. One that waited for nobody would be done soon.
			for tries := 0; tries < 100 && inFiles(t, dir, long(1)); tries++ {
				time.Sleep(5 * time.Millisecond)
			}
		})
		return faultdisk.OK
	})()
	b, err := d.Backup(ctx, filepath.Join(away, "copy.db"), now)
	must(t, err)
	if !b.Restorable() || b.Entries != 5 {
		t.Fatalf("%d entries, problems %q", b.Entries, b.Problems)
	}
	must(t, d.Sweep(ctx, now))
	if inFiles(t, dir, "packet 1 packet 1") {
		t.Error("an acknowledged packet is still in a file")
	}
}

// TestReplacedStoreKeepsItsLog restores a backup over a store. Each of the two
// goes on with a packet log of its own.
func TestReplacedStoreKeepsItsLog(t *testing.T) {
	dir := dataDir(t)
	path, copied := filepath.Join(dir, "relay.db"), filepath.Join(dir, "copy.db")
	d := open(t, path)
	alice := registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "in both"))
	_, err := d.Backup(ctx, copied, now)
	must(t, err)
	enqueue(t, d, packet("alice", "bob", "in the old one"))
	must(t, d.Close())
	old := files(t, dir, "packets-*.log")

	r, err := relaydb.Restore(ctx, copied, path, true, now+9)
	must(t, err)
	d = open(t, path)
	wantTexts(t, d, "in both")
	enqueue(t, d, packet("alice", "bob", "in the new one"))
	for _, name := range d.LogFiles() {
		if slices.Contains(old, name) {
			t.Errorf("%s is used by both stores", name)
		}
	}
	must(t, d.Ack(ctx, caller("alice", alice), "1-1"))
	d.Tidy()
	must(t, d.Close())

	// The backup itself, opened where it is, is a third.
	d = open(t, copied)
	enqueue(t, d, packet("alice", "bob", "in the backup"))
	for _, name := range d.LogFiles() {
		if slices.Contains(old, name) {
			t.Errorf("%s is used by the backup", name)
		}
	}
	must(t, d.Close())

	d = open(t, r.Replaced)
	wantTexts(t, d, "in both", "in the old one")
	enqueue(t, d, packet("alice", "bob", "later in the old one"))
	sound(t, d)
	must(t, d.Close())
	d = open(t, path)
	wantTexts(t, d, "in the new one")
	if n := len(files(t, dir, "packets-*.log")); n != len(old)+2 {
		t.Errorf("%d files of packet logs", n)
	}
}
