package relaysvc

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// tlsListener makes the handshakes of TLS connections itself, each on a
// goroutine of its own, because what is to be served depends on the outcome:
// net/http takes HTTP/2 from a *tls.Conn alone, and HTTP/1.1 goes through a
// refusingConn.
type tlsListener struct {
	net.Listener
	config *tls.Config
	time   time.Duration // for a handshake
	log    *slog.Logger

	accepted chan accepted
	ctx      context.Context // ends with the listener
	stop     context.CancelFunc
	tasks    sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

// newTLSListener takes over ln. Close ends its goroutines.
func newTLSListener(ln net.Listener, config *tls.Config, handshake time.Duration, log *slog.Logger) *tlsListener {
	config = config.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	l := &tlsListener{Listener: ln, config: config, time: handshake, log: log, accepted: make(chan accepted)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.tasks.Go(l.run)
	return l
}

// Accept returns the next connection whose handshake is over.
func (l *tlsListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.accepted:
		return a.conn, a.err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close stops accepting, gives up the handshakes in progress and waits for
// their goroutines.
func (l *tlsListener) Close() error {
	l.stop()
	err := l.Listener.Close()
	l.tasks.Wait()
	return err
}

func (l *tlsListener) run() {
	for l.ctx.Err() == nil {
		conn, err := l.Listener.Accept()
		if err == nil {
			l.tasks.Go(func() { l.handshake(conn) })
		} else {
			// net/http decides whether to go on, and waits before it does.
			l.hand(accepted{err: err})
		}
	}
}

func (l *tlsListener) handshake(raw net.Conn) {
	ctx, cancel := context.WithTimeout(l.ctx, l.time)
	defer cancel()
	conn := tls.Server(raw, l.config)
	if err := conn.HandshakeContext(ctx); err != nil {
		l.refuse(raw, err)
		return
	}
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		l.hand(accepted{conn: conn})
		return
	}
	l.hand(accepted{conn: &securedConn{refusingConn{Conn: conn, log: l.log}, conn}})
}

// refuse ends a connection without a handshake. A client that speaks plain HTTP
// gets to know.
func (l *tlsListener) refuse(raw net.Conn, err error) {
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
		l.log.Info("request", "route", labelOther, "code", string(fault.InvalidArgument), "status", http.StatusBadRequest)
		_ = raw.SetDeadline(time.Now().Add(lingerTime))
		_, _ = raw.Write(rawRefusal("this relay speaks https"))
	}
	raw.Close()
}

// looksLikeHTTP reports whether what a client sent in place of a record begins
// with a method in upper case.
func looksLikeHTTP(header [5]byte) bool {
	for _, c := range header[:3] {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}

// hand gives the outcome to Accept, or gives it up with the listener.
func (l *tlsListener) hand(a accepted) {
	select {
	case l.accepted <- a:
	case <-l.ctx.Done():
		if a.conn != nil {
			a.conn.Close()
		}
	}
}

// securedConn is a refusingConn over TLS.
type securedConn struct {
	refusingConn
	over *tls.Conn
}

// ConnectionState tells net/http that the connection is one over TLS.
func (c *securedConn) ConnectionState() tls.ConnectionState { return c.over.ConnectionState() }
