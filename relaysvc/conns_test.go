package relaysvc

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
)

// fullListener has no file left for a connection, or was closed.
type fullListener struct {
	net.Listener
	err error
}

func (l fullListener) Accept() (net.Conn, error) { return nil, l.err }

// TestTooManyFiles accepts where there is no file left: the operator gets to
// know, without an address, and no place is lost.
func TestTooManyFiles(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(203, 0, 113, 7), Port: 1}
	for want, err := range map[string]error{
		syscall.EMFILE.Error(): &net.OpError{Op: "accept", Net: "tcp", Addr: address, Err: syscall.EMFILE},
		"":                     &net.OpError{Op: "accept", Net: "tcp", Addr: address, Err: net.ErrClosed},
	} {
		var log bytes.Buffer
		places := newConnections(1)
		l := &boundedListener{fullListener{err: err}, places, slog.New(slog.NewTextHandler(&log, nil))}
		for range 2 {
			if _, got := l.Accept(); !errors.Is(got, err) {
				t.Fatalf("got %v", got)
			}
		}
		if n := places.count(); n != 0 {
			t.Errorf("%d places taken", n)
		}
		text := log.String()
		if !strings.Contains(text, want) || want == "" && text != "" || strings.Contains(text, "203.0.113.7") {
			t.Errorf("logged %q, want %q", text, want)
		}
	}
}
