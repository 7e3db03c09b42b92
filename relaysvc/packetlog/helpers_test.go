package packetlog_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// The sizes of the format, said again so that a change of it is noticed.
const (
	segmentHeader = 32
	groupHeader   = 32
	frame         = 10
)

var storeID = packetlog.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string, o packetlog.Options) *packetlog.Log {
	t.Helper()
	l, err := packetlog.Open(dir, storeID, o)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// begin opens the log of a folder and recovers it from a place on.
func begin(t testing.TB, dir string, from int64, o packetlog.Options) *packetlog.Log {
	t.Helper()
	l := open(t, dir, o)
	_, err := l.Recover(from, func(packetlog.Record) error { return nil })
	must(t, err)
	return l
}

// packet is a body with its place and what the store said of it.
type packet struct {
	place      int64
	said, body string
}

func body(name string, size int) string {
	return strings.Repeat(name+".", size/(len(name)+1)+1)[:size]
}

// write makes a group of bodies and writes it.
func write(t testing.TB, l *packetlog.Log, b *packetlog.Batch, bodies ...string) []packet {
	t.Helper()
	var packets []packet
	l.Begin(b)
	for _, body := range bodies {
		said := fmt.Sprintf("\x00%d bytes", len(body))
		packets = append(packets, packet{b.Add([]byte(said), []byte(body)), said, body})
	}
	must(t, l.Write(b))
	return packets
}

// add makes a group of bodies a part of the log.
func add(t testing.TB, l *packetlog.Log, bodies ...string) []packet {
	t.Helper()
	var b packetlog.Batch
	packets := write(t, l, &b, bodies...)
	l.Accept(&b)
	return packets
}

// fill adds n groups of two bodies each.
func fill(t testing.TB, l *packetlog.Log, name string, n int) []packet {
	t.Helper()
	var packets []packet
	for i := range n {
		packets = append(packets, add(t, l, body(fmt.Sprint(name, i, "a"), 60+i), body(fmt.Sprint(name, i, "b"), 7*i))...)
	}
	return packets
}

// fillSegments adds groups until there are n segments.
func fillSegments(t testing.TB, l *packetlog.Log, n int) (packets []packet) {
	t.Helper()
	for range 20 * n {
		packets = append(packets, fill(t, l, "p", 1)...)
		if len(l.Paths()) == n {
			return packets
		}
	}
	t.Fatalf("%d segments, want %d", len(l.Paths()), n)
	return nil
}

// fillSegment adds groups until the last segment is long enough.
func fillSegment(t testing.TB, l *packetlog.Log) (packets []packet) {
	t.Helper()
	for range 20 {
		packets = append(packets, fill(t, l, "p", 1)...)
		if s := l.Segments(); s[len(s)-1].End-s[len(s)-1].Start >= smallSegment {
			return packets
		}
	}
	t.Fatal("no segment is ever long enough")
	return nil
}

// recovered opens the log of a folder anew and returns what it recovers from a
// place on, and the bytes that it cut off.
func recovered(t testing.TB, dir string, from int64) ([]packet, int64) {
	t.Helper()
	l, err := packetlog.Open(dir, storeID, packetlog.Options{SegmentSize: smallSegment})
	must(t, err)
	defer l.Close()
	packets, dropped := recoverAll(t, l, from)
	if l.Synced() != l.End() {
		t.Errorf("recovered to %d, of which %d has reached the disk", l.End(), l.Synced())
	}
	return packets, dropped
}

func recoverAll(t testing.TB, l *packetlog.Log, from int64) (packets []packet, dropped int64) {
	t.Helper()
	dropped, err := l.Recover(from, func(r packetlog.Record) error {
		p := packet{place: r.Place, said: string(r.Said)}
		content := make([]byte, r.Size)
		err := l.ReadAt(content, r.Place)
		p.body = string(content)
		packets = append(packets, p)
		return err
	})
	must(t, err)
	return packets, dropped
}

// smallSegment gets a test many segments.
const smallSegment = 500

func small() packetlog.Options { return packetlog.Options{SegmentSize: smallSegment} }

func same(t testing.TB, what string, got, want []packet) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %d packets %.300s\nwant %d packets %.300s", what, len(got), fmt.Sprintf("%+v", got), len(want), fmt.Sprintf("%+v", want))
	}
}

// readable checks that the log has the packets at their places.
func readable(t testing.TB, l *packetlog.Log, packets []packet) {
	t.Helper()
	for _, p := range packets {
		got := make([]byte, len(p.body))
		if err := l.ReadAt(got, p.place); err != nil || string(got) != p.body {
			t.Errorf("place %d: %.60q, %v; want %.60q", p.place, got, err, p.body)
		}
	}
}

// lastPath returns the file of the last segment.
func lastPath(t testing.TB, l *packetlog.Log) string {
	t.Helper()
	paths := l.Paths()
	if len(paths) == 0 {
		t.Fatal("the log has no segment")
	}
	return paths[len(paths)-1]
}

// segmentPath is how a segment is named.
func segmentPath(dir string, id packetlog.ID, start int64) string {
	return filepath.Join(dir, fmt.Sprintf("packets-%x-%016x.log", id[:4], start))
}

func headerOf(id packetlog.ID, start int64) []byte {
	h := slices.Concat([]byte("\xffacelog1"), id[:])
	return binary.BigEndian.AppendUint64(h, uint64(start))
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

func writeFile(t testing.TB, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path, content, 0o600))
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
