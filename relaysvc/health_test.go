package relaysvc_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc"
)

func (r *relay) wantState(path string, status int, state string) {
	r.t.Helper()
	got := r.do(call{method: "GET", path: path})
	if got.status != status || string(got.body) != `{"status":"`+state+`"}` || got.header.Get("Content-Type") != "application/json" {
		r.t.Fatalf("%s: %d %s", path, got.status, got.body)
	}
}

func TestHealth(t *testing.T) {
	r := start(t, nil)
	for _, path := range []string{"/health", "/health/live", "/health/ready"} {
		r.wantState(path, 200, "ok")
	}
	r.expect("not_found", r.do(call{method: "POST", path: "/health/ready"}))
	r.expect("not_found", r.do(call{method: "GET", path: "/health/"}))
}

// TestDiskFloor asks a relay whose disk can never be free enough.
func TestDiskFloor(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Limits.DiskFloor = 1 << 62 })
	r.wantState("/health/ready", 503, "disk_full")
	r.wantState("/health/live", 200, "ok")
}

// TestNotReadyBeforeAcceptingStops drains a relay while a stream waits for its
// turn to be asked away: for the time of the spread others still get in, and
// learn that they should go elsewhere.
func TestNotReadyBeforeAcceptingStops(t *testing.T) {
	const long = 1000 * time.Hour // the moment within it is a random one
	r := start(t, func(c *relaysvc.Config) {
		c.Timeouts.Spread, c.Timeouts.Drain, c.Timeouts.Heartbeat = long, 2*long, long
	})
	a := r.registered()
	l := a.listen("-")
	l.want("connected", "")
	r.wantState("/health/ready", 200, "ok")
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.stop()
	}()
	for until := time.Now().Add(patience); r.do(call{method: "GET", path: "/health/ready"}).status == http.StatusOK; {
		if time.Now().After(until) {
			t.Fatal("the relay stays ready")
		}
	}
	r.wantState("/health/ready", 503, "draining")
	r.wantState("/health", 503, "draining")
	r.wantState("/health/live", 200, "ok")
	r.expect("ok", a.inbox())
	r.expect("rate_limited", r.do(call{method: "GET", path: "/v1/listen", header: a.signed(kel.ActionListen, relayapi.ListenPayload("-"))}))
	must(t, l.close())
	r.server.ForgetWatchers()
	<-stopped
}

// TestOperations moves the operator's paths to a listener of their own.
func TestOperations(t *testing.T) {
	server, err := relaysvc.New(relaysvc.Config{Development: true, DBPath: filepath.Join(t.TempDir(), "data", "relay.db")})
	must(t, err)
	main, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ops, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server.MoveOperations(ops)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, main) }()
	for _, c := range []struct {
		ln     net.Listener
		path   string
		status int
	}{
		{main, "/health", 200}, {main, "/health/live", 404}, {main, "/health/ready", 404}, {main, "/metrics", 404}, {main, "/v1/cards", 200},
		{ops, "/health", 200}, {ops, "/health/live", 200}, {ops, "/health/ready", 200}, {ops, "/metrics", 200}, {ops, "/v1/cards", 404},
	} {
		resp, err := http.Get("http://" + c.ln.Addr().String() + c.path)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != c.status || c.status == 404 && !strings.Contains(string(body), `"not_found"`) {
			t.Errorf("%s: %d %.100s", c.path, resp.StatusCode, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	must(t, <-ended)
	must(t, server.Close())
	if _, err := http.Get("http://" + ops.Addr().String() + "/health"); err == nil {
		t.Error("the listener for operations outlives the relay")
	}
}

// TestConnectionsAreBounded fills the places for connections with requests in
// progress. One more waits until another leaves.
func TestConnectionsAreBounded(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Limits.Connections = 2 })
	const unfinished = "POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{"
	first, second, third := r.tap(t), r.tap(t), r.tap(t)
	for _, w := range []*wireTap{first, second, third} {
		w.write(unfinished)
	}
	third.write("}")
	answered := func(w *wireTap, within time.Duration) bool {
		must(t, w.conn.SetReadDeadline(time.Now().Add(within)))
		n, err := w.conn.Read(make([]byte, 4096))
		return err == nil && n > 0
	}
	if answered(third, 50*time.Millisecond) {
		t.Fatal("a connection beyond the bound gets an answer")
	}
	must(t, first.conn.Close())
	if !answered(third, patience) {
		t.Fatal("the place of a connection that left is not given away again")
	}
	second.write("}")
	if !answered(second, patience) {
		t.Fatal("a connection within the bound gets no answer")
	}
}

// TestIdleConnectionsMakeRoom fills the places for connections on which nothing
// is asked any more, which anybody can do for long. Others come in all the same,
// and a stream stays where it is.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	p := newPairFiles(t)
	for name, start := range map[string]func(testing.TB, func(*relaysvc.Config)) *relay{
		"plain": start,
		"TLS":   func(t testing.TB, change func(*relaysvc.Config)) *relay { return startTLS(t, p, change) },
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, func(c *relaysvc.Config) { c.Limits.Connections, c.Timeouts.Idle = 3, time.Hour })
			a := r.registered()
			l := a.listen("-")
			l.want("connected", "")
			for range 6 {
				if name == "TLS" {
					r.client.Transport = r.transport(p) // connections of its own
				} else {
					r.client.Transport = r.client.Transport.(*http.Transport).Clone()
				}
				r.client.Timeout = patience
				r.expect("ok", a.block(strangerID(), true, 1))
			}
			from := strangerID()
			queued := a.packet(from)
			r.expect("ok", r.send(queued, a.permit(from)))
			l.want("message", string(queued))
		})
	}
}
