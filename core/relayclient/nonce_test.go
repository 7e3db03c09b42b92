package relayclient

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// TestFreshNonceOnADeadConnection has a relay that closes a kept connection
// where it should answer: net/http would send the GET again as it is.
func TestFreshNonceOnADeadConnection(t *testing.T) {
	relay := newKeptRelay(t)
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

// keptRelay answers the first request of each connection and closes it at the
// second.
type keptRelay struct {
	url  string
	mu   sync.Mutex
	seen []*http.Request
}

func newKeptRelay(t *testing.T) *keptRelay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	r := &keptRelay{url: "http://" + l.Addr().String()}
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
		if n == 0 {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n"+`{"messages":[],"cursor":null}`)
		}
	}
}

func (r *keptRelay) requests() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen)
}
