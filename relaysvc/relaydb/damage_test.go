package relaydb_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// watched opens a store and counts what it reports as damaged.
func watched(t *testing.T, path string) (*relaydb.DB, *[]string) {
	t.Helper()
	var reasons []string
	d, err := relaydb.OpenWith(ctx, path, now, relaydb.Options{Damaged: func(reason string) { reasons = append(reasons, reason) }})
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d, &reasons
}

// damaged changes a database with five packets, each of several pages, while
// nobody has it open.
func damaged(t *testing.T, change func(file []byte)) (d *relaydb.DB, reasons *[]string) {
	t.Helper()
	path, _ := fivePackets(t, true)
	changeFile(t, path, change)
	return watched(t, path)
}

// damagedLog changes the packet log instead.
func damagedLog(t *testing.T, change func(file []byte)) (d *relaydb.DB, reasons *[]string) {
	t.Helper()
	path, log := fivePackets(t, false)
	changeFile(t, log, change)
	return watched(t, path)
}

// fivePackets returns the files of a store whose packets are in the packet log,
// or moved into the database.
func fivePackets(t *testing.T, moved bool) (path, log string) {
	t.Helper()
	path = filepath.Join(dataDir(t), "relay.db")
	d := open(t, path)
	registered(t, d, "alice")
	for n := range 5 {
		enqueue(t, d, packet("alice", "bob", long(n)))
	}
	log = d.LogFiles()[0]
	if moved {
		must(t, d.MoveAll(ctx))
	}
	must(t, d.Close())
	return path, log
}

func changeFile(t *testing.T, path string, change func(file []byte)) {
	t.Helper()
	file, err := os.ReadFile(path)
	must(t, err)
	change(file)
	must(t, os.WriteFile(path, file, 0o600))
}

// each runs a test for packets in the database and for those in the log.
func each(t *testing.T, test func(t *testing.T, damaged func(*testing.T, func([]byte)) (*relaydb.DB, *[]string))) {
	t.Run("database", func(t *testing.T) { test(t, damaged) })
	t.Run("log", func(t *testing.T) { test(t, damagedLog) })
}

func long(n int) string { return strings.Repeat(fmt.Sprintf("packet %d ", n), 3000) }

// find returns where the last whole occurrence of a text is.
func find(t *testing.T, file []byte, text string) int {
	t.Helper()
	i := bytes.LastIndex(file, []byte(text))
	if i < 0 {
		t.Fatalf("%q is not in the file", text)
	}
	return i
}

// TestDamageIsNotTheEnd reads one entry at a time from a queue whose first
// entries are damaged: a part without a packet is the end of a queue (07#inbox).
func TestDamageIsNotTheEnd(t *testing.T) { each(t, damageIsNotTheEnd) }

func damageIsNotTheEnd(t *testing.T, damaged func(*testing.T, func([]byte)) (*relaydb.DB, *[]string)) {
	d, reasons := damaged(t, func(file []byte) {
		for n := range 3 {
			file[find(t, file, fmt.Sprintf("packet %d packet %d ", n, n))] ^= 1
		}
	})
	alice, err := d.Identity(ctx, "alice")
	must(t, err)
	for _, bytes := range []int64{1, 1 << 20} {
		var got []string
		more, err := d.Entries(ctx, relaydb.Span{ACEID: "alice", Incarnation: alice.Incarnation, Entries: 1, Bytes: bytes, Now: now}, func(e relaydb.Entry) bool {
			got = append(got, e.StreamID)
			return true
		})
		if err != nil || !more || len(got) != 1 || got[0] != "1-4" {
			t.Fatalf("got %v, more %t, error %v", got, more, err)
		}
	}
	if len(*reasons) != 3 {
		t.Fatalf("%d damaged packets were reported", len(*reasons))
	}
}

// served checks that the first and the last two of five packets are served.
func served(t *testing.T, d *relaydb.DB, want ...int) {
	t.Helper()
	got := queue(t, d, "alice")
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i, n := range want {
		if string(got[i].Packet) != long(n) {
			t.Fatalf("entry %d is not packet %d", i, n)
		}
	}
}

// TestChangedPacketIsPutAside flips one bit of a packet on the disk.
func TestChangedPacketIsPutAside(t *testing.T) { each(t, changedPacketIsPutAside) }

func changedPacketIsPutAside(t *testing.T, damaged func(*testing.T, func([]byte)) (*relaydb.DB, *[]string)) {
	d, reasons := damaged(t, func(file []byte) { file[find(t, file, "packet 1 packet 1")] ^= 1 })
	served(t, d, 0, 2, 3, 4)
	served(t, d, 0, 2, 3, 4)
	if len(*reasons) != 1 || (*reasons)[0] != "its digest is another" {
		t.Fatalf("reported: %q", *reasons)
	}
	s, err := d.Stats(ctx, now)
	must(t, err)
	if s.Quarantined != 1 || s.Damaged != 1 || s.Entries != 4 || s.Bytes != int64(4*len(long(0))) {
		t.Fatalf("%+v", s)
	}
	if r := sound(t, d); r.Quarantined != 1 {
		t.Fatalf("%+v", r)
	}
}

// TestWhatWasPutAsideGoes sweeps when a packet that was put aside would have
// expired for sure: its bytes go, and the operator's alert ends.
func TestWhatWasPutAsideGoes(t *testing.T) { each(t, whatWasPutAsideGoes) }

func whatWasPutAsideGoes(t *testing.T, damaged func(*testing.T, func([]byte)) (*relaydb.DB, *[]string)) {
	d, _ := damaged(t, func(file []byte) { file[find(t, file, "packet 1 packet 1")] ^= 1 })
	served(t, d, 0, 2, 3, 4)
	for at, want := range []int64{1, 0} {
		must(t, d.Sweep(ctx, now+wire.OfflineWindowSeconds-1+int64(at)))
		s, err := d.Stats(ctx, now)
		must(t, err)
		if s.Quarantined != want {
			t.Fatalf("%d are put aside, want %d", s.Quarantined, want)
		}
	}
	sound(t, d)
	if dir := filepath.Dir(d.LogFiles()[0]); inFiles(t, dir, " packet 1 packet 1 ") {
		t.Error("its bytes are still on the disk")
	}
}

// breakChain makes a page of a packet name one as the next that is not there.
func breakChain(t *testing.T) func([]byte) {
	return func(file []byte) {
		const size = 4096
		for at := 0; at < len(file); at += size {
			page := file[at : at+size]
			// A page of a chain begins with the number of the next one.
			if bytes.Contains(page, []byte("packet 2 packet 2")) && page[0] == 0 && page[3] != 0 {
				copy(page, []byte{0x7f, 0xff, 0xff, 0xff})
				return
			}
		}
		t.Fatal("no chain was found")
	}
}

// TestBrokenPagesArePutAside breaks the chain of pages that a packet is kept in.
func TestBrokenPagesArePutAside(t *testing.T) {
	d, reasons := damaged(t, breakChain(t))
	served(t, d, 0, 1, 3, 4)
	if len(*reasons) != 1 || (*reasons)[0] != "its pages are damaged" {
		t.Fatalf("reported: %q", *reasons)
	}
	served(t, d, 0, 1, 3, 4)
	enqueue(t, d, packet("alice", "bob", long(5)))
	served(t, d, 0, 1, 3, 4, 5)
	// It stays: nothing deletes it, and nothing stops at it.
	must(t, d.Sweep(ctx, now+wire.OfflineWindowSeconds))
	if s, err := d.Stats(ctx, now); err != nil || s.Quarantined != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
}

// TestBrokenPagesOfAChangedPacket takes a packet for one whose bytes changed,
// and then finds that its pages cannot be deleted.
func TestBrokenPagesOfAChangedPacket(t *testing.T) {
	path, _ := fivePackets(t, true)
	changeFile(t, path, breakChain(t))
	alter(t, path, "INSERT INTO quarantine (identity, generation, seq, at, reason, body) SELECT identity, generation, seq, 1, 'test', body FROM entries WHERE seq = 3; DELETE FROM entries WHERE seq = 3")
	d, reasons := watched(t, path)
	for range 2 {
		must(t, d.Sweep(ctx, now))
		if s, err := d.Stats(ctx, now); err != nil || s.Quarantined != 1 || len(*reasons) != 1 {
			t.Fatalf("%+v, %v, %q", s, err, *reasons)
		}
	}
	enqueue(t, d, packet("alice", "bob", "goes on"))
}

// TestBrokenPagesAreAcknowledged acknowledges entries among which is one whose
// pages cannot even be deleted.
func TestBrokenPagesAreAcknowledged(t *testing.T) {
	d, reasons := damaged(t, breakChain(t))
	i, err := d.Identity(ctx, "alice")
	must(t, err)
	must(t, d.Ack(ctx, caller("alice", i), "1-4"))
	served(t, d, 4)
	s, err := d.Stats(ctx, now)
	must(t, err)
	if s.Quarantined != 1 || s.Entries != 1 || s.Damaged != 1 || len(*reasons) != 1 {
		t.Fatalf("%+v, reported: %q", s, *reasons)
	}
}

// run changes a store that nobody has open.
func run(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.Exec(statement)
	must(t, errors.Join(err, db.Close()))
}

// TestMissingPacket deletes a packet behind the back of its entry.
func TestMissingPacket(t *testing.T) {
	path := filepath.Join(dataDir(t), "relay.db")
	d := open(t, path)
	registered(t, d, "alice")
	for n := range 3 {
		enqueue(t, d, packet("alice", "bob", long(n)))
	}
	must(t, d.MoveAll(ctx))
	must(t, d.Close())
	run(t, path, "DELETE FROM bodies WHERE id = 2")
	d, reasons := watched(t, path)
	served(t, d, 0, 2)
	if len(*reasons) != 1 || (*reasons)[0] != "it is missing" {
		t.Fatalf("reported: %q", *reasons)
	}
}

// TestReadingStopsWhereItIsTold reads parts of a queue.
func TestReadingStopsWhereItIsTold(t *testing.T) {
	d := newDB(t)
	i := registered(t, d, "alice")
	for n := range 5 {
		enqueue(t, d, packet("alice", "bob", fmt.Sprint("packet ", n)))
	}
	read := func(span relaydb.Span, most int) (ids []string, more bool) {
		t.Helper()
		span.ACEID, span.Incarnation, span.Now = "alice", i.Incarnation, now
		more, err := d.Entries(context.Background(), span, func(e relaydb.Entry) bool {
			ids = append(ids, fmt.Sprint(e.StreamID, "/", e.Entries, "/", e.Bytes))
			return len(ids) < most
		})
		must(t, err)
		return ids, more
	}
	for _, c := range []struct {
		span relaydb.Span
		most int
		want string
		more bool
	}{
		{relaydb.Span{Entries: 100, Bytes: 1000}, 100, "1-1/5/40 1-2/4/32 1-3/3/24 1-4/2/16 1-5/1/8", false},
		{relaydb.Span{Entries: 100, Bytes: 1000}, 2, "1-1/5/40 1-2/4/32", true},
		{relaydb.Span{Entries: 2, Bytes: 1000}, 100, "1-1/2/16 1-2/1/8", true},
		{relaydb.Span{Entries: 100, Bytes: 17}, 100, "1-1/2/16 1-2/1/8", true},
		{relaydb.Span{Entries: 100, Bytes: 1}, 100, "1-1/1/8", true},
		{relaydb.Span{Entries: 100, Bytes: 1000, After: "1-4"}, 100, "1-5/1/8", false},
		{relaydb.Span{Entries: 100, Bytes: 1000, After: "1-5"}, 100, "", false},
		{relaydb.Span{Entries: 100, Bytes: 1000, After: "99999999999999999999-1"}, 100, "", false},
	} {
		ids, more := read(c.span, c.most)
		if got := strings.Join(ids, " "); got != c.want || more != c.more {
			t.Errorf("%+v: %q, more %v", c.span, got, more)
		}
	}
}
