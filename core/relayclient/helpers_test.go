package relayclient

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const now = 1760140800

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newIdentity returns an identity whose delegation never ends.
func newIdentity(t *testing.T) *kel.Identity {
	t.Helper()
	root, next, signer := suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed()), suite.NewSigningKey(suite.NewSeed())
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now-1000)
	must(t, err)
	state, err = state.Delegate(root, signer.PublicKey(), now-1000, 0)
	must(t, err)
	return kel.NewIdentity(state, signer)
}

// exchanged is one request that a relay got.
type exchanged struct {
	method, uri, body string
	header            http.Header
}

// testRelay is a real HTTP server on loopback. It records the requests and
// answers each by the next of its answers, the last one for good.
type testRelay struct {
	*httptest.Server
	mu       sync.Mutex
	requests []exchanged
	answers  []http.HandlerFunc
}

func newRelay(t *testing.T, answers ...http.HandlerFunc) *testRelay {
	t.Helper()
	r := &testRelay{answers: answers}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *testRelay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	n := len(r.requests)
	r.requests = append(r.requests, exchanged{req.Method, req.RequestURI, string(body), req.Header})
	answer := r.answers[min(n, len(r.answers)-1)]
	r.mu.Unlock()
	answer(w, req)
}

// seen returns the requests so far.
func (r *testRelay) seen() []exchanged {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]exchanged(nil), r.requests...)
}

// status answers with a status and a JSON body; more are pairs of header
// fields.
func status(code int, body string, more ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", relayapi.MediaJSON)
		for i := 0; i < len(more); i += 2 {
			w.Header().Set(more[i], more[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// hang answers nothing until the client is gone.
func hang(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }

// events answers with a stream of the given bytes and a clean end.
func events(stream string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", relayapi.MediaStream)
		io.WriteString(w, stream)
		w.(http.Flusher).Flush()
	}
}

// cut is events with an end in the middle of the body.
func cut(stream string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		events(stream)(w, req)
		panic(http.ErrAbortHandler)
	}
}

// open is events without an end.
func open(stream string) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		events(stream)(w, req)
		hang(w, req)
	}
}

// newClient returns a client for relays on loopback that waits for nothing and
// records the delays.
func newClient(t *testing.T, id *kel.Identity) (*Client, *[]int64) {
	t.Helper()
	delays := new([]int64)
	c := New(Config{
		Identity: id, URLs: wire.Development, Timeout: 20 * time.Second,
		testOnlyWait: func(ctx context.Context, seconds int64) error {
			*delays = append(*delays, seconds)
			return ctx.Err()
		},
	})
	t.Cleanup(c.Close)
	return c, delays
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("got %q (%v), want %q", fault.CodeOf(err), err, code)
	}
}

// nested returns an object within depth n and no less.
func nested(n int) string { return strings.Repeat(`{"a":`, n) + "{}" + strings.Repeat("}", n) }

func packetEvent(event string, n int) string {
	return string(relayapi.PacketEvent(event, strconv.Itoa(n)+"-0", []byte(`{"n":`+strconv.Itoa(n)+`}`)))
}
