package relaysvc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// born is when identities are made: long ago, so that permits may be old.
const born = epoch - 2*wire.MaxPermitLifetime

// epoch is the relay's time when a test begins.
const epoch = int64(1760140800)

// relay is a running development relay with a clock that the test sets. It
// trusts the loopback address as a proxy, so that a test can be a client of
// any network.
type relay struct {
	t      testing.TB
	url    string
	path   string
	now    atomic.Int64
	client *http.Client
	server *relaysvc.Server
	ended  chan error // gets what Serve returns
	stop   func()
}

func start(t testing.TB, change func(*relaysvc.Config)) *relay {
	t.Helper()
	r := &relay{t: t, path: filepath.Join(t.TempDir(), "data", "relay.db")}
	r.now.Store(epoch)
	r.run(change)
	t.Cleanup(func() { r.stop() })
	return r
}

// run serves the store of r on a new port.
func (r *relay) run(change func(*relaysvc.Config)) {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	if r.url == "" {
		r.url, err = relaysvc.LoopbackURL(ln.Addr())
		must(r.t, err)
	}
	config := relaysvc.Config{
		PublicURL:      r.url,
		Development:    true,
		DBPath:         r.path,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Clock:          r.now.Load,
	}
	config.FirstGeneration()
	if change != nil {
		change(&config)
	}
	server, err := relaysvc.New(config)
	must(r.t, err)
	r.server = server
	address := ln.Addr().String()
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	transport := &http.Transport{DialContext: dial}
	r.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	r.ended = ended
	go func() { ended <- server.Serve(ctx, ln) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		transport.CloseIdleConnections()
		must(r.t, <-ended)
		must(r.t, server.Close())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// call is one request. An empty network is that of the connection.
type call struct {
	method, path string
	body         []byte
	plain        bool // no content type
	chunked      bool // no content length
	header       http.Header
	network      string // address of the client behind the proxy
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (r *relay) do(c call) answer {
	r.t.Helper()
	a, err := r.try(c)
	must(r.t, err)
	return a
}

// try is do for other goroutines than the test's own.
func (r *relay) try(c call) (answer, error) {
	req, err := http.NewRequest(c.method, r.url+c.path, bytes.NewReader(c.body))
	if err != nil {
		return answer{}, err
	}
	if c.chunked {
		req.ContentLength = -1
	}
	if c.header != nil {
		req.Header = c.header.Clone()
	}
	if c.body != nil && !c.plain {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.network != "" {
		req.Header.Set("X-Forwarded-For", c.network)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body}, err
}

// outcome is "ok" or the code of a refusal, whose form it checks.
func (a answer) outcome(t testing.TB) string {
	t.Helper()
	var v struct {
		OK      bool
		Error   string
		Message *string
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%d with a body that is no JSON: %.200q", a.status, a.body)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Fatalf("content type %q", got)
	}
	if a.status == http.StatusOK {
		return "ok"
	}
	for code, status := range relayapi.Statuses() {
		if v.Error == string(code) && a.status == status {
			if (status == http.StatusTooManyRequests) != (a.header.Get("Retry-After") != "") {
				t.Fatalf("%s with Retry-After %q", code, a.header.Get("Retry-After"))
			}
			return v.Error
		}
	}
	t.Fatalf("status %d with code %q", a.status, v.Error)
	return ""
}

func (r *relay) expect(want string, a answer) {
	r.t.Helper()
	a.expect(r.t, want)
}

func (a answer) expect(t testing.TB, want string) {
	t.Helper()
	if got := a.outcome(t); got != want {
		t.Fatalf("got %d %s, want %s", a.status, a.body, want)
	}
}

// agent is an identity with its keys at a relay.
type agent struct {
	*relay
	root, next, signing *suite.SigningKey
	state               *kel.State
	registeredAt        int64
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

func commitment(k *suite.SigningKey) string {
	return kel.Commitment(wire.SchemeMLDSA65, k.PublicKey())
}

// newAgent makes an identity that the relay does not know.
func (r *relay) newAgent() *agent {
	r.t.Helper()
	a := &agent{relay: r, root: newKey(), next: newKey()}
	var err error
	a.state, err = kel.Incept(a.root, commitment(a.next), born)
	must(r.t, err)
	a.delegate(born)
	return a
}

func (a *agent) delegate(ts int64) {
	a.t.Helper()
	a.signing = newKey()
	var err error
	a.state, err = a.state.Delegate(a.root, a.signing.PublicKey(), ts, 0)
	must(a.t, err)
}

func (a *agent) id() *kel.Identity { return kel.NewIdentity(a.state, a.signing) }
func (a *agent) aceID() string     { return a.state.ACEID() }

func (a *agent) registration(ts int64) []byte {
	a.t.Helper()
	r, err := relayapi.BuildRegistration(a.id(), a.url, ts)
	must(a.t, err)
	return r.Raw
}

func (a *agent) register(ts int64) answer {
	a.t.Helper()
	a.registeredAt = ts
	return a.do(call{method: "POST", path: "/v1/register", body: a.registration(ts)})
}

// registered returns a new registered agent.
func (r *relay) registered() *agent {
	r.t.Helper()
	a := r.newAgent()
	r.expect("ok", a.register(r.now.Load()))
	return a
}

// published returns one that also has a descriptor and an open card record.
func (r *relay) published() *agent {
	r.t.Helper()
	a := r.registered()
	r.expect("ok", a.post("/v1/descriptor", a.descriptor(-1).Raw()))
	r.expect("ok", a.post("/v1/card", a.card(descriptor.CardRecord{}, -1).Raw()))
	return a
}

var prekey = suite.NewDecapsulationKey(suite.NewSeed()).PublicKey()

func (a *agent) descriptor(previous int64) *descriptor.PublishedAgent {
	return a.descriptorAt(previous, a.url)
}

func (a *agent) descriptorAt(previous int64, relays ...string) *descriptor.PublishedAgent {
	a.t.Helper()
	d, err := descriptor.Build(a.id(), descriptor.Fields{
		ExpiresAt: a.now.Load() + 3600,
		Relays:    relays,
		Prekey:    prekey,
		Profiles:  []descriptor.Profile{{ID: "x:profile", Digest: suite.Hex256(nil)}},
	}, a.now.Load(), previous, descriptor.Options{URLs: wire.Development})
	must(a.t, err)
	return d
}

// card builds a record that is open and at this relay unless c says otherwise.
func (a *agent) card(c descriptor.CardRecord, previous int64) *descriptor.CardBundle {
	a.t.Helper()
	if c.Home == "" {
		c.Home = a.url
	}
	if c.Contact == "" {
		c.Contact = descriptor.ContactOpen
	}
	b, err := descriptor.BuildCard(a.id(), c, a.now.Load(), previous, descriptor.Options{URLs: wire.Development})
	must(a.t, err)
	return b
}

func (a *agent) post(path string, body []byte) answer {
	a.t.Helper()
	return a.do(call{method: "POST", path: path, body: body})
}

// signed makes the headers of a request, which change may spoil before they
// are signed.
func (a *agent) signed(action string, payload []byte) http.Header {
	a.t.Helper()
	return a.signedAt(action, payload, a.url, suite.NewNonce(), a.now.Load())
}

func (a *agent) signedAt(action string, payload []byte, audience, nonce string, ts int64) http.Header {
	a.t.Helper()
	h, err := relayapi.SignHeaders(a.id(), action, audience, nonce, payload, ts)
	must(a.t, err)
	header := http.Header{}
	h.Apply(header)
	return header
}

func (a *agent) inbox() answer {
	a.t.Helper()
	return a.do(call{method: "GET", path: "/v1/inbox", header: a.signed(kel.ActionInbox, relayapi.InboxPayload("-", 100))})
}

func (a *agent) messages() []relayapi.Entry {
	a.t.Helper()
	got := a.inbox()
	a.expect("ok", got)
	entries, err := relayapi.ParseInboxPage(got.body, "-")
	must(a.t, err)
	return entries
}

func (a *agent) ack(through string) answer {
	a.t.Helper()
	return a.do(call{method: "POST", path: "/v1/inbox/ack?through=" + through, header: a.signed(kel.ActionInboxAck, relayapi.AckPayload(through))})
}

func (a *agent) block(peer string, blocked bool, revision int64) answer {
	a.t.Helper()
	b := relayapi.Block{Peer: peer, Blocked: blocked, Revision: revision}
	return a.do(call{method: "POST", path: "/v1/blocks", body: b.Body(), header: a.signed(kel.ActionBlock, relayapi.BlockPayload(peer, blocked, revision))})
}

func (a *agent) unregister(ts int64) answer {
	a.t.Helper()
	return a.do(call{method: "POST", path: "/v1/unregister", header: a.signedAt(kel.ActionUnregister, nil, a.url, suite.NewNonce(), ts)})
}

// permit returns one of a for subject.
func (a *agent) permit(subject string) []byte {
	a.t.Helper()
	p, err := admission.IssuePermit(a.id(), subject, a.now.Load(), 3600)
	must(a.t, err)
	return p.Raw()
}

func strangerID() string { return wire.ACEID(suite.Hex256(suite.RandomBytes(32))) }

// opaque returns a packet that decodes and that nobody could open.
func opaque(from, to string, ts int64, size int) []byte {
	return wire.NewObject(
		wire.M("ace", wire.NewString("1")),
		wire.M("messageId", wire.NewString(suite.NewMessageID())),
		wire.M("from", wire.NewString(from)),
		wire.M("to", wire.NewString(to)),
		wire.M("timestamp", wire.NewInt(ts)),
		wire.M("encryption", wire.NewObject(
			wire.M("prekey", wire.NewString(suite.Hex256(nil))),
			wire.M("kemCiphertext", wire.NewString(wire.EncodeBase64(suite.RandomBytes(wire.KEMCiphertextBytes)))),
			wire.M("payload", wire.NewString(wire.EncodeBase64(suite.RandomBytes(size)))),
		)),
		wire.M("signature", wire.Signature{Seq: 1, Value: suite.RandomBytes(wire.SignatureBytes)}.Object()),
	).Canonical()
}

func (a *agent) packet(from string) []byte { return opaque(from, a.aceID(), a.now.Load(), 64) }

func (r *relay) send(packet, permit []byte) answer { return r.sendFrom("", packet, permit) }

// sendFrom sends from a client network.
func (r *relay) sendFrom(network string, packet, permit []byte) answer {
	r.t.Helper()
	return r.do(sending(network, packet, permit))
}

func sending(network string, packet, permit []byte) call {
	return call{method: "POST", path: "/v1/send", body: relayapi.SendBody(packet, permit), network: network}
}

// with returns the JSON object raw with a member set.
func with(t testing.TB, raw []byte, key string, v wire.Value) []byte {
	t.Helper()
	o, err := wire.Parse(raw, wire.MaxJSONDepth)
	must(t, err)
	return o.With(key, v).Canonical()
}

// within returns raw with a member of one of its objects set.
func within(t testing.TB, raw []byte, object, key string, v wire.Value) []byte {
	t.Helper()
	o, err := wire.Parse(raw, wire.MaxJSONDepth)
	must(t, err)
	inner, ok := o.Get(object)
	if !ok {
		t.Fatalf("no member %s", object)
	}
	return o.With(object, inner.With(key, v)).Canonical()
}

func texts(entries []relayapi.Entry) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = string(e.Packet.Canonical())
	}
	return out
}

func same(t testing.TB, got, want []string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %d entries, want %d:\n%.300v\n%.300v", len(got), len(want), got, want)
	}
}
