package relaydb

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
)

// TestRoomIsMadeAmongOthers has one transaction queue packets for several, of
// whom one gets room only when an entry goes that is over: all totals are those
// of the entries.
func TestRoomIsMadeAmongOthers(t *testing.T) {
	ctx := context.Background()
	d := newStore(t)
	room := Room{Entries: 1, Bytes: 1 << 20}
	const others = 40
	ids := []string{"alice"}
	for n := range others {
		ids = append(ids, fmt.Sprint("other ", n))
	}
	for _, id := range ids {
		if err := d.Register(ctx, Registration{ACEID: id, KELEnd: "end", KEL: []byte("[]"), Network: id}, nil); err != nil {
			t.Fatal(err)
		}
	}
	packet := func(to, text string, expires int64) *Packet {
		digest := sha256.Sum256([]byte(text))
		return &Packet{To: to, From: "bob", Digest: digest[:], Raw: []byte(text), KELEnd: "end", Now: 10, passed: 10, Expires: expires}
	}
	if err := d.write(ctx, func(tx *tx) error {
		for _, p := range []*Packet{packet("alice", "over", 10), packet(ids[1], "another", 20), packet("alice", "new", 20)} {
			for n := range others - 1 {
				// So that there are totals of others to write back.
				if _, err := tx.queue(ids[2+n]); err != nil {
					return err
				}
			}
			if queued, err := tx.enqueue(p, &room); err != nil || !queued {
				return fmt.Errorf("%s: queued %t, error %w", p.Raw, queued, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r, err := d.Verify(ctx)
	if err != nil || len(r.Problems) > 0 || r.Entries != 2 {
		t.Fatalf("%d entries, problems %q, error %v", r.Entries, r.Problems, err)
	}
}
