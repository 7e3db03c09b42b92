// Package relayclient speaks the relay's HTTP binding from the client's side
// (07#client-rules): one exchange per method, the stream of 07#listen, the
// blocked-address policy on every dial, and the mapping of refusals to codes.
//
// Start at [New]. Methods take the relay's base URL and the clock reading.
// What a relay returns is bounded, parsed strictly and handed on unverified:
// the caller verifies every descriptor, card record and packet. Nothing here
// logs.
package relayclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"github.com/ace-toolkit/ace/core/dial"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// Config of a Client. The zero value makes anonymous requests in production.
type Config struct {
	// Identity signs requests; nil allows only those that need no signature.
	Identity *kel.Identity
	// URLs says which relay URLs are accepted. Development also accepts http
	// with a loopback host, and loopback addresses everywhere.
	URLs wire.URLPolicy
	// Configured lists the relays that the owner chose, by canonical URL. Their
	// hosts may have any address. Every other URL counts as taken from a
	// descriptor, and its addresses have to pass 07#client-rules.
	Configured []string
	// RootCAs are the certificate authorities trusted; nil is the system's.
	RootCAs *x509.CertPool
	// Timeout bounds one exchange, connecting included. 0 is 30 seconds.
	Timeout time.Duration
	// Idle bounds the silence of a stream, heartbeats included. 0 is 5 minutes:
	// 07 states no interval for heartbeats.
	Idle time.Duration

	// Transport carries the requests in place of connections of the client's own,
	// for tests without a network. The blocked-address policy, which is one on
	// connections, is then not applied. Default: nil.
	Transport http.RoundTripper

	// Trace is told of each HTTP attempt when it has an answer or has failed, also
	// from several goroutines at once. Default: nil.
	Trace func(Exchange)
	// Heard is told whenever a stream brings something, heartbeats included.
	// Default: nil.
	Heard func()

	testOnlyResolve dial.Resolver                                  // nil: the system's
	testOnlyWait    func(ctx context.Context, seconds int64) error // nil: a timer
}

const (
	defaultTimeout = 30 * time.Second
	defaultIdle    = 5 * time.Minute

	maxHeaderBytes = 64 << 10
	keptFor        = 90 * time.Second
)

// Client makes requests to relays, over connections that it keeps. It is safe
// for concurrent use and does not change once made.
type Client struct {
	id         *kel.Identity
	urls       wire.URLPolicy
	configured map[string]bool
	timeout    time.Duration
	idle       time.Duration
	wait       func(ctx context.Context, seconds int64) error
	trace      func(Exchange) // nil: nobody is told
	heard      func()         // nil: nobody is told

	// Two pools, so that a connection made without the address policy never
	// carries a request that needs it.
	own, other *http.Client
}

// New returns a client. Close it to drop its kept connections.
func New(c Config) *Client {
	client := &Client{
		id:         c.Identity,
		urls:       c.URLs,
		configured: make(map[string]bool, len(c.Configured)),
		timeout:    failpoint.Silence(orDefault(c.Timeout, defaultTimeout)),
		idle:       failpoint.Silence(orDefault(c.Idle, defaultIdle)),
		wait:       wait,
		trace:      c.Trace,
		heard:      c.Heard,
	}
	if c.testOnlyWait != nil {
		client.wait = c.testOnlyWait
	}
	for _, relay := range c.Configured {
		client.configured[relay] = true
	}
	resolve := c.testOnlyResolve
	if resolve == nil {
		resolve = dial.SystemResolver
	}
	client.own = client.newHTTP(&dial.Dialer{Resolve: resolve, Allowed: dial.Any}, c)
	client.other = client.newHTTP(&dial.Dialer{Resolve: resolve, Allowed: relayapi.Unblocked(c.URLs)}, c)
	return client
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

func (c *Client) newHTTP(d *dial.Dialer, config Config) *http.Client {
	transport := config.Transport
	if transport == nil {
		transport = &http.Transport{
			// No proxy, also not from the environment: it would resolve the host
			// itself, out of reach of the address policy.
			Proxy:                  nil,
			DialContext:            d.DialContext,
			TLSClientConfig:        &tls.Config{RootCAs: config.RootCAs, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    c.timeout,
			ResponseHeaderTimeout:  c.timeout,
			IdleConnTimeout:        keptFor,
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableCompression:     true,
		}
	}
	return &http.Client{
		Transport: transport,
		// 07#client-rules: redirects are never followed. The 3xx answer itself
		// is what the exchange then judges.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// As returns a client that signs as id over the same connections: the owner
// makes one after changing the signing key.
func (c *Client) As(id *kel.Identity) *Client {
	other := *c
	other.id = id
	return &other
}

// Close drops the kept connections, also those shared through As.
func (c *Client) Close() {
	c.own.CloseIdleConnections()
	c.other.CloseIdleConnections()
}

// pool returns the connections over which relay may be reached, after checking
// its URL. Code: invalid_argument.
func (c *Client) pool(relay string) (*http.Client, error) {
	if err := wire.CheckRelayURL(relay, c.urls); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	if c.configured[relay] {
		return c.own, nil
	}
	return c.other, nil
}
