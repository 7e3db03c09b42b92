package bench

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

const (
	pageEntries = wire.MaxInboxPage
	pagePacket  = 9_400 // bytes of each packet on the page, as of a send of 14 KB
	fillPacket  = 200   // bytes of each of the others
	fillOwners  = 16    // identities whose queues they are in, the reader's included
	pageReads   = 100   // of each store in a round
)

// BenchmarkRelayInboxPage reports "ratio": a page of 100 packets from a store
// in which many more entries are queued ÷ the same page from a store with
// nothing else in it, both after they have been read before. Must be at most
// 1.5. Half of the others are behind the page in the same queue, the rest in
// other queues. ACE_BENCH_QUEUED says how many there are.
func BenchmarkRelayInboxPage(b *testing.B) {
	queued := 20_000
	if text := os.Getenv("ACE_BENCH_QUEUED"); text != "" {
		var err error
		queued, err = strconv.Atoi(text)
		must(b, err)
	}
	full, stopFull := newPageReader(b, queued)
	defer stopFull()
	empty, stopEmpty := newPageReader(b, 0)
	defer stopEmpty()
	for range 20 {
		full.read(b)
		empty.read(b)
	}
	var ratios []float64
	for b.Loop() {
		var withMany, alone []time.Duration
		for range pageReads {
			withMany = append(withMany, full.read(b))
			alone = append(alone, empty.read(b))
		}
		ratios = append(ratios, float64(median(withMany))/float64(median(alone)))
		b.ReportMetric(millis(median(alone)), "page-ms")
	}
	reportSpread(b, ratios, "ratio")
}

// pageReader reads the first page of an inbox.
type pageReader struct {
	id   *kel.Identity
	url  string
	http *http.Client
}

// newPageReader makes a store with a page of packets and so many more entries,
// and a relay that has it open until stop is called.
func newPageReader(b *testing.B, others int) (r *pageReader, stop func()) {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "data")
	owners := register(b, dir)
	fillQueues(b, dir, owners, others)
	url, stop := startRelay(b, dir)
	return &pageReader{id: owners[0], url: url, http: &http.Client{}}, stop
}

// register makes identities and registers them with a relay, which then ends.
func register(b *testing.B, dir string) []*kel.Identity {
	b.Helper()
	url, stop := startRelay(b, dir)
	defer stop()
	now := time.Now().Unix()
	owners := make([]*kel.Identity, fillOwners)
	for i := range owners {
		root, next, signing := newKey(), newKey(), newKey()
		state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now)
		must(b, err)
		state, err = state.Delegate(root, signing.PublicKey(), now, 0)
		must(b, err)
		owners[i] = kel.NewIdentity(state, signing)
		c := relayclient.New(relayclient.Config{Identity: owners[i], URLs: wire.Development})
		_, err = c.Register(b.Context(), url, now)
		must(b, err)
		c.Close()
	}
	return owners
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

// fillQueues queues a page for the first owner and then the others.
func fillQueues(b *testing.B, dir string, owners []*kel.Identity, others int) {
	b.Helper()
	ctx, now := b.Context(), time.Now().Unix()
	db, err := relaydb.Open(ctx, filepath.Join(dir, "relay.db"), now)
	must(b, err)
	f := &filler{db: db, now: now}
	for range pageEntries {
		must(b, f.queue(ctx, owners[0], pagePacket))
	}
	var left atomic.Int64
	left.Store(int64(others))
	var group sync.WaitGroup
	failed := make(chan error, 1)
	for range 64 { // as many as one commit takes
		group.Go(func() {
			for i := left.Add(-1); i >= 0 && len(failed) == 0; i = left.Add(-1) {
				owner := owners[0]
				if i%2 == 1 {
					owner = owners[1+int(i/2)%(len(owners)-1)]
				}
				if err := f.queue(ctx, owner, fillPacket); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	group.Wait()
	must(b, db.Close())
	if len(failed) > 0 {
		b.Fatal(<-failed)
	}
}

// filler queues entries right in the store, which takes no notice of what is in
// a packet.
type filler struct {
	db  *relaydb.DB
	now int64
	n   atomic.Uint64
}

func (f *filler) queue(ctx context.Context, to *kel.Identity, size int) error {
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = ' '
	}
	copy(raw, fmt.Sprintf(`{"n":%d`, f.n.Add(1)))
	raw[size-1] = '}'
	digest := sha256.Sum256(raw)
	var sender [32]byte
	binary.BigEndian.PutUint64(sender[:], f.n.Load()%97)
	_, err := f.db.Enqueue(ctx, relaydb.Packet{
		To: to.ACEID(), From: wire.ACEID(suite.Hex256(sender[:])), Digest: digest[:], Raw: raw,
		KELEnd: to.State().LastHash(), Now: f.now, Expires: f.now + wire.OfflineWindowSeconds,
	}, relaydb.Room{Entries: 1 << 40, Bytes: 1 << 50})
	return err
}

// read returns how long it takes to read a page, its request already signed.
func (r *pageReader) read(b *testing.B) time.Duration {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, r.url+"/v1/inbox", nil)
	must(b, err)
	h, err := relayapi.SignHeaders(r.id, kel.ActionInbox, r.url, suite.NewNonce(),
		relayapi.InboxPayload(relayapi.Dash, wire.MaxInboxPage), time.Now().Unix())
	must(b, err)
	h.Apply(req.Header)
	begin := time.Now()
	resp, err := r.http.Do(req)
	must(b, err)
	defer resp.Body.Close()
	size, err := io.Copy(io.Discard, resp.Body)
	took := time.Since(begin)
	must(b, err)
	if resp.StatusCode != http.StatusOK || size < pageEntries*pagePacket {
		b.Fatalf("status %d, %d bytes", resp.StatusCode, size)
	}
	return took
}
