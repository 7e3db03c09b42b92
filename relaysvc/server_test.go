package relaysvc_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

func TestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "relay.db")
	for _, c := range []struct {
		name   string
		config relaysvc.Config
		want   fault.Code
	}{
		{"good", relaysvc.Config{PublicURL: "https://relay.example/path", DBPath: path}, ""},
		{"development without a URL", relaysvc.Config{Development: true, DBPath: path}, ""},
		{"no URL", relaysvc.Config{DBPath: path}, fault.InvalidArgument},
		{"a URL that is not canonical", relaysvc.Config{PublicURL: "https://Relay.example", DBPath: path}, fault.InvalidArgument},
		{"http in production", relaysvc.Config{PublicURL: "http://127.0.0.1:1", DBPath: path}, fault.InvalidArgument},
		{"http on a public host", relaysvc.Config{PublicURL: "http://relay.example", Development: true, DBPath: path}, fault.InvalidArgument},
		{"no store", relaysvc.Config{PublicURL: "https://relay.example"}, fault.InvalidArgument},
		{"block cap", relaysvc.Config{PublicURL: "https://relay.example", DBPath: path, Limits: relaysvc.Limits{BlockPeers: wire.MinBlockCap - 1}}, fault.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, err := relaysvc.New(c.config)
			if fault.CodeOf(err) != c.want {
				t.Fatalf("got %v, want code %q", err, c.want)
			}
			if err == nil {
				must(t, server.Close())
			}
		})
	}
}

func TestStoreIsOpenOnce(t *testing.T) {
	r := start(t, nil)
	_, err := relaysvc.New(relaysvc.Config{PublicURL: "https://relay.example", DBPath: r.path})
	if fault.CodeOf(err) != fault.LockBusy {
		t.Fatalf("got %v", err)
	}
}

func TestLoopbackURL(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080", "[::1]:8080": "http://[::1]:8080", "127.0.0.2:8080": "", "192.0.2.1:8080": "", "[::]:8080": "",
	} {
		addr, err := net.ResolveTCPAddr("tcp", address)
		must(t, err)
		got, err := relaysvc.LoopbackURL(addr)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
}

// TestAudienceFromTheSocket serves a development relay without a public URL.
func TestAudienceFromTheSocket(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.PublicURL = "" })
	r.expect("ok", r.registered().inbox())
}

func TestPublicationRate(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Limits.Publications = 2 })
	a, b := r.registered(), r.newAgent()
	r.expect("ok", a.post("/v1/descriptor", a.descriptor(-1).Raw()))
	got := b.register(epoch)
	r.expect("rate_limited", got)
	if after := got.header.Get("Retry-After"); after != "30" {
		t.Fatalf("Retry-After %s, want the seconds until one more is allowed", after)
	}
	r.expect("ok", r.do(call{method: "POST", path: "/v1/register", body: b.registration(epoch), network: "198.51.100.1"}))
	r.now.Add(30)
	r.expect("ok", a.register(epoch+1))
}

// TestPageBytes fills a queue with more than a page holds.
func TestPageBytes(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	from := strangerID()
	permit := a.permit(from)
	var want []string
	for range 7 {
		p := opaque(from, a.aceID(), epoch, wire.MaxPlaintextBytes)
		r.expect("ok", r.send(p, permit))
		want = append(want, string(p))
	}
	var got []string
	pages, since := 0, "-"
	for {
		page := r.do(call{method: "GET", path: "/v1/inbox?since=" + since, header: a.signed(kel.ActionInbox, relayapi.InboxPayload(since, 100))})
		r.expect("ok", page)
		if len(page.body) > wire.MaxPageBytes {
			t.Fatalf("a page of %d bytes", len(page.body))
		}
		entries, err := relayapi.ParseInboxPage(page.body, since)
		must(t, err)
		if len(entries) == 0 {
			break
		}
		got, since = append(got, texts(entries)...), entries[len(entries)-1].StreamID
		pages++
	}
	same(t, got, want)
	if pages < 2 {
		t.Fatal("the queue fits in one page: the test shows nothing")
	}
}

// TestUnregisterCutsABlockedStream unregisters while a stream waits for a
// client that does not read.
func TestUnregisterCutsABlockedStream(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Timeouts.Write = time.Hour })
	a := r.registered()
	from := strangerID()
	const n = 16 // more than the buffers of a connection hold
	for range n {
		r.expect("ok", r.send(opaque(from, a.aceID(), epoch, wire.MaxPlaintextBytes), a.permit(from)))
	}
	req, err := http.NewRequest("GET", r.url+"/v1/listen", nil)
	must(t, err)
	req.Header = a.signed(kel.ActionListen, relayapi.ListenPayload("-"))
	resp, err := r.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	_, err = io.ReadFull(resp.Body, make([]byte, 100_000)) // it has begun
	must(t, err)
	r.expect("ok", a.unregister(epoch+1))
	r.expect("ok", a.register(epoch+2))
	r.expect("ok", a.inbox())
	// What was on its way arrives, and then the stream is cut off.
	body, err := io.ReadAll(resp.Body)
	if events := bytes.Count(body, []byte("id: ")); err == nil || events > n/2 {
		t.Fatalf("%d events, and then %v", events, err)
	}
}

// lines counts what is logged.
type lines struct {
	slog.Handler
	n *atomic.Int64
}

func (l lines) Handle(context.Context, slog.Record) error {
	l.n.Add(1)
	return nil
}

// TestFailures breaks the store under a relay: requests fail with
// internal_error, the log and GET /health say so, and what a client that hangs
// up leaves behind is logged by nobody.
func TestFailures(t *testing.T) {
	var logged atomic.Int64
	server, err := relaysvc.New(relaysvc.Config{
		PublicURL: "https://relay.example",
		DBPath:    filepath.Join(t.TempDir(), "data", "relay.db"),
		Log:       lines{slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelWarn}), &logged},
	})
	must(t, err)
	get := func(ctx context.Context, path string) answer {
		rec := httptest.NewRecorder()
		server.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, "GET", path, nil))
		return answer{rec.Code, rec.Header(), rec.Body.Bytes()}
	}
	get(t.Context(), "/health").expect(t, "ok")
	must(t, server.Close())
	if got := get(t.Context(), "/health"); got.status != http.StatusServiceUnavailable {
		t.Fatalf("health of a broken relay: %d %s", got.status, got.body)
	}
	card := "/v1/card/" + strangerID()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	get(gone, card).expect(t, "internal_error")
	if n := logged.Load(); n != 0 {
		t.Fatalf("%d lines for a client that is gone", n)
	}
	get(t.Context(), card).expect(t, "internal_error")
	if n := logged.Load(); n != 1 {
		t.Fatalf("%d lines for a failure", n)
	}
}
