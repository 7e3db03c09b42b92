package crash

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/wire"
)

// oddAnswers are what a listener may get in place of a stream, and the seconds
// after which it may ask again at the earliest. Each follows a connection that
// had brought a message and was cut, so each is the second failure in a row.
func oddAnswers(elsewhere string) []struct {
	name   string
	in     int64
	answer func(*opening)
} {
	const stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	entry := func(data string) string { return stream + "id: 1-0\nevent: message\ndata: " + data + "\n\n" }
	endless := strings.Repeat("x", wire.MaxSendBodyBytes)
	return []struct {
		name   string
		in     int64
		answer func(*opening)
	}{
		{"no byte and no end", 2, silence("")},
		{"no byte after the connected event", 2, silence(stream + "event: connected\ndata: {}\n\n")},
		{"no HTTP", 2, text("\x00\xffSSH-2.0-OpenSSH_9.9\r\n")},
		{"no event", 2, text(stream + "\x00\xff\xfe\r\r\n\n: \ndata\n")},
		{"no packet", 2, text(entry("{}"))},
		{"no JSON", 2, text(entry("\x80"))},
		{"deep JSON", 2, text(entry(`{"packet":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}"))},
		{"no stream ID", 2, text(stream + "event: message\ndata: {\"packet\":{}}\n\n")},
		{"an event too long", 2, text(stream + "event: message\ndata: " + endless + "\ndata: " + endless + "\n\n")},
		{"a line without an end", 2, text(stream + ":" + endless + endless)},
		{"a page", 2, text("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<p>Sign in.</p>\n")},
		{"no content", 2, text("HTTP/1.1 204 No Content\r\n\r\n")},
		{"moved for now", 2, text("HTTP/1.1 302 Found\r\nLocation: " + elsewhere + "\r\nContent-Length: 0\r\n\r\n")},
		{"moved for good", 2, text("HTTP/1.1 308 Permanent Redirect\r\nLocation: " + elsewhere + "\r\nContent-Length: 0\r\n\r\n")},
		{"too many, for some time", 7, refusal("429 Too Many Requests", "7")},
		{"too many, until a date", 2, refusal("429 Too Many Requests", "Fri, 31 Dec 1999 23:59:59 GMT")},
		{"not there for some time", 11, refusal("503 Service Unavailable", "11")},
		{"not there for a moment", 2, refusal("503 Service Unavailable", "1")},
	}
}

// text answers with bytes and the end of the connection.
func text(answer string) func(*opening) {
	return func(o *opening) { _, _ = o.client.Write([]byte(answer)) }
}

func refusal(status, retryAfter string) func(*opening) {
	return text("HTTP/1.1 " + status + "\r\nRetry-After: " + retryAfter + "\r\nContent-Length: 24\r\n\r\n{\"error\":\"rate_limited\"}")
}

// silence answers with bytes, and then with nothing until the client gives up.
func silence(answer string) func(*opening) {
	return func(o *opening) {
		_, _ = o.client.Write([]byte(answer))
		_, _ = o.client.Read(make([]byte, 1))
	}
}

// odd lets streams through but the next one, when the test gives it an answer.
type odd struct {
	next  chan func(*opening)
	cut   chan struct{} // ends the stream that is open
	once  sync.Once
	asked chan struct{} // closed at the first request
}

func (d *odd) stream(o *opening) {
	d.once.Do(func() { close(d.asked) })
	select {
	case answer := <-d.next:
		answer(o)
		return
	default:
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-d.cut:
			o.client.Close()
		case <-over:
		}
	}()
	o.always()
}

// TestListenToOddRelays is a listener that gets, in place of its stream, what no
// relay should answer. It goes on after the wait that 07#client-rules states,
// follows no redirect, and misses nothing.
func TestListenToOddRelays(t *testing.T) {
	t.Parallel()
	x, p := newProxy(t, newPlace(t, program(t)))
	// A stream is silent for longer than its heartbeats only when it is dead.
	if err := os.WriteFile(p.config(), []byte("timeouts.heartbeat = '1s'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	defer p.serve(t)()
	elsewhere, visits := countVisits(t)
	d := &odd{next: make(chan func(*opening), 1), cut: make(chan struct{}), asked: make(chan struct{})}
	defer close(d.cut)
	x.stream = d.stream
	alice, bob := acquainted(t, p)
	id := bob.aceID()
	bob.env = append(bob.env, "ACE_FAILPOINT_SECOND=5ms", "ACE_FAILPOINT_SILENCE=4s")
	l := bob.listen(nil)
	send := func(text string) {
		alice.must("send", id, text)
		l.waitMessage(text)
	}
	<-d.asked
	send("first")
	var want []int64
	for _, c := range oddAnswers(elsewhere) {
		d.next <- c.answer
		d.cut <- struct{}{}
		send(c.name)
		want = append(want, 1, c.in)
		if got := delays(l.seen("")); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%s: the listener waited %v, want %v\n%+v", c.name, got, want, l.seen("connection"))
		}
	}
	if n := visits.Load(); n > 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
	messages := l.seen("message")
	if id := repeated(messages); id != "" {
		t.Errorf("%s was shown twice", id)
	}
	if end := l.end(syscall.SIGINT); end.Event != "end" || end.Processed != len(want)/2+1 {
		t.Errorf("the listener ended with %+v", end)
	}
}

// countVisits starts a server that should get no connection.
func countVisits(t *testing.T) (url string, visits *atomic.Int64) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	visits = &atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			visits.Add(1)
			conn.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return "http://" + ln.Addr().String() + "/v1/listen", visits
}

// TestListenGivesUp is a listener whose relay fails ten times in a row, and one
// that its relay does not know, also after it has registered again.
func TestListenGivesUp(t *testing.T) {
	x, p := newProxy(t, newPlace(t, program(t)))
	defer p.serve(t)()
	bob := newHome(t, p).init("--handle", "bob")
	bob.env = append(bob.env, "ACE_FAILPOINT_SECOND=1ms")
	for _, c := range []struct {
		name, answer, code string
		asked              int
		waited             string
		exit               int
	}{
		{"unavailable", "HTTP/1.1 503 Service Unavailable\r\n\r\n", "relay_unavailable", 10, "[1 2 4 8 16 30 30 30 30]", 20},
		{"unknown", "HTTP/1.1 403 Forbidden\r\nContent-Length: 26\r\n\r\n{\"error\":\"not_registered\"}", "not_registered", 2, "[]", 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked atomic.Int64
			x.stream = func(o *opening) {
				asked.Add(1)
				text(c.answer)(o)
			}
			l := bob.listen(nil)
			select {
			case <-l.dead:
			case <-time.After(3 * patience):
				t.Fatal("the listener goes on")
			}
			if last := l.end(syscall.SIGKILL); last.Event != "error" || last.Error.Code != c.code {
				t.Errorf("the listener ended with %+v", last)
			}
			if got := int(asked.Load()); got != c.asked {
				t.Errorf("the relay was asked %d times, want %d", got, c.asked)
			}
			if got := fmt.Sprint(delays(l.seen(""))); got != c.waited {
				t.Errorf("the listener waited %s, want %s", got, c.waited)
			}
			if got := l.state.ExitCode(); got != c.exit {
				t.Errorf("the exit status is %d, want %d\n%s", got, c.exit, l.stderr)
			}
		})
	}
}

// TestListenForever is a listener with --forever, which begins again where one
// without gives up, and has its messages once the relay is back.
func TestListenForever(t *testing.T) {
	x, p := newProxy(t, newPlace(t, program(t)))
	defer p.serve(t)()
	alice, bob := acquainted(t, p)
	bob.env = append(bob.env, "ACE_FAILPOINT_SECOND=1ms")
	var asked atomic.Int64
	x.stream = func(o *opening) {
		if asked.Add(1) > 25 {
			o.always()
			return
		}
		text("HTTP/1.1 503 Service Unavailable\r\n\r\n")(o)
	}
	l := bob.listen(nil, "--forever")
	for until := time.Now().Add(patience); asked.Load() < 26; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the relay was asked %d times\n%s", asked.Load(), l.stderr)
		}
	}
	alice.must("send", bob.aceID(), "there")
	l.waitMessage("there")
	const ten = "1 2 4 8 16 30 30 30 30 30"
	if got := fmt.Sprint(delays(l.seen(""))); got != "["+ten+" "+ten+" 1 2 4 8 16]" {
		t.Errorf("the listener waited %s", got)
	}
	if end := l.end(syscall.SIGINT); end.Event != "end" {
		t.Errorf("the listener ended with %+v", end)
	}
}

// TestListenForeverWithAWrongClock is one whose clock the relay does not agree with
// until it has been set, as after the start of a machine: it says so and goes on.
func TestListenForeverWithAWrongClock(t *testing.T) {
	x, p := newProxy(t, newPlace(t, program(t)))
	defer p.serve(t)()
	alice, bob := acquainted(t, p)
	bob.env = append(bob.env, "ACE_FAILPOINT_SECOND=1ms")
	var asked atomic.Int64
	x.stream = func(o *opening) {
		if asked.Add(1) > 2 {
			o.always()
			return
		}
		text("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 38\r\n\r\n" + `{"ok":false,"error":"stale_timestamp"}`)(o)
	}
	l := bob.listen(nil, "--forever")
	for until := time.Now().Add(patience); asked.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the relay was asked %d times\n%s", asked.Load(), l.stderr)
		}
	}
	alice.must("send", bob.aceID(), "there")
	l.waitMessage("there")
	if got := fmt.Sprint(delays(l.seen(""))); got != "[30 30]" || asked.Load() != 3 {
		t.Errorf("the relay was asked %d times, and the listener waited %s", asked.Load(), got)
	}
	if end := l.end(syscall.SIGINT); end.Event != "end" {
		t.Errorf("the listener ended with %+v", end)
	}
}

// TestPollGivesUp is a listener that polls a relay which is not there: it goes on
// as one with a stream does.
func TestPollGivesUp(t *testing.T) {
	p := newPlace(t, program(t))
	stop := p.serve(t)
	bob := newHome(t, p).init("--handle", "bob")
	stop()
	bob.env = append(bob.env, "ACE_FAILPOINT_SECOND=1ms")
	l := bob.listen(nil, "--poll", "5")
	select {
	case <-l.dead:
	case <-time.After(3 * patience):
		t.Fatal("the listener goes on")
	}
	if last := l.end(syscall.SIGKILL); last.Event != "error" || last.Error.Code != "relay_unavailable" {
		t.Errorf("the listener ended with %+v", last)
	}
	if got := fmt.Sprint(delays(l.seen(""))); got != "[5 5 5 8 16 30 30 30 30]" {
		t.Errorf("the listener waited %s", got)
	}
}
