package relaydb

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// TestLogStaysShort writes many times the length that the write-ahead log may
// have, without a pause, and reads meanwhile.
func TestLogStaysShort(t *testing.T) {
	ctx := context.Background()
	d := newStore(t)
	d.keeper.limit = 256 // before it has anything to do
	if err := d.Register(ctx, Registration{ACEID: "alice", KELEnd: "end", KEL: []byte("[]"), Network: "n"}, nil); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 100_000)
	var longest int64
	var group sync.WaitGroup
	for n := range 4 {
		group.Go(func() {
			for k := range 100 {
				p := Packet{To: "alice", From: "bob", Digest: fmt.Append(nil, n, k), Raw: []byte(text), KELEnd: "end", Expires: 1}
				if _, err := d.Enqueue(ctx, p, Room{Entries: 1000, Bytes: 1 << 30}); err != nil {
					t.Error(err)
				}
				_, _ = d.Entries(ctx, Span{ACEID: "alice", Incarnation: 1, Entries: 1, Bytes: 1}, func(Entry) bool { return true })
			}
		})
	}
	group.Wait()
	if info, err := os.Stat(d.path + "-wal"); err == nil {
		longest = info.Size()
	}
	// 40 MB were written; groups of 4 add to a log that the limit lets be moved.
	if longest > 16<<20 {
		t.Fatalf("the log has %d bytes", longest)
	}
	if longest == 0 {
		t.Fatal("there is no log: the test shows nothing")
	}
}
