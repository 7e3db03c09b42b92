package relaysvc_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/relaysvc"
)

// fuzzing is a running relay with an agent that is published there.
type fuzzing struct {
	*player
	failures *failures
}

// failures keeps what a relay logs as its own failure.
type failures struct {
	slog.Handler
	mu    sync.Mutex
	lines []string // guarded by mu
}

// Handle keeps an error.
func (f *failures) Handle(_ context.Context, r slog.Record) error {
	if r.Level < slog.LevelError {
		return nil
	}
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, line)
	return nil
}

func (f *failures) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines = nil
	return lines
}

// startFuzzing runs a relay on which what is slow is over soon, and nothing is
// refused for its number.
func startFuzzing(f *testing.F) *fuzzing {
	f.Helper()
	p := &fuzzing{newPlayer(f), &failures{Handler: slog.NewTextHandler(io.Discard, nil)}}
	p.option(func(c *relaysvc.Config) {
		c.Log = p.failures
		c.Timeouts.Header, c.Timeouts.Body, c.Timeouts.Idle = time.Second, time.Second, time.Second
		c.Limits.Publications, c.Limits.StrangersFrom, c.Limits.StrangersTo = 1<<40, 1<<40, 1<<40
		c.WakeGateways = []string{"https://gateway.example"}
	})
	p.publish("alice")
	return p
}

// FuzzHTTP writes any bytes on a connection. Whatever the relay answers has the
// form of 07#errors and is not its own failure, and it then answers others.
func FuzzHTTP(f *testing.F) {
	p := startFuzzing(f)
	for _, c := range hostileRequests(p.agent("alice")) {
		if len(c.bytes) < 30_000 {
			f.Add([]byte(c.bytes))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p.talk(t, data)
	})
}

// FuzzRoutes sends any request to the routes, with a good length and, when it
// is one that is signed, good headers: what comes after these is reached too.
func FuzzRoutes(f *testing.F) {
	p := startFuzzing(f)
	for _, cases := range readScripts(f) {
		for _, c := range cases {
			for _, l := range c.lines {
				if request := strings.Fields(l.text); request[0] == ">" && request[1] != "again" {
					f.Add(request[1], request[2], "Content-Type: application/json", []byte("{}"), false)
					f.Add(request[1], request[2], "", []byte{}, true)
				}
			}
		}
	}
	a, from := p.agent("alice"), strangerID()
	const jsonType = "Content-Type: application/json"
	f.Add("POST", "/v1/register", jsonType, a.registration(epoch+1), false)
	f.Add("POST", "/v1/descriptor", jsonType, a.descriptor(epoch).Raw(), false)
	f.Add("POST", "/v1/card", jsonType, a.card(descriptor.CardRecord{}, epoch).Raw(), false)
	f.Add("POST", "/v1/send", jsonType, relayapi.SendBody(a.packet(from), a.permit(from)), false)
	f.Add("POST", "/v1/blocks", jsonType, relayapi.Block{Peer: from, Blocked: true, Revision: 1}.Body(), true)
	f.Add("PUT", "/v1/wake", jsonType, relayapi.Wake{Gateway: "https://gateway.example", Token: strings.Repeat("a", 22)}.Body(), true)
	f.Fuzz(func(t *testing.T, method, target, headers string, body []byte, signed bool) {
		var b bytes.Buffer
		b.WriteString(method + " " + target + " HTTP/1.1\r\nHost: x\r\n")
		if headers != "" {
			b.WriteString(headers + "\r\n")
		}
		if signed {
			for name, values := range p.signedFor(t, method, target, body) {
				b.WriteString(name + ": " + values[0] + "\r\n")
			}
		}
		b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n")
		b.Write(body)
		p.talk(t, b.Bytes())
	})
}

// signedFor returns the headers of 07#authentication for a request that is
// fuzzed, none when nobody signs such requests.
func (p *fuzzing) signedFor(t *testing.T, method, target string, body []byte) http.Header {
	p.t = t
	path, _, _ := strings.Cut(target, "?")
	// An agent that has left reaches nothing any more.
	signable := []string{
		"GET /v1/inbox", "POST /v1/inbox/ack", "GET /v1/listen", "PUT /v1/wake", "DELETE /v1/wake", "POST /v1/blocks",
	}
	if !slices.Contains(signable, method+" "+path) {
		return nil
	}
	d := &draft{player: p.player, call: call{method: method, path: target, body: body, header: http.Header{}}, auth: []string{"by", "alice"}}
	d.sign()
	return d.call.header
}

// talk writes data on a connection and checks what comes back.
func (p *fuzzing) talk(t *testing.T, data []byte) {
	t.Helper()
	w := p.tapFromAnywhere(t)
	defer w.conn.Close()
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.write(string(data))
		_ = w.conn.(*net.TCPConn).CloseWrite()
	}()
	everything, err := io.ReadAll(w.in)
	w.noTimeout(err)
	<-written
	// The answer to HEAD has a length and no body, which only its sender knows.
	if !bytes.Contains(data, []byte("HEAD ")) {
		checkAnswers(t, everything)
	}
	if lines := p.failures.take(); len(lines) > 0 {
		t.Fatalf("the relay failed: %q", lines)
	}
	req, err := http.NewRequest("GET", p.url+"/health", nil)
	must(t, err)
	resp, err := p.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	answer{resp.StatusCode, resp.Header, body}.expect(t, "ok")
}

// tapFromAnywhere connects from one of many loopback addresses. A connection
// keeps its port for a minute after its end, and one address has not enough of
// them.
func (p *fuzzing) tapFromAnywhere(t *testing.T) *wireTap {
	t.Helper()
	to := strings.TrimPrefix(p.url, "http://")
	ip := append(net.IP{127}, suite.RandomBytes(3)...)
	conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}}).DialContext(t.Context(), "tcp", to)
	if err != nil {
		return p.tap(t) // a system with one loopback address
	}
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	return &wireTap{t, conn, bufio.NewReader(conn)}
}

// checkAnswers checks each of the answers on a connection. The last one may be
// cut off, when the relay has no more time for a client.
func checkAnswers(t *testing.T, everything []byte) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(everything))
	for {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("no answer of HTTP: %v in %.500q", err, everything)
			}
			return
		}
		body, err := io.ReadAll(resp.Body)
		switch {
		case resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols:
		case err != nil:
			return
		case resp.StatusCode == http.StatusOK && resp.Header.Get("Content-Type") != relayapi.MediaJSON:
			// A stream, or the text of the metrics.
		case resp.StatusCode == http.StatusServiceUnavailable && bytes.HasPrefix(body, []byte(`{"status":`)):
			// The health of a relay whose client did not wait for it.
		default:
			// internal_error is for a client that is taken for gone, because it
			// has closed its half; other failures are in the log.
			(answer{resp.StatusCode, resp.Header, body}).outcome(t)
		}
	}
}
