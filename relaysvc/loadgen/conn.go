package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayclient"
)

const (
	dialTimeout   = 10 * time.Second
	answerTimeout = 60 * time.Second
	maxAnswer     = 64 << 10 // bytes of the answer to a send
	readBuffer    = 4 << 10
)

// target is the relay under load.
type target struct {
	url     string // canonical; also the audience of what is signed
	address string // host:port
	host    string // of the Host header
	prefix  string // of every path
	tls     bool
}

func newTarget(relay string) (target, error) {
	u, err := url.Parse(relay)
	if err != nil {
		return target{}, fault.Wrapf(fault.InvalidArgument, err, "relay URL")
	}
	t := target{url: relay, host: u.Host, address: u.Host, prefix: u.Path, tls: u.Scheme == "https"}
	switch {
	case u.Port() != "":
	case t.tls:
		t.address = net.JoinHostPort(u.Hostname(), "443")
	default:
		t.address = net.JoinHostPort(u.Hostname(), "80")
	}
	return t, nil
}

// conn is one kept connection to the relay. It costs far less than net/http,
// whose client would take a large part of the processors from the relay.
type conn struct {
	net.Conn
	in     *bufio.Reader
	body   []byte      // of the last answer
	unbind func() bool // from the context that it was dialled with
}

// dial connects. The connection is cut when life ends. Code: relay_unavailable.
func (t *target) dial(life context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(life, dialTimeout)
	defer cancel()
	var dialer interface {
		DialContext(context.Context, string, string) (net.Conn, error)
	} = &net.Dialer{}
	if t.tls {
		dialer = &tls.Dialer{Config: &tls.Config{NextProtos: []string{"http/1.1"}}}
	}
	c, err := dialer.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, fault.Wrap(fault.RelayUnavailable, err)
	}
	return &conn{
		Conn: c, in: bufio.NewReaderSize(c, readBuffer),
		unbind: context.AfterFunc(life, func() { c.Close() }),
	}, nil
}

func (c *conn) close() {
	c.unbind()
	c.Close()
}

// exchange writes a whole request and reads the answer. A refusal has the code
// of 07#client-rules and the relay's own in Remote; the connection stays usable
// after it. Every other error is relay_unavailable or relay_protocol_error, and
// ends it.
func (c *conn) exchange(request []byte) error {
	if err := c.SetDeadline(time.Now().Add(answerTimeout)); err != nil {
		return fault.Wrap(fault.RelayUnavailable, err)
	}
	if _, err := c.Write(request); err != nil {
		return fault.Wrap(fault.RelayUnavailable, err)
	}
	status, length, retryAfter, err := c.readHead()
	if err != nil {
		return err
	}
	if length < 0 || length > maxAnswer {
		return fault.New(fault.RelayProtocolError, "an answer to a send without a length, or over %d bytes", maxAnswer)
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	if _, err := io.ReadFull(c.in, c.body); err != nil {
		return fault.Wrap(fault.RelayUnavailable, err)
	}
	if status != 200 {
		return relayclient.ResponseError(status, c.body, retryAfter)
	}
	return nil
}

var (
	contentLength = []byte("content-length")
	retryAfterKey = []byte("retry-after")
)

// readHead reads a status line and the headers that matter. The length is -1
// when the answer does not state it.
func (c *conn) readHead() (status, length int, retryAfter string, err error) {
	line, err := c.line()
	if err != nil {
		return 0, 0, "", err
	}
	// HTTP/1.1 200 OK
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, "", fault.New(fault.RelayProtocolError, "not the status line of HTTP/1.1")
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, "", fault.New(fault.RelayProtocolError, "not an HTTP status")
	}
	for length = -1; ; {
		if line, err = c.line(); err != nil || len(line) == 0 {
			return status, length, retryAfter, err
		}
		key, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case bytes.EqualFold(key, contentLength):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, 0, "", fault.New(fault.RelayProtocolError, "not a Content-Length")
			}
		case bytes.EqualFold(key, retryAfterKey):
			retryAfter = string(bytes.TrimSpace(value))
		}
	}
}

// line returns the next line of a head without its end. It is valid until the
// next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, fault.Wrap(fault.RelayUnavailable, err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}
