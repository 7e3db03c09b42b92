package bench

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// faraway is a network with a time that each round trip takes, in nanoseconds.
type faraway struct {
	http.RoundTripper
	roundTrip atomic.Int64
}

func (f *faraway) RoundTrip(r *http.Request) (*http.Response, error) {
	half := time.Duration(f.roundTrip.Load() / 2)
	time.Sleep(half)
	defer time.Sleep(half)
	return f.RoundTripper.RoundTrip(r)
}

// newEndpoint opens an endpoint at a relay that accepts who asks, and publishes
// it. Its store is in memory without a path.
func newEndpoint(b *testing.B, url, path string, vault *suite.Seed, transport http.RoundTripper) (*core.Endpoint, *kel.Identity) {
	b.Helper()
	id, err := kel.Ephemeral(time.Now().Unix())
	must(b, err)
	return openEndpoint(b, id, url, path, vault, transport), id
}

func openEndpoint(b *testing.B, id *kel.Identity, url, path string, vault *suite.Seed, transport http.RoundTripper) *core.Endpoint {
	b.Helper()
	text := profile.OfficialByID(profile.TextID)
	e, err := core.Open(b.Context(), core.Config{
		Identity: id, StorePath: path, VaultKey: vault, Relay: url, Profiles: []*profile.Manifest{text}, Accept: map[string]string{text.ID: text.Digest},
		Card: descriptor.CardRecord{Contact: descriptor.ContactOpen}, Loopback: true, Transport: transport, ReceiveBy: "bench",
	})
	must(b, err)
	b.Cleanup(func() { e.Close() })
	_, err = e.Publish(b.Context(), core.PublishOptions{})
	must(b, err)
	return e
}

func pull(b *testing.B, e *core.Endpoint) {
	_, err := e.Pull(b.Context(), 0, func(core.Event) {})
	must(b, err)
}

// BenchmarkSendQueued sends 1,000 queued messages to 50 peers, with a relay 20 ms
// away and the sender's store on disk. "ratio" is the time that takes ÷ the round
// trips of the messages by themselves, eight at a time.
func BenchmarkSendQueued(b *testing.B) {
	const peers, messages, atOnce, roundTrip = 50, 1000, 8, 20 * time.Millisecond
	dir := b.TempDir()
	url, stop := startRelay(b, filepath.Join(dir, "relay"))
	defer stop()
	network := &faraway{RoundTripper: http.DefaultTransport}
	sender, _ := newEndpoint(b, url, filepath.Join(dir, "ace", "store.db"), suite.NewSeed(), network)
	var to []*core.Endpoint
	for range peers {
		peer, _ := newEndpoint(b, url, "", nil, http.DefaultTransport)
		_, err := sender.Connect(b.Context(), peer.ACEID(), profile.TextID, "")
		must(b, err)
		pull(b, peer)
		to = append(to, peer)
	}
	pull(b, sender)
	var ratio []float64
	for b.Loop() {
		b.StopTimer()
		for i := range messages {
			_, err := sender.Enqueue(b.Context(), core.OutMessage{To: to[i%peers].ACEID(), Body: profile.TextBody("hello")})
			must(b, err)
		}
		network.roundTrip.Store(int64(roundTrip))
		b.StartTimer()
		start := time.Now()
		accepted, err := sender.RetryDue(context.WithoutCancel(b.Context()))
		took := time.Since(start)
		b.StopTimer()
		network.roundTrip.Store(0)
		if err != nil || accepted != messages {
			b.Fatalf("%d were accepted: %v", accepted, err)
		}
		for _, peer := range to {
			pull(b, peer)
		}
		pull(b, sender)
		ratio = append(ratio, float64(took)/float64(messages*roundTrip/atOnce))
		b.StartTimer()
	}
	b.ReportMetric(median(ratio), "ratio")
	b.ReportMetric(messages/(median(ratio)*(messages*roundTrip/atOnce).Seconds()), "messages/s")
}

// crowded fills a store with peers and messages, of whom nothing is due. Permits
// issued under the delegation are not.
func crowded(tx *store.Tx, peers, messages int, delegation string, now int64) error {
	seed := suite.NewSeed()
	permit, key := make([]byte, 4700), make([]byte, 1216)
	for i := range peers {
		peer := sender(i)
		for _, err := range []error{
			tx.SetContact(store.Contact{Peer: peer, State: "admitted", Profile: profile.TextID, Since: now}),
			tx.SetPermit(peer, store.PermitIssued, store.Permit{Raw: permit, IssuedAt: now, ExpiresAt: now + 86400, Delegation: delegation}),
			tx.SetPermit(peer, store.PermitHeld, store.Permit{Raw: permit, IssuedAt: now, ExpiresAt: now + 86400}),
			tx.PutPrekey(store.Prekey{ID: "o" + peer, Peer: peer, Slot: store.SlotOffered, PublicKey: key, Seed: seed, At: now}),
			tx.PutPrekey(store.Prekey{ID: "u" + peer, Peer: peer, Slot: store.SlotInUse, PublicKey: key, Seed: seed, At: now}),
			tx.SetHeldPrekey(peer, store.HeldPrekey{PublicKey: key, Timestamp: now}),
		} {
			if err != nil {
				return err
			}
		}
	}
	state := store.SeenState{}
	for i := range messages {
		peer, id := sender(i*peers/messages), suite.NewMessageID()
		if i*peers%messages == 0 {
			state.OfSender = 0
		}
		for _, err := range []error{
			tx.AddMessage(store.Message{MessageID: id, Peer: peer, Type: profile.TextType, Body: []byte(`{"text":"hello"}`), SentAt: now, ReceivedAt: now, Handled: i%2 == 0}),
			tx.AddSeen(store.Seen{Timestamp: now, Peer: peer, MessageID: id}, &state),
			tx.AddOutbox(store.OutboxEntry{MessageID: id, Peer: peer, Content: []byte(`{"text":"hello"}`), Type: profile.TextType, CreatedAt: now,
				State: store.Delivered, SettledAt: now, Attempts: 1, FirstAttemptAt: now}),
		} {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// due makes n contacts and n sent messages such that their time is over.
func due(tx *store.Tx, n int, now int64) error {
	for i := range n {
		if err := tx.SetContact(store.Contact{Peer: sender(1<<30 + i), State: "pending", Since: 1, ExpiresAt: now - 1}); err != nil {
			return err
		}
		if err := tx.AddOutbox(store.OutboxEntry{MessageID: fmt.Sprint("due", i), Peer: sender(0), Content: []byte("{}"), Type: "t", State: store.Delivered, SettledAt: 1}); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkUpkeep reports "ratio": the processor time of an upkeep pass of an
// endpoint with 10,000 admitted peers, 100,000 received messages and as many sent
// ones ÷ that of one with nothing, when nothing is due to either and when 100
// rows are.
func BenchmarkUpkeep(b *testing.B) {
	dir, vault, now := b.TempDir(), suite.NewSeed(), time.Now().Unix()
	url, stop := startRelay(b, filepath.Join(dir, "relay"))
	defer stop()
	var endpoints [2]*core.Endpoint
	var stores [2]*store.Store
	var id *kel.Identity
	for i, name := range []string{"empty", "full"} {
		path := filepath.Join(dir, name, "store.db")
		endpoints[i], id = newEndpoint(b, url, path, vault, http.DefaultTransport)
		var err error
		stores[i], err = store.Open(b.Context(), path, vault)
		must(b, err)
		defer stores[i].Close()
	}
	delegation := id.State().Events()[id.State().Delegated().Seq].Hash
	must(b, stores[1].Update(b.Context(), func(tx *store.Tx) error { return crowded(tx, 10_000, 100_000, delegation, now) }))
	for _, rows := range []int{0, 100} {
		b.Run(fmt.Sprintf("%d rows due", rows), func(b *testing.B) {
			var ratio, micros []float64
			for b.Loop() {
				var took [2]time.Duration
				for i, e := range endpoints {
					must(b, stores[i].Update(b.Context(), func(tx *store.Tx) error { return due(tx, rows/2, now) }))
					took[i] = processor(b, func() {
						report, err := e.Upkeep(b.Context())
						must(b, err)
						if len(report.Failures) > 0 || report.Pruned != int64(rows) {
							b.Fatalf("%d failures, %d rows pruned", len(report.Failures), report.Pruned)
						}
					})
				}
				ratio = append(ratio, float64(took[1])/float64(took[0]))
				micros = append(micros, micro(took[1]))
			}
			b.ReportMetric(median(ratio), "ratio")
			b.ReportMetric(median(micros), "µs")
		})
	}
}

// BenchmarkMemory reports what an endpoint with 10,000 admitted peers, 100,000
// received messages and as many sent ones has in memory beyond one with nothing:
// opened, after a pass of upkeep, and with "queued" also the 50,000 messages that
// its handlers have yet to see.
func BenchmarkMemory(b *testing.B) {
	dir, vault, now := b.TempDir(), suite.NewSeed(), time.Now().Unix()
	url, stop := startRelay(b, filepath.Join(dir, "relay"))
	defer stop()
	var grown [2]float64 // of the empty one, of the full one
	var queued float64
	for i, name := range []string{"empty", "full"} {
		path := filepath.Join(dir, name, "store.db")
		first, id := newEndpoint(b, url, path, vault, http.DefaultTransport) // makes the store
		must(b, first.Close())
		if i == 1 {
			s, err := store.Open(b.Context(), path, vault)
			must(b, err)
			must(b, s.Update(b.Context(), func(tx *store.Tx) error { return crowded(tx, 10_000, 100_000, "d", now) }))
			must(b, s.Close())
		}
		before := heap()
		e := openEndpoint(b, id, url, path, vault, http.DefaultTransport)
		_, err := e.Upkeep(b.Context())
		must(b, err)
		grown[i] = heap() - before
		var at core.HandlerQueue
		var waiting []core.Waiting
		for {
			list, _, err := e.Waiting(b.Context(), &at)
			must(b, err)
			if len(list) == 0 {
				break
			}
			waiting = append(waiting, list...)
		}
		if i == 1 && len(waiting) != 50_000 {
			b.Fatalf("%d messages wait", len(waiting))
		}
		queued = heap() - before - grown[i]
		runtime.KeepAlive(waiting)
	}
	b.ReportMetric(grown[1]-grown[0], "MiB")
	b.ReportMetric(queued, "MiB-queued")
	b.ReportMetric(0, "ns/op")
}

// heap is what lives on the heap, in MiB.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
