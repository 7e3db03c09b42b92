package relaysvc_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc"
)

// TestReloadLimits changes limits under a running relay.
func TestReloadLimits(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r := &relay{t: t, url: "http://" + ln.Addr().String(), client: client}
	r.now.Store(epoch)
	before := relaysvc.Limits{StreamsPerIdentity: 1, Connections: 2}
	server, err := relaysvc.New(relaysvc.Config{
		Development: true, DBPath: filepath.Join(t.TempDir(), "data", "relay.db"), Clock: r.now.Load, Limits: before,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, ln) }()

	a := r.registered()
	a.listen("-").want("connected", "")
	listen := call{method: "GET", path: "/v1/listen", header: a.signed(kel.ActionListen, relayapi.ListenPayload("-"))}
	r.expect("rate_limited", r.do(listen))
	if err := server.Reload(relaysvc.Limits{BlockPeers: 1}); fault.CodeOf(err) != fault.InvalidArgument {
		t.Fatalf("wrong limits: %v", err)
	}
	r.expect("rate_limited", r.do(listen))

	must(t, server.Reload(relaysvc.Limits{StreamsPerIdentity: 3, Connections: 4, Publications: 2}))
	// Two streams and the request: one connection more than there were places.
	a.listen("-").want("connected", "")
	r.expect("ok", a.register(epoch+1))
	r.expect("rate_limited", a.register(epoch+2))
	s := r.scrape()
	s.want("connections_limit", 4)
	s.want("listen_streams_limit", 10_000)

	cancel()
	must(t, <-ended)
	must(t, server.Close())
}

// TestReloadCertificate reads a certificate anew without waiting for the next
// look at its files.
func TestReloadCertificate(t *testing.T) {
	p := newPairFiles(t)
	config := relaysvc.Config{
		PublicURL: "https://relay.example", DBPath: filepath.Join(t.TempDir(), "data", "relay.db"), TLSCert: p.cert, TLSKey: p.key,
		Clock: func() int64 { return epoch }, Timeouts: relaysvc.Timeouts{Spread: time.Millisecond},
	}
	server, err := relaysvc.New(config)
	must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, ln) }()
	r := &relay{t: t, client: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, ln.Addr().String())
	}}}}
	serial := func() int64 {
		transport := r.transport(p)
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get("https://relay.example/health")
		must(t, err)
		resp.Body.Close()
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	p.renew(2)
	must(t, server.Reload(relaysvc.Limits{}))
	if n := serial(); n != 2 {
		t.Errorf("certificate %d after a reload", n)
	}
	must(t, os.Remove(p.key))
	if err := server.Reload(relaysvc.Limits{}); err == nil {
		t.Error("a key that is gone was read")
	}
	if n := serial(); n != 2 {
		t.Errorf("certificate %d after a reload that failed", n)
	}
	cancel()
	must(t, <-ended)
	must(t, server.Close())
}
