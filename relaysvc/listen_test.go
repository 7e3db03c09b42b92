package relaysvc_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// patience bounds how long a test waits for what has to come.
const patience = 20 * time.Second

// event is one event of a stream; a heartbeat has the name ":".
type event struct{ name, id, data string }

// listening is an open stream whose events arrive on a channel, which is
// closed at the end of the stream.
type listening struct {
	t      testing.TB
	events chan event
	close  func() error
}

func (a *agent) listen(since string) *listening {
	a.t.Helper()
	return a.listenTo("?since="+since, a.signed(kel.ActionListen, relayapi.ListenPayload(since)))
}

func (a *agent) listenTo(query string, header http.Header) *listening {
	a.t.Helper()
	req, err := http.NewRequest("GET", a.url+"/v1/listen"+query, nil)
	must(a.t, err)
	req.Header = header
	resp, err := a.client.Do(req)
	must(a.t, err)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		a.t.Fatalf("listen: %d %s", resp.StatusCode, body)
	}
	l := &listening{t: a.t, events: make(chan event, 1000), close: resp.Body.Close}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(l.events)
		read(resp.Body, l.events)
	}()
	a.t.Cleanup(func() {
		resp.Body.Close()
		<-done
	})
	return l
}

func read(body io.Reader, events chan<- event) {
	var e event
	for lines := bufio.NewScanner(body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case ":":
			e.name = ":"
		case "":
			events <- e
			e = event{}
		}
	}
}

func (l *listening) next() (event, bool) {
	l.t.Helper()
	select {
	case e, ok := <-l.events:
		return e, ok
	case <-time.After(patience):
		l.t.Fatal("no event came")
	}
	return event{}, false
}

func (l *listening) want(name, packet string) {
	l.t.Helper()
	e, ok := l.next()
	data := "{}"
	if packet != "" {
		data = `{"packet":` + packet + `}`
	}
	if !ok || e.name != name || e.data != data || (e.id != "") != (packet != "") {
		l.t.Fatalf("got %.200v (%v), want %s", e, ok, name)
	}
}

// wantEnd checks that the stream ends without another event.
func (l *listening) wantEnd() {
	l.t.Helper()
	if e, ok := l.next(); ok {
		l.t.Fatalf("got %.200v, want the end of the stream", e)
	}
}

func TestListen(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	from := strangerID()
	deliver := func() string {
		t.Helper()
		p := a.packet(from)
		r.expect("ok", r.send(p, a.permit(from)))
		return string(p)
	}
	first, second := deliver(), deliver()
	all := a.listen("-")
	all.want("connected", "")
	all.want("catchup", first)
	all.want("catchup", second)
	later := a.listen(a.messages()[0].StreamID)
	later.want("connected", "")
	later.want("catchup", second)
	third := deliver()
	all.want("message", third)
	later.want("message", third)
}

// TestListenMany sends while a stream is being opened.
func TestListenMany(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	from := strangerID()
	permit := a.permit(from)
	const n = 200
	var packets []string
	for range n {
		packets = append(packets, string(a.packet(from)))
	}
	sent := make(chan error, 1)
	go func() {
		for _, p := range packets {
			if got, err := r.try(sending("", []byte(p), permit)); err != nil || got.status != http.StatusOK {
				sent <- fmt.Errorf("send: %d %s %w", got.status, got.body, err)
				return
			}
		}
		sent <- nil
	}()
	l := a.listen("-")
	l.want("connected", "")
	live := false
	for i, p := range packets {
		e, _ := l.next()
		if e.data != `{"packet":`+p+`}` {
			t.Fatalf("event %d is not packet %d", i, i)
		}
		if live && e.name != "message" {
			t.Fatalf("event %d is %s after a message", i, e.name)
		}
		live = e.name == "message"
	}
	must(t, <-sent)
}

func TestStreamEndsWithItsRegistration(t *testing.T) {
	// No heartbeat that would end the stream as well.
	r := start(t, func(c *relaysvc.Config) { c.Timeouts.Heartbeat = time.Hour })
	a := r.registered()
	from := strangerID()
	open := func() *listening {
		l := a.listen("-")
		l.want("connected", "")
		return l
	}
	l := open()
	r.expect("ok", a.register(epoch+1)) // refreshed
	p := a.packet(from)
	r.expect("ok", r.send(p, a.permit(from)))
	l.want("message", string(p))

	a.delegate(epoch)
	r.expect("ok", a.register(epoch+2)) // rotated
	l.wantEnd()

	r.expect("ok", a.ack("99-0"))
	l = open()
	r.expect("ok", a.unregister(epoch+3))
	l.wantEnd()
}

// TestStreamOutlivesWhatIsRefused: a rotation for which the client network has no
// room, and an unregister that is older than the registration, change nothing.
func TestStreamOutlivesWhatIsRefused(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Timeouts.Heartbeat = time.Hour })
	a := r.registered()
	var stored int64
	r.look("SELECT stored FROM networks", nil, &stored)
	r.stop()
	r.run(func(c *relaysvc.Config) { c.Limits.NetworkStored = stored })
	l := a.listen("-")
	l.want("connected", "")

	longer := *a
	longer.delegate(epoch)
	r.expect("rate_limited", longer.register(epoch+1))
	r.expect("identity_conflict", a.unregister(epoch))
	from := strangerID()
	p := a.packet(from)
	r.expect("ok", r.send(p, a.permit(from)))
	l.want("message", string(p))
}

func TestStreamBounds(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Limits.StreamsPerIdentity, c.Limits.Streams = 2, 3 })
	a, b, c := r.registered(), r.registered(), r.registered()
	refused := func(x *agent) {
		t.Helper()
		r.expect("rate_limited", r.do(call{method: "GET", path: "/v1/listen", header: x.signed(kel.ActionListen, relayapi.ListenPayload("-"))}))
	}
	first := a.listen("-")
	a.listen("-")
	refused(a)
	b.listen("-")
	refused(c)
	must(t, first.close())
	r.wantPlace(c)
}

// wantPlace opens a stream for x, whose place is free once the relay has
// noticed that another one is over.
func (r *relay) wantPlace(x *agent) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		req, err := http.NewRequest("GET", r.url+"/v1/listen", nil)
		must(r.t, err)
		req.Header = x.signed(kel.ActionListen, relayapi.ListenPayload("-"))
		resp, err := r.client.Do(req)
		must(r.t, err)
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatal("the place of a stream that is over is not given away again")
		}
	}
}

// TestSlowReader opens a stream and reads nothing from it.
func TestSlowReader(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Limits.Streams, c.Timeouts.Write = 1, time.Second })
	a := r.registered()
	from := strangerID()
	for range 16 {
		r.expect("ok", r.send(opaque(from, a.aceID(), epoch, wire.MaxPlaintextBytes), a.permit(from)))
	}
	req, err := http.NewRequest("GET", r.url+"/v1/listen", nil)
	must(t, err)
	req.Header = a.signed(kel.ActionListen, relayapi.ListenPayload("-"))
	resp, err := r.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	r.wantPlace(r.registered())
}

func TestHeartbeat(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Timeouts.Heartbeat = time.Millisecond })
	l := r.registered().listen("-")
	l.want("connected", "")
	for range 3 {
		if e, ok := l.next(); !ok || e.name != ":" {
			t.Fatalf("got %v", e)
		}
	}
}

func TestDrain(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	streams := []*listening{a.listen("-"), a.listen("-"), r.registered().listen("-")}
	for _, l := range streams {
		l.want("connected", "")
	}
	r.stop() // fails unless Serve returns nil
	for _, l := range streams {
		l.want("drain", "")
		l.wantEnd()
	}
	_, err := r.client.Get(r.url + "/health")
	if err == nil {
		t.Fatal("the relay still answers")
	}
}

// TestSlowBody sends a part of a body, to a route that reads it and to others
// that do not.
func TestSlowBody(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Timeouts.Body = 30 * time.Millisecond })
	for path, want := range map[string]string{"/v1/send": "invalid_argument", "/v1/unregister": "invalid_argument", "/nowhere": "not_found"} {
		r.slowBody(path, want)
	}
}

func (r *relay) slowBody(path, want string) {
	t := r.t
	t.Helper()
	conn, err := r.client.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "")
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"packet\":")
	must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	answer{resp.StatusCode, resp.Header, body}.expect(t, want)
	if !resp.Close {
		t.Fatal("the connection stays open")
	}
}

func TestSlowHeader(t *testing.T) {
	r := start(t, func(c *relaysvc.Config) { c.Timeouts.Header = 30 * time.Millisecond })
	conn, err := r.client.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "")
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(conn, "GET /health HTTP/1.1\r\nHost:")
	must(t, err)
	var timeout net.Error
	if _, err = io.ReadAll(conn); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the relay waits for a header for ever")
	}
}

// TestBrokenClock checks that no request is decided on a clock that is no wire
// integer.
func TestBrokenClock(t *testing.T) {
	var broken atomic.Bool
	r := start(t, func(c *relaysvc.Config) {
		clock := c.Clock
		c.Clock = func() int64 {
			if broken.Load() {
				return -1
			}
			return clock()
		}
	})
	a := r.published()
	p := a.packet(strangerID())
	broken.Store(true)
	r.expect("invalid_argument", r.send(p, nil))
	r.expect("invalid_argument", a.inbox())
	broken.Store(false)
	if n := len(a.messages()); n != 0 {
		t.Fatalf("%d entries", n)
	}
}
