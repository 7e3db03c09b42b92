package relaysvc

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// net/http refuses some requests by itself, before any handler: a request line
// or a header that is malformed, a header over its bound, a transfer coding or
// an expectation that it does not know. It does so in plain text, with statuses
// that 07#errors does not have. A refusingListener is between it and the
// connections, and puts the refusal of the chapter in the place of its own.
type refusingListener struct {
	net.Listener
	log *slog.Logger
}

// Accept returns the next connection.
func (l *refusingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &refusingConn{Conn: conn, log: l.log}, nil
}

// refusingConn replaces what net/http writes when it refuses a request.
type refusingConn struct {
	net.Conn
	log *slog.Logger

	mu      sync.Mutex
	refused bool // guarded by mu
}

// How net/http begins its own refusals, each of which it writes in one piece.
// No answer of a handler has this media type or the status 417, and no body of
// one has a line that ends in CR LF.
var (
	refusalHeader     = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	unmetExpectation  = []byte("HTTP/1.1 417 ")
	headerOverItsSize = []byte("HTTP/1.1 431 ")
	statusLine        = []byte("HTTP/1.1 ")
)

// ownRefusal reports whether net/http itself refuses a request with p.
func ownRefusal(p []byte) bool {
	line, _, _ := bytes.Cut(p, []byte("\r\n"))
	return bytes.HasPrefix(p, unmetExpectation) ||
		bytes.HasPrefix(p, statusLine) && bytes.HasPrefix(p[len(line):], refusalHeader)
}

// Write passes p on, or the refusal that stands for it.
func (c *refusingConn) Write(p []byte) (int, error) {
	if !ownRefusal(p) {
		return c.Conn.Write(p)
	}
	c.mu.Lock()
	c.refused = true
	c.mu.Unlock()
	c.log.Info("request", "route", labelOther, "code", string(fault.InvalidArgument), "status", http.StatusBadRequest)
	message := "malformed request"
	if bytes.HasPrefix(p, headerOverItsSize) {
		message = fmt.Sprintf("header over %d bytes", maxHeaderBytes)
	}
	if _, err := c.Conn.Write(rawRefusal(message)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// rawRefusal returns the bytes of a refusal, after which the connection closes.
func rawRefusal(message string) []byte {
	body := relayapi.ErrorBody(fault.InvalidArgument, message)
	return fmt.Appendf(nil, "HTTP/1.1 400 Bad Request\r\nContent-Type: %s\r\nContent-Length: %d\r\n"+
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n%s", relayapi.MediaJSON, len(body), body)
}

// linger bounds how long and for how many bytes a client may go on writing
// after a refusal. A connection that closes with bytes unread is reset, and the
// client might never see the answer.
const (
	lingerTime  = 250 * time.Millisecond
	lingerBytes = 256 << 10
)

// Close closes the connection, after a refusal not before the client has had
// the time to read it.
func (c *refusingConn) Close() error {
	c.mu.Lock()
	linger := c.refused
	c.refused = false
	c.mu.Unlock()
	if linger && c.CloseWrite() == nil {
		_ = c.SetReadDeadline(time.Now().Add(lingerTime))
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
	return c.Conn.Close()
}

// CloseWrite ends what is sent.
func (c *refusingConn) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite ends what is sent on a connection that can do so.
func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return fmt.Errorf("%T has no half to close", conn)
}
