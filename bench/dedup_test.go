package bench

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// dedupKit is a seen store on disk.
type dedupKit struct {
	s    *store.Store
	seen delivery.SeenStore
	now  int64
	next int // number of the next message
}

// newDedupKit makes one that is full, and from which evictions have begun.
func newDedupKit(b *testing.B, capacity int64, from func(i int) string) *dedupKit {
	b.Helper()
	s, err := store.Open(b.Context(), filepath.Join(b.TempDir(), "ace", "store.db"), suite.NewSeed())
	must(b, err)
	b.Cleanup(func() { s.Close() })
	k := &dedupKit{s: s, seen: delivery.SeenStore{Capacity: capacity}, now: packetNow}
	must(b, s.Update(b.Context(), func(tx *store.Tx) error { return k.seen.Start(tx, k.now) }))
	for range capacity / 1000 * 11 {
		k.take(b, 100, from)
	}
	return k
}

// take judges and commits new messages in one transaction, a second apart.
func (k *dedupKit) take(b *testing.B, count int, from func(i int) string) {
	must(b, k.s.Update(b.Context(), func(tx *store.Tx) error {
		for range count {
			k.now++
			k.next++
			e := store.Seen{Timestamp: k.now, Peer: from(k.next), MessageID: suite.NewMessageID()}
			verdict, err := k.seen.Judge(tx, e)
			if err != nil {
				return err
			}
			if verdict != delivery.VerdictNew {
				b.Fatalf("a new message is %s", verdict)
			}
			if err := k.seen.Commit(tx, e, k.now); err != nil {
				return err
			}
		}
		return nil
	}))
}

func sender(i int) string { return fmt.Sprintf("ace:sha256:%064x", i) }

// BenchmarkDedup reports "ratio": the processor time of taking a message into a
// seen store of 100,000 entries that is full, 100 in a transaction ÷ that for one
// of 1,000 entries. Each message makes the store evict another.
func BenchmarkDedup(b *testing.B) {
	const small, large, count = 1000, 100_000, 100
	for _, c := range []struct {
		name string
		from func(capacity int) func(i int) string
	}{
		{"of 20 senders", func(int) func(int) string { return func(i int) string { return sender(i % 20) } }},
		{"of a sender at its quota", func(capacity int) func(int) string {
			return func(i int) string {
				if i > capacity-capacity/16 {
					return sender(0)
				}
				return sender(1 + i%20)
			}
		}},
		{"of a sender each", func(int) func(int) string { return sender }},
	} {
		b.Run(c.name, func(b *testing.B) {
			base, full := newDedupKit(b, small, c.from(small)), newDedupKit(b, large, c.from(large))
			var ratio, micros []float64
			for b.Loop() {
				before := processor(b, func() { base.take(b, count, c.from(small)) })
				took := processor(b, func() { full.take(b, count, c.from(large)) })
				ratio = append(ratio, float64(took)/float64(before))
				micros = append(micros, micro(took)/count)
			}
			b.ReportMetric(median(ratio), "ratio")
			b.ReportMetric(median(micros), "µs/message")
		})
	}
}
