package relaysvc_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc"
)

// pairFiles are the files of a certificate and its key for relay.example.
type pairFiles struct {
	t         testing.TB
	cert, key string
	writes    int64
	roots     *x509.CertPool
	ends      time.Time // of the validity of what is made next
}

func newPairFiles(t testing.TB) *pairFiles {
	dir := t.TempDir()
	p := &pairFiles{t: t, cert: filepath.Join(dir, "relay.crt"), key: filepath.Join(dir, "relay.key"), roots: x509.NewCertPool(), ends: time.Now().Add(time.Hour)}
	p.renew(1)
	return p
}

// pair makes a certificate with a serial number, and its key.
func (p *pairFiles) pair(serial int64) (cert, key []byte) {
	p.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(p.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{"relay.example"},
		NotBefore: time.Unix(epoch, 0).Add(-time.Hour), NotAfter: p.ends,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(p.t, err)
	parsed, err := x509.ParseCertificate(der)
	must(p.t, err)
	p.roots.AddCert(parsed)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	must(p.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func (p *pairFiles) renew(serial int64) {
	p.t.Helper()
	cert, key := p.pair(serial)
	p.write(p.cert, cert)
	p.write(p.key, key)
}

// write replaces a file and makes it look newer than before, whatever the
// clock of the file system can tell apart.
func (p *pairFiles) write(path string, text []byte) {
	p.t.Helper()
	must(p.t, os.WriteFile(path, text, 0o600))
	p.writes++
	must(p.t, os.Chtimes(path, time.Time{}, time.Unix(epoch+p.writes, 0)))
}

// startTLS runs a relay that speaks TLS as https://relay.example, with a client
// that trusts its certificates.
func startTLS(t testing.TB, p *pairFiles, change func(*relaysvc.Config)) *relay {
	t.Helper()
	r := &relay{t: t, path: filepath.Join(t.TempDir(), "data", "relay.db"), url: "https://relay.example"}
	r.now.Store(epoch)
	r.run(func(c *relaysvc.Config) {
		c.Development, c.TLSCert, c.TLSKey, c.Timeouts.Spread = false, p.cert, p.key, time.Millisecond
		if change != nil {
			change(c)
		}
	})
	t.Cleanup(func() { r.stop() })
	r.client.Transport = r.transport(p)
	return r
}

// transport returns a new one, with connections of its own.
func (r *relay) transport(p *pairFiles) *http.Transport {
	r.t.Helper()
	transport := &http.Transport{
		DialContext:       r.client.Transport.(*http.Transport).DialContext,
		TLSClientConfig:   &tls.Config{RootCAs: p.roots},
		ForceAttemptHTTP2: true,
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// TestHTTP2 registers, sends and listens over one connection of HTTP/2.
func TestHTTP2(t *testing.T) {
	r := startTLS(t, newPairFiles(t), nil)
	resp, err := r.client.Get(r.url + "/health")
	must(t, err)
	resp.Body.Close()
	if resp.ProtoMajor != 2 {
		t.Fatalf("the client speaks %s", resp.Proto)
	}
	a, from := r.registered(), strangerID()
	before := opaque(from, a.aceID(), epoch, 64)
	r.expect("ok", r.send(before, a.permit(from)))
	l := a.listen("-")
	l.want("connected", "")
	l.want("catchup", string(before))
	after := opaque(from, a.aceID(), epoch, 64)
	r.expect("ok", r.send(after, a.permit(from)))
	l.want("message", string(after))
	if n := len(a.messages()); n != 2 {
		t.Fatalf("%d entries", n)
	}
	r.expect("ok", a.unregister(epoch+1))
	l.wantEnd()
	// The other streams of the connection go on.
	r.expect("ok", a.register(epoch+2))
	l = a.listen("-")
	l.want("connected", "")
	r.stop()
	l.want("drain", "")
	l.wantEnd()
}

func TestTLSHeaders(t *testing.T) {
	header := func(r *relay) string {
		resp, err := r.client.Get(r.url + "/nowhere")
		must(t, err)
		resp.Body.Close()
		return resp.Header.Get("Strict-Transport-Security")
	}
	p := newPairFiles(t)
	r := startTLS(t, p, nil)
	if got := header(r); !strings.HasPrefix(got, "max-age=") {
		t.Errorf("with TLS: %q", got)
	}
	if got := header(start(t, nil)); got != "" {
		t.Errorf("without TLS: %q", got)
	}
	for version, works := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		raw, err := r.transport(p).DialContext(t.Context(), "tcp", "")
		must(t, err)
		conn := tls.Client(raw, &tls.Config{RootCAs: p.roots, ServerName: "relay.example", MinVersion: version, MaxVersion: version})
		if err := conn.Handshake(); (err == nil) != works {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		conn.Close()
	}
}

// TestNoHTTP2WithoutTLS speaks HTTP/2 to a plain relay as a client does that
// knows the server to speak it.
func TestNoHTTP2WithoutTLS(t *testing.T) {
	r := start(t, nil)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{DialContext: r.client.Transport.(*http.Transport).DialContext, Protocols: &protocols}
	defer transport.CloseIdleConnections()
	if resp, err := (&http.Client{Transport: transport}).Get(r.url + "/health"); err == nil {
		t.Fatalf("the relay answers with %s", resp.Proto)
	}
}

// syncBuffer is a log that a test reads while the relay writes.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestCertificateFollowsItsFiles renews the certificate under a running relay:
// whole, in halves and broken.
func TestCertificateFollowsItsFiles(t *testing.T) {
	p, log := newPairFiles(t), &syncBuffer{}
	r := startTLS(t, p, func(c *relaysvc.Config) { c.Log = slog.NewTextHandler(log, nil) })
	serial := func() int64 {
		t.Helper()
		transport := r.transport(p)
		defer transport.CloseIdleConnections()
		resp, err := (&http.Client{Transport: transport}).Get(r.url + "/health")
		must(t, err)
		resp.Body.Close()
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	want := func(n int64, when string) {
		t.Helper()
		if got := serial(); got != n {
			t.Fatalf("%s: certificate %d, want %d", when, got, n)
		}
	}
	want(1, "at first")
	p.renew(2)
	want(1, "within the seconds between two looks")
	r.now.Add(5)
	want(2, "renewed")

	cert, key := p.pair(3)
	p.write(p.cert, cert)
	r.now.Add(5)
	want(2, "half renewed")
	r.now.Add(5)
	want(2, "half renewed still")
	if n := strings.Count(log.String(), "stays as it was"); n != 1 {
		t.Fatalf("%d lines about half a renewal:\n%s", n, log)
	}
	p.write(p.key, key)
	r.now.Add(5)
	want(3, "renewed whole")

	p.write(p.key, []byte("nonsense"))
	r.now.Add(5)
	want(3, "broken")
	must(t, os.Remove(p.cert))
	r.now.Add(5)
	want(3, "gone")
	p.renew(4)
	must(t, os.Chmod(p.key, 0o644))
	r.now.Add(5)
	want(3, "with a key that others can read")
	must(t, os.Chmod(p.key, 0o600))
	r.now.Add(5)
	want(4, "mended")

	p.ends = time.Unix(epoch, 0).Add(-time.Minute)
	p.renew(5)
	r.now.Add(5)
	want(4, "with one that has expired")
	if !strings.Contains(log.String(), p.cert+" has expired") {
		t.Errorf("nothing about an expired certificate:\n%s", log)
	}
}

// TestCertificateNobodyTakes loads certificates that clients refuse: the relay
// serves with them, and says so.
func TestCertificateNobodyTakes(t *testing.T) {
	for name, c := range map[string]struct {
		url, want string
		ends      time.Duration
	}{
		"good":      {"https://relay.example", "", time.Hour},
		"expired":   {"https://relay.example", "has expired", -time.Second},
		"other URL": {"https://relay.test", "not one for relay.test", time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			p, log := newPairFiles(t), &syncBuffer{}
			p.ends = time.Unix(epoch, 0).Add(c.ends)
			p.renew(2)
			config := relaysvc.Config{
				PublicURL: c.url, DBPath: filepath.Join(t.TempDir(), "data", "relay.db"), TLSCert: p.cert, TLSKey: p.key,
				Clock: func() int64 { return epoch }, Log: slog.NewTextHandler(log, nil),
			}
			warning, err := relaysvc.CheckTLS(config)
			must(t, err)
			if !strings.Contains(warning, c.want) || c.want == "" && warning != "" {
				t.Errorf("checked: %q, want %q", warning, c.want)
			}
			server, err := relaysvc.New(config)
			must(t, err)
			must(t, server.Close())
			if !strings.Contains(log.String(), c.want) || c.want == "" && log.String() != "" {
				t.Errorf("logged: %q, want %q", log, c.want)
			}
		})
	}
}

// TestTLSFiles refuses to start with files that cannot be used.
func TestTLSFiles(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*pairFiles, *relaysvc.Config)
		want  fault.Code
	}{
		"good":                     {func(*pairFiles, *relaysvc.Config) {}, ""},
		"no key":                   {func(_ *pairFiles, c *relaysvc.Config) { c.TLSKey = "" }, fault.InvalidArgument},
		"no certificate":           {func(p *pairFiles, _ *relaysvc.Config) { os.Remove(p.cert) }, fault.InvalidArgument},
		"other key":                {func(p *pairFiles, _ *relaysvc.Config) { _, key := p.pair(2); p.write(p.key, key) }, fault.InvalidArgument},
		"key open to others":       {func(p *pairFiles, _ *relaysvc.Config) { os.Chmod(p.key, 0o640) }, fault.InvalidArgument},
		"key guarded by others":    {func(p *pairFiles, c *relaysvc.Config) { os.Chmod(p.key, 0o440); c.TLSKeyGuarded = true }, ""},
		"heartbeats too rare":      {func(_ *pairFiles, c *relaysvc.Config) { c.Timeouts.Heartbeat = time.Hour }, fault.InvalidArgument},
		"spread longer than drain": {func(_ *pairFiles, c *relaysvc.Config) { c.Timeouts.Spread = time.Hour }, fault.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPairFiles(t)
			config := relaysvc.Config{
				PublicURL: "https://relay.example", DBPath: filepath.Join(t.TempDir(), "data", "relay.db"), TLSCert: p.cert, TLSKey: p.key,
			}
			c.spoil(p, &config)
			server, err := relaysvc.New(config)
			if fault.CodeOf(err) != c.want {
				t.Fatalf("got %v, want code %q", err, c.want)
			}
			if err == nil {
				must(t, server.Close())
			}
		})
	}
}

// TestLogHasNoHandshakes fails handshakes and looks for the address of who did
// it in the log.
func TestLogHasNoHandshakes(t *testing.T) {
	p, log := newPairFiles(t), &syncBuffer{}
	r := startTLS(t, p, func(c *relaysvc.Config) {
		c.Log = slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})
	})
	conn, err := r.client.Transport.(*http.Transport).DialContext(context.Background(), "tcp", "")
	must(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
	must(t, err)
	_, err = io.ReadAll(conn)
	must(t, err)
	conn.Close()
	r.stop()
	if text := log.String(); strings.Contains(text, "127.0.0.1") || !strings.Contains(text, "draining") {
		t.Fatalf("the log says %q", text)
	}
}
