package relayclient

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
)

// TestFreshNonceOnADeadConnection has a relay that closes a kept connection
// where it should answer: net/http would send the GET again as it is.
func TestFreshNonceOnADeadConnection(t *testing.T) {
	relay := newKeptRelay(t, "")
	client, _ := newClient(t, newIdentity(t))
	for range 2 {
		_, err := client.Inbox(t.Context(), relay.url, "-", 1, now)
		must(t, err)
	}
	nonces := map[string]bool{}
	for _, r := range relay.requests() {
		nonces[r.Header.Get("X-ACE-Nonce")] = true
		if len(r.TransferEncoding) > 0 || r.Header.Get("Content-Length") != "" {
			t.Errorf("a GET has a body: %v %v", r.TransferEncoding, r.Header)
		}
	}
	if got := len(relay.requests()); got != 3 || len(nonces) != 3 {
		t.Fatalf("%d requests with %d nonces, want 3 with 3", got, len(nonces))
	}
}

// TestHalfAnAnswerIsAFailure has a relay that begins to answer on a kept
// connection and closes it: that was alive, and the failure counts, so that a
// listener backs off (07#client-rules).
func TestHalfAnAnswerIsAFailure(t *testing.T) {
	relay := newKeptRelay(t, "HTTP/1.1 200 OK\r\nContent-")
	client, _ := newClient(t, newIdentity(t))
	_, err := client.Inbox(t.Context(), relay.url, "-", 1, now)
	must(t, err)
	_, err = client.Inbox(t.Context(), relay.url, "-", 1, now)
	wantCode(t, err, fault.RelayUnavailable)
	if got := len(relay.requests()); got != 2 {
		t.Fatalf("%d requests, want 2", got)
	}
}

// keptRelay answers the first request of each connection, and closes it at the
// second after a part of an answer.
type keptRelay struct {
	url  string
	part string
	mu   sync.Mutex
	seen []*http.Request
}

func newKeptRelay(t *testing.T, part string) *keptRelay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	r := &keptRelay{url: "http://" + l.Addr().String(), part: part}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r
}

func (r *keptRelay) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for n := range 2 {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.seen = append(r.seen, req)
		r.mu.Unlock()
		if n > 0 {
			io.WriteString(conn, r.part)
		} else {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n"+`{"messages":[],"cursor":null}`)
		}
	}
}

func (r *keptRelay) requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}
