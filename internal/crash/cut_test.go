package crash

import (
	"bytes"
	"flag"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var stride = flag.Int("stride", 211, "how many bytes are between two cuts of the stream of one message")

// TestListenCut is a listener whose stream is cut, message after message of
// fifty, at offsets that lie a stride apart and begin one further with each. A
// stride of 50 cuts every offset of the answer to a request for the stream once:
// in the header, in the connected event, and in the event of a message. A stride
// of 1 cuts every byte of the whole run, which takes an hour. What comes of it is
// that of an unbroken stream (07#client-rules, 06#receive-pipeline): each message
// is stored, shown, acknowledged and receipted once, and the next connection
// begins after the last entry that was processed, after 1, 2, 4 … 30 seconds.
func TestListenCut(t *testing.T) {
	t.Parallel()
	const messages = 50
	step := *stride
	if testing.Short() {
		step = 997
	}
	x, p := newProxy(t, newPlace(t, program(t)))
	defer p.serve(t)()
	alice, bob := acquainted(t, p)
	c := &cutter{t: t, messages: messages, step: step, asked: make(chan struct{}), queued: make(chan struct{}), offsets: map[int]bool{}}
	x.stream = c.stream
	before := x.sent(bob.aceID())

	bob.env = append(bob.env, "ACE_FAILPOINT_SECOND=20us")
	l := bob.listen(nil)
	<-c.asked
	for n := range messages {
		alice.must("send", bob.aceID(), fmt.Sprint("text ", n))
	}
	close(c.queued)
	l.wait("the last message", func() bool { return len(l.seen("message")) >= messages })
	alice.pullUntilSettled()

	events := l.seen("")
	if id := repeated(l.seen("message")); id != "" || len(l.seen("message")) != messages {
		t.Errorf("%d messages were shown, %q twice", len(l.seen("message")), id)
	}
	if end := l.end(syscall.SIGINT); end.Event != "end" || end.Processed != messages {
		t.Errorf("the listener ended with %+v", end)
	}
	c.check(delays(events))
	if got := x.sent(bob.aceID()) - before; got != messages {
		t.Errorf("%d receipts were sent for %d messages", got, messages)
	}
	if got := bob.must("pull", "--jq", ".fetched"); got != "0" {
		t.Errorf("%s entries were not acknowledged", got)
	}
	if got := bob.must("inbox", "list", "--jq", "[.[].message_id] | (unique | length), length"); got != "50\n50" {
		t.Errorf("in the inbox: %q", got)
	}
}

// acquainted makes two homes whose identities have admitted each other, alice
// being the one that asked.
func acquainted(t *testing.T, p place) (alice, bob *home) {
	t.Helper()
	alice = newHome(t, p).init("--contact", "open", "--accept", "text")
	bob = newHome(t, p).init("--handle", "bob", "--contact", "open", "--accept", "text")
	alice.must("connect", bob.aceID())
	bob.must("pull")
	alice.must("pull")
	return alice, bob
}

// pullUntilSettled pulls until all of the Outbox is delivered.
func (h *home) pullUntilSettled() {
	h.t.Helper()
	for range 600 {
		h.must("pull")
		if h.must("outbox", "list", "--jq", `map(select(.state != "delivered")) | length`) == "0" {
			return
		}
	}
	h.t.Fatalf("still waiting: %s", h.must("outbox", "list"))
}

// cutter cuts the streams of one client.
type cutter struct {
	t              *testing.T
	messages, step int
	asked, queued  chan struct{} // closed at the first request; when the messages wait at the relay

	mu       sync.Mutex // guards what follows
	once     sync.Once
	message  int // whose event comes next
	offset   int // at which its stream is cut next
	since    string
	cuts     int
	row      int          // cuts since there was progress
	failures int          // in a row, as the client has to count them
	want     []waits      // of it, a row after each progress or drain
	offsets  map[int]bool // at which a stream was cut
	shortest int          // stream up to the end of a message
}

// waits are the seconds that a client has to wait after failures in a row.
type waits struct {
	seconds []int64
	// fewer is whether the client may know of one failure less: it also takes a
	// connection for a kept one which it had opened for another request.
	fewer bool
}

// stream answers one request.
func (c *cutter) stream(o *opening) {
	c.once.Do(func() { close(c.asked) })
	select {
	case <-c.queued:
	case <-time.After(5 * time.Second): // long before the listener gives up
		o.drain()
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	since := o.req.URL.Query().Get("since")
	if c.since == "" {
		c.since = since
	}
	if since != c.since {
		c.t.Errorf("message %d: since is %s after %s", c.message, since, c.since)
	}
	const most = 8 // the tenth failure in a row ends listening
	switch {
	case c.message == c.messages:
		c.mu.Unlock()
		o.always()
		c.mu.Lock()
	case c.row == most:
		c.again()
		o.drain()
	case c.offset == 0:
		// A signed GET on a kept connection that turns out to be dead is made
		// once more: that is no failure of the relay.
		c.cut(o, !o.kept)
		o.client.Close()
	default:
		c.forward(o)
	}
}

// forward passes a stream on to the next cut, or to the end of the message.
func (c *cutter) forward(o *opening) {
	var f frames
	n, end := 0, 0
	o.forward(func(b byte) bool {
		n++
		f.add(b)
		switch {
		case end > 0:
			return n == end
		case f.entry == "" && n == c.offset:
			c.cut(o, true)
			return true
		case f.entry == "":
			return false
		}
		end = n + c.finish(o, &f, n)
		return n == end
	})
}

// cut notes that a stream is cut at the next offset.
func (c *cutter) cut(o *opening, fails bool) {
	c.cuts++
	c.offsets[c.offset] = true
	unanswered := c.offset == 0
	c.offset += c.step
	if !fails {
		return
	}
	c.row++
	c.fail()
	if unanswered {
		c.want[len(c.want)-1].fewer = true
	}
	if c.cuts%2 == 0 {
		_ = o.client.(*net.TCPConn).SetLinger(0) // a reset in place of an end
	}
}

func (c *cutter) fail() {
	c.failures++
	if len(c.want) == 0 {
		c.want = make([]waits, 1)
	}
	last := &c.want[len(c.want)-1].seconds
	*last = append(*last, min(int64(1)<<(c.failures-1), 30))
}

// again notes that the client counts failures from the beginning.
func (c *cutter) again() {
	c.row, c.failures, c.want = 0, 0, append(c.want, waits{})
}

// finish notes that the event of a message ends after n bytes, and returns how
// many bytes of the next one are passed on before the stream is cut.
func (c *cutter) finish(o *opening, f *frames, n int) (more int) {
	if c.shortest == 0 || n < c.shortest {
		c.shortest = n
	}
	c.since = f.entry
	c.message++
	c.offset = c.message % c.step
	c.again()
	if f.left == 0 && c.message == c.messages { // a clean end after progress
		o.tail = "\r\n0\r\n\r\n"
		return 0
	}
	c.fail()
	if f.left == 0 {
		return 0
	}
	return c.message * 191 % 7000
}

func (c *cutter) check(waited []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Logf("%d cuts, of %d offsets of %d", c.cuts, len(c.offsets), c.shortest)
	left := waited
	for i, row := range c.want {
		n := len(row.seconds)
		if row.fewer && !hasPrefix(left, row.seconds) {
			n--
		}
		if !hasPrefix(left, row.seconds[:n]) {
			c.t.Errorf("in row %d the listener waited %v, want %v", i, left[:min(n, len(left))], row.seconds)
			return
		}
		left = left[n:]
	}
	if len(left) > 0 {
		c.t.Errorf("at the end the listener waited %v", left)
	}
	for offset := range c.shortest {
		if c.step <= c.messages && !c.offsets[offset] {
			c.t.Errorf("no stream was cut after %d bytes", offset)
		}
	}
}

func hasPrefix(list, prefix []int64) bool {
	return len(list) >= len(prefix) && slices.Equal(list[:len(prefix)], prefix)
}

// drain answers as a relay that is about to end.
func (o *opening) drain() {
	_, _ = o.client.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nevent: drain\ndata: {}\n\n"))
	o.client.Close()
}

// frames follows a chunked answer of HTTP/1.1 that is a stream of events.
type frames struct {
	header, body bool // the header, the size of a chunk is read
	line         []byte
	left         int // bytes of the chunk
	event        []byte
	entry        string // stream ID of the last entry that is complete
}

func (f *frames) add(b byte) {
	if f.body {
		f.payload(b)
		return
	}
	f.line = append(f.line, b)
	if b != '\n' {
		return
	}
	line := strings.TrimRight(string(f.line), "\r\n")
	f.line = f.line[:0]
	switch {
	case !f.header:
		f.header = line == ""
	case line != "": // else it is the end of a chunk
		size, err := strconv.ParseInt(line, 16, 32)
		f.left, f.body = int(size), err == nil && size > 0
	}
}

func (f *frames) payload(b byte) {
	f.event = append(f.event, b)
	if bytes.HasSuffix(f.event, []byte("\n\n")) {
		if id, ok := bytes.CutPrefix(f.event, []byte("id: ")); ok {
			f.entry = string(id[:bytes.IndexByte(id, '\n')])
		}
		f.event = f.event[:0]
	}
	f.left--
	f.body = f.left > 0
}
