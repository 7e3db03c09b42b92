package relaysvc_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/relaysvc"
)

// The frames of RFC 9113 that the test needs.
const (
	frameHeaders  = 1
	frameReset    = 3
	frameSettings = 4
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	b := append([]byte{0, byte(len(payload) >> 8), byte(len(payload)), kind, flags}, binary.BigEndian.AppendUint32(nil, stream)...)
	return append(b, payload...)
}

// field is a header field that is neither indexed nor compressed.
func field(name, value string) []byte {
	b := append([]byte{0, byte(len(name))}, name...)
	return append(append(b, byte(len(value))), value...)
}

// stall asks for a path n times over one connection of HTTP/2, and lets no byte
// of an answer come.
func (r *relay) stall(p *pairFiles, path string, n int) *tls.Conn {
	r.t.Helper()
	raw, err := r.client.Transport.(*http.Transport).DialContext(r.t.Context(), "tcp", "")
	must(r.t, err)
	conn := tls.Client(raw, &tls.Config{RootCAs: p.roots, ServerName: "relay.example", NextProtos: []string{"h2"}})
	r.t.Cleanup(func() { conn.Close() })
	must(r.t, conn.SetDeadline(time.Now().Add(patience)))
	noWindow := []byte{0, 4, 0, 0, 0, 0}
	text := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(frameSettings, 0, 0, noWindow)...)
	header := bytes.Join([][]byte{field(":method", "GET"), field(":scheme", "https"), field(":authority", "relay.example"), field(":path", path)}, nil)
	for i := range n {
		const endStream, endHeaders = 1, 4
		text = append(text, frame(frameHeaders, endStream|endHeaders, uint32(2*i+1), header)...)
	}
	_, err = conn.Write(text)
	must(r.t, err)
	return conn
}

// wantFrames reads until n frames of a kind have come.
func wantFrames(t *testing.T, conn io.Reader, kind byte, n int) {
	t.Helper()
	for head := make([]byte, 9); n > 0; {
		_, err := io.ReadFull(conn, head)
		must(t, err)
		if head[3] == kind {
			n--
		}
		_, err = io.CopyN(io.Discard, conn, int64(head[0])<<16|int64(head[1])<<8|int64(head[2]))
		must(t, err)
	}
}

// TestManyRequestsOverOneConnection whose answers nobody reads: as many stay as
// there may be connections, and the others are given up soon.
func TestManyRequestsOverOneConnection(t *testing.T) {
	p := newPairFiles(t)
	r := startTLS(t, p, func(c *relaysvc.Config) {
		c.Limits.Connections = 10
		c.Timeouts.Body, c.Timeouts.Write = time.Hour, time.Hour
	})
	conn := r.stall(p, "/health", 50)
	wantFrames(t, conn, frameReset, 40)
	r.expect("rate_limited", r.do(call{method: "GET", path: "/health"}))
	conn.Close()
	for deadline := time.Now().Add(patience); r.do(call{method: "GET", path: "/health"}).status != http.StatusOK; {
		if time.Now().After(deadline) {
			t.Fatal("the places do not come back")
		}
	}
}

// TestUnreadMetrics takes no more memory than there is for what anybody may ask
// for.
func TestUnreadMetrics(t *testing.T) {
	p := newPairFiles(t)
	r := startTLS(t, p, func(c *relaysvc.Config) {
		c.Limits.BodyMemory = 512 << 10 // for four pages
		c.Timeouts.Body, c.Timeouts.Write = time.Hour, time.Hour
	})
	other := r.bystander()
	conn := r.stall(p, "/metrics", 10)
	wantFrames(t, conn, frameHeaders, 10)
	r.expect("rate_limited", r.do(call{method: "GET", path: "/metrics"}))
	other.isServed(t)
}
