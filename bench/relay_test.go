package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// BenchmarkRelaySend sends packets with a permit to one recipient, each client
// its next one when the last has been answered. One operation is one accepted
// send.
func BenchmarkRelaySend(b *testing.B) {
	for _, clients := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("%d clients", clients), func(b *testing.B) {
			l := startLoad(b)
			latencies := make([][]time.Duration, clients)
			var left atomic.Int64
			left.Store(int64(b.N))
			var group sync.WaitGroup
			b.ResetTimer()
			for i := range clients {
				group.Go(func() {
					body := slices.Clone(l.body)
					for left.Add(-1) >= 0 {
						// A new message ID makes it another packet.
						copy(body[l.messageID:], suite.NewMessageID())
						begin := time.Now()
						if err := l.post("/v1/send", body); err != nil {
							b.Error(err)
							return
						}
						latencies[i] = append(latencies[i], time.Since(begin))
					}
				})
			}
			group.Wait()
			b.StopTimer()
			report(b, slices.Concat(latencies...))
		})
	}
}

func report(b *testing.B, latencies []time.Duration) {
	b.Helper()
	if len(latencies) == 0 {
		return
	}
	slices.Sort(latencies)
	at := func(part float64) float64 {
		return float64(latencies[int(part*float64(len(latencies)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(float64(len(latencies))/b.Elapsed().Seconds(), "sends/s")
	b.ReportMetric(at(0.5), "p50-ms")
	b.ReportMetric(at(0.99), "p99-ms")
}

// load is a relay with its store on disk, and what to send to it.
type load struct {
	url       string
	client    *http.Client
	body      []byte // of a send
	messageID int    // where its message ID begins
}

// payloadBytes makes a body of 14 KB with its permit.
const payloadBytes = 2400

func startLoad(b *testing.B) *load {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	fatal(b, err)
	server, err := relaysvc.New(relaysvc.Config{
		Development: true,
		DBPath:      filepath.Join(b.TempDir(), "data", "relay.db"),
		Limits:      relaysvc.Limits{QueueEntries: 1 << 40, QueueBytes: 1 << 50},
	})
	fatal(b, err)
	l := &load{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	l.url, err = relaysvc.LoopbackURL(ln.Addr())
	fatal(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, ln) }()
	b.Cleanup(func() {
		l.client.CloseIdleConnections()
		cancel()
		fatal(b, <-ended)
		fatal(b, server.Close())
	})
	l.prepare(b, time.Now().Unix())
	return l
}

// prepare registers a recipient and makes a packet for it.
func (l *load) prepare(b *testing.B, now int64) {
	b.Helper()
	root, next, signing := suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed())
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now-10)
	fatal(b, err)
	state, err = state.Delegate(root, signing.PublicKey(), now-10, 0)
	fatal(b, err)
	id := kel.NewIdentity(state, signing)
	registration, err := relayapi.BuildRegistration(id, l.url, now)
	fatal(b, err)
	fatal(b, l.post("/v1/register", registration.Raw))

	from := wire.ACEID(suite.Hex256([]byte("sender")))
	permit, err := admission.IssuePermit(id, from, now, 3600)
	fatal(b, err)
	messageID := suite.NewMessageID()
	l.body = relayapi.SendBody(opaquePacket(from, id.ACEID(), messageID, now), permit.Raw())
	l.messageID = bytes.Index(l.body, []byte(messageID))
}

// opaquePacket is a packet that nobody could open: a relay does not try.
func opaquePacket(from, to, messageID string, now int64) []byte {
	encoded := func(n int) wire.Value { return wire.NewString(wire.EncodeBase64(suite.RandomBytes(n))) }
	return wire.NewObject(
		wire.M("ace", wire.NewString(wire.Version)),
		wire.M("messageId", wire.NewString(messageID)),
		wire.M("from", wire.NewString(from)),
		wire.M("to", wire.NewString(to)),
		wire.M("timestamp", wire.NewInt(now)),
		wire.M("encryption", wire.NewObject(
			wire.M("prekey", wire.NewString(suite.Hex256(nil))),
			wire.M("kemCiphertext", encoded(wire.KEMCiphertextBytes)),
			wire.M("payload", encoded(payloadBytes)),
		)),
		wire.M("signature", wire.Signature{Seq: 1, Value: suite.RandomBytes(wire.SignatureBytes)}.Object()),
	).Canonical()
}

func (l *load) post(path string, body []byte) error {
	resp, err := l.client.Post(l.url+path, relayapi.MediaJSON, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", path, resp.StatusCode, answer)
	}
	return err
}

func fatal(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
