package relaysvc_test

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// The tests of this file are clients that take their time, by the hundred. Each
// checks that somebody else is served meanwhile.

var manyStreams = flag.Int("streams", 500, "listen streams that TestManyStreams opens")

// bystander is an identity that has nothing to do with a flood.
type bystander struct {
	*agent
	packets int
}

func (r *relay) bystander() *bystander { return &bystander{agent: r.published()} }

// isServed sends itself a packet, reads it and acknowledges it.
func (b *bystander) isServed(t *testing.T) {
	t.Helper()
	b.packets++
	from := strangerID()
	p := b.packet(from)
	b.relay.send(p, b.permit(from)).expect(t, "ok")
	entries := b.messages()
	same(t, texts(entries), []string{string(p)})
	b.ack(entries[0].StreamID).expect(t, "ok")
}

// TestOneByteAtATime sends a body of two megabytes a byte at a time. The relay
// gives it up, says so and closes.
func TestOneByteAtATime(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Timeouts.Body = 300 * time.Millisecond })
	other := r.bystander()
	w := r.tap(t)
	w.write("POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n")
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				w.write(" ")
			}
		}
	})
	other.isServed(t)
	got, ok := w.answer()
	close(stop)
	writer.Wait()
	if !ok {
		t.Fatal("no answer")
	}
	got.expect(t, "invalid_argument")
	if got.header.Get("Connection") != "close" {
		t.Fatal("the connection stays open")
	}
	other.isServed(t)
}

// TestHalfOpenBodies begins many bodies and never ends them. They hold no more
// memory than there is for bodies, and take it from nobody else.
func TestHalfOpenBodies(t *testing.T) {
	const memory = 8 << 20
	r := start(t, func(c *relaysvc.Config) {
		c.Limits.BodyMemory = memory
		c.Timeouts.Body = 4 * time.Second
	})
	other := r.bystander()
	taps := make([]*wireTap, 100)
	for i := range taps {
		taps[i] = r.tap(t)
		// With what they send, these would hold 100 MB.
		taps[i].write("POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n")
	}
	var writers sync.WaitGroup
	for _, w := range taps {
		writers.Go(func() { w.write(strings.Repeat(" ", 1<<20)) })
	}
	for range 3 {
		other.isServed(t)
	}
	outcomes := map[string]int{}
	for _, w := range taps {
		if got, ok := w.answer(); ok {
			outcomes[got.outcome(t)]++
		}
		w.conn.Close()
	}
	writers.Wait()
	if n := outcomes["rate_limited"] + outcomes["invalid_argument"]; n == 0 || len(outcomes) > 2 {
		t.Fatalf("the answers: %v", outcomes)
	}
	// All of it has come back.
	big := opaque(strangerID(), other.aceID(), epoch, wire.MaxPlaintextBytes)
	r.expect("ok", r.send(big, nil))
}

// TestSilentConnections opens more connections than there are places and says
// nothing on them. They go, and others come in.
func TestSilentConnections(t *testing.T) {
	const places = 20
	r := start(t, func(c *relaysvc.Config) {
		c.Limits.Connections = places
		c.Timeouts.Header, c.Timeouts.Idle = time.Second, time.Second
	})
	// A kept connection may go for its silence while a request is written to it.
	r.client.Transport.(*http.Transport).DisableKeepAlives = true
	other := r.bystander()
	for range 2 * places {
		r.tap(t)
	}
	other.isServed(t)
}

// TestUnreadPages asks for pages of megabytes and reads none. The relay gives
// them up, and others are served meanwhile.
func TestUnreadPages(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) {
		c.Timeouts.Body, c.Timeouts.Write = time.Second, 4*time.Second // in which others are answered
	})
	a, other := r.registered(), r.bystander()
	from := strangerID()
	for range 5 {
		r.expect("ok", r.send(opaque(from, a.aceID(), epoch, wire.MaxPlaintextBytes), a.permit(from)))
	}
	taps := make([]*wireTap, 20)
	for i := range taps {
		taps[i] = r.tap(t)
		taps[i].write("GET /v1/inbox HTTP/1.1\r\nHost: x\r\n")
		for name, values := range a.signed(kel.ActionInbox, relayapi.InboxPayload("-", 100)) {
			taps[i].write(name + ": " + values[0] + "\r\n")
		}
		taps[i].write("\r\n")
	}
	other.isServed(t)
	other.isServed(t)
	for deadline := time.Now().Add(patience); r.connections() > 3; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the relay waits for clients that do not read")
		}
	}
	for _, w := range taps {
		if rest, _ := io.ReadAll(w.in); len(rest) > 7_000_000 {
			t.Fatalf("%d bytes of a page that was not read in time", len(rest))
		}
	}
	other.isServed(t)
}

var openConnections = regexp.MustCompile(`(?m)^ace_relay_connections (\d+)$`)

// connections returns how many are open, as the relay counts them.
func (r *relay) connections() int {
	r.t.Helper()
	got := r.do(call{method: "GET", path: "/metrics"})
	m := openConnections.FindSubmatch(got.body)
	if m == nil {
		r.t.Fatalf("no count of connections in %.500s", got.body)
	}
	n, err := strconv.Atoi(string(m[1]))
	must(r.t, err)
	return n
}

// TestManyStreams holds many streams open, most of which are silent, and wakes
// every one of them. -streams=10000 is what a relay takes by default; it needs
// twice as many open files.
func TestManyStreams(t *testing.T) {
	const perIdentity = 16
	n := *manyStreams
	r := start(t, func(c *relaysvc.Config) {
		c.Limits.Streams, c.Limits.Connections = n, 2*n+100
		c.Limits.Publications = 100_000
		c.Timeouts.Heartbeat = time.Hour // the events alone
	})
	other := r.bystander()
	var agents []*agent
	bodies := make([]io.ReadCloser, n)
	for i := range bodies {
		if i%perIdentity == 0 {
			agents = append(agents, r.registered())
		}
		bodies[i] = agents[len(agents)-1].openStream(t)
		defer bodies[i].Close()
	}
	other.isServed(t)
	refused := r.do(call{method: "GET", path: "/v1/listen", header: other.signed(kel.ActionListen, relayapi.ListenPayload("-"))})
	refused.expect(t, "rate_limited")
	for _, a := range agents {
		from := strangerID()
		r.expect("ok", r.send(a.packet(from), a.permit(from)))
	}
	for i, body := range bodies {
		events := make(chan event, 10)
		go func() { // ends with the body
			defer close(events)
			read(body, events)
		}()
		l := &listening{t: t, events: events}
		l.want("connected", "")
		if e, ok := l.next(); !ok || e.name != "message" {
			t.Fatalf("stream %d got %.100v", i, e)
		}
		body.Close()
		for range events {
		}
	}
	r.wantPlace(other.agent)
}

func (a *agent) openStream(t *testing.T) io.ReadCloser {
	t.Helper()
	req, err := http.NewRequest("GET", a.url+"/v1/listen", nil)
	must(t, err)
	req.Header = a.signed(kel.ActionListen, relayapi.ListenPayload("-"))
	resp, err := a.client.Do(req)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		t.Fatal(fmt.Sprint(resp.StatusCode, " ", string(body)))
	}
	return resp.Body
}
