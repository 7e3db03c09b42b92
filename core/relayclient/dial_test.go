package relayclient

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/dial"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// namedRelay is a TLS server on loopback that the tests reach as example.com.
type namedRelay struct {
	*testRelay
	url   string
	roots *x509.CertPool
}

func newNamedRelay(t *testing.T) *namedRelay {
	t.Helper()
	r := &testRelay{}
	r.answers = append(r.answers, status(200, okBody))
	r.Server = httptest.NewUnstartedServer(r)
	r.EnableHTTP2 = true
	r.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused certificates
	r.StartTLS()
	t.Cleanup(r.Close)
	u, err := url.Parse(r.URL)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(r.Certificate())
	return &namedRelay{r, "https://example.com:" + u.Port(), roots}
}

// answering resolves every name to the next of the answers, the last for good.
func answering(answers ...[]string) dial.Resolver {
	n := 0
	return func(context.Context, string) ([]netip.Addr, error) {
		answer := answers[min(n, len(answers)-1)]
		n++
		var addrs []netip.Addr
		for _, s := range answer {
			addrs = append(addrs, netip.MustParseAddr(s))
		}
		return addrs, nil
	}
}

func (r *namedRelay) client(t *testing.T, c Config, resolve dial.Resolver) *Client {
	t.Helper()
	c.RootCAs, c.testOnlyResolve, c.Timeout = r.roots, resolve, 20*time.Second
	client := New(c)
	t.Cleanup(client.Close)
	return client
}

func TestBlockedAddresses(t *testing.T) {
	relay := newNamedRelay(t)
	for _, c := range []struct {
		name  string
		urls  wire.URLPolicy
		addrs []string
		code  fault.Code
	}{
		{"loopback", wire.Production, []string{"127.0.0.1"}, fault.BlockedAddress},
		{"loopback in development", wire.Development, []string{"127.0.0.1"}, ""},
		{"private in development", wire.Development, []string{"10.0.0.1"}, fault.BlockedAddress},
		{"one blocked of two", wire.Development, []string{"127.0.0.1", "192.168.0.1"}, fault.BlockedAddress},
		{"mapped", wire.Production, []string{"::ffff:127.0.0.1"}, fault.BlockedAddress},
		{"link-local with a zone", wire.Development, []string{"fe80::1%eth0"}, fault.BlockedAddress},
		{"a dead address before a live one", wire.Development, []string{"127.0.0.77", "127.0.0.1"}, ""},
		{"no address", wire.Development, nil, fault.RelayUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(relay.seen())
			client := relay.client(t, Config{URLs: c.urls}, answering(c.addrs))
			wantCode(t, client.PutCard(t.Context(), relay.url, []byte("{}")), c.code)
			if reached := len(relay.seen()) > before; reached != (c.code == "") {
				t.Fatalf("reached: %v", reached)
			}
		})
	}
}

func TestLiteralAddresses(t *testing.T) {
	never := func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("a literal was resolved") }
	client := New(Config{testOnlyResolve: never})
	defer client.Close()
	for _, relay := range []string{"https://127.0.0.1", "https://10.0.0.1:8443", "https://169.254.169.254", "https://localhost.127.0.0.1"} {
		err := client.PutCard(t.Context(), relay, []byte("{}"))
		want := fault.BlockedAddress
		if relay == "https://localhost.127.0.0.1" { // a name after all
			want = fault.RelayUnavailable
		}
		wantCode(t, err, want)
	}
}

// TestRebinding gives a harmless address first and a blocked one later.
func TestRebinding(t *testing.T) {
	relay := newNamedRelay(t)
	client := relay.client(t, Config{URLs: wire.Development}, answering([]string{"127.0.0.1"}, []string{"10.0.0.1"}))
	must(t, client.PutCard(t.Context(), relay.url, []byte("{}")))
	client.Close() // the next request has to dial
	wantCode(t, client.PutCard(t.Context(), relay.url, []byte("{}")), fault.BlockedAddress)
}

// TestConfiguredRelay reaches any address, but its connections serve no URL
// that was not configured.
func TestConfiguredRelay(t *testing.T) {
	relay := newNamedRelay(t)
	home := relay.url + "/home"
	client := relay.client(t, Config{Configured: []string{home}}, answering([]string{"127.0.0.1"}))
	must(t, client.PutCard(t.Context(), home, []byte("{}")))
	wantCode(t, client.PutCard(t.Context(), relay.url, []byte("{}")), fault.BlockedAddress)
	must(t, client.As(nil).PutCard(t.Context(), home, []byte("{}")))
}

func TestResolverFailure(t *testing.T) {
	relay := newNamedRelay(t)
	broken := errors.New("no such host")
	client := relay.client(t, Config{}, func(context.Context, string) ([]netip.Addr, error) { return nil, broken })
	err := client.PutCard(t.Context(), relay.url, []byte("{}"))
	wantCode(t, err, fault.RelayUnavailable)
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
}

func TestUntrustedCertificate(t *testing.T) {
	relay := newNamedRelay(t)
	relay.roots = x509.NewCertPool()
	client := relay.client(t, Config{URLs: wire.Development}, answering([]string{"127.0.0.1"}))
	wantCode(t, client.PutCard(t.Context(), relay.url, []byte("{}")), fault.RelayUnavailable)
	if len(relay.seen()) != 0 {
		t.Fatal("a request was sent")
	}
}

// TestHTTP2 listens and makes requests over one HTTP/2 connection.
func TestHTTP2(t *testing.T) {
	relay := newNamedRelay(t)
	relay.answers = []http.HandlerFunc{func(w http.ResponseWriter, req *http.Request) {
		if req.ProtoMajor != 2 {
			t.Errorf("the request came over %s", req.Proto)
		}
		if req.URL.Path != "/v1/listen" {
			status(200, okBody)(w, req)
			return
		}
		open(connected+packetEvent("message", 1))(w, req)
	}}
	client := relay.client(t, Config{URLs: wire.Development, Identity: newIdentity(t)}, answering([]string{"127.0.0.1"}))
	r := &recorder{last: "1-0"}
	if err := client.Listen(t.Context(), relay.url, r.listener("-")); err != errEnough {
		t.Fatal(err)
	}
	must(t, client.Ack(t.Context(), relay.url, "1-0", now))
}
