package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/ace-toolkit/ace/core/relayapi"
)

// stream is the answer to a listen request: a relay writes to it, and its client
// reads what the network has let through.
type stream struct {
	w    *world
	call *call
	hang context.CancelFunc // of the relay's end
	over chan struct{}      // closed when the relay's handler has returned

	begun  chan struct{} // closed when status and header are set
	header http.Header
	status int

	gate *gate
	// What follows is guarded by gate.mu.
	waiting []byte // that the client has not read
	left    int    // bytes until the network cuts it, < 0: it does not
	end     error  // with which it ends behind what waits, nil while it goes on
	shown   []byte // of the event that the client has in part
}

// gate is where the streams of a host wait until the world is ready for what
// their client does with them: one thing happens at a time.
type gate struct {
	mu    sync.Mutex
	moved *sync.Cond
	open  bool
}

func newGate() *gate {
	g := &gate{}
	g.moved = sync.NewCond(&g.mu)
	return g
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
	g.moved.Broadcast()
}

// listen hands a listen request to its relay, whose handler runs as long as the
// stream.
func (w *world) listen(c *call) *http.Response {
	ctx, hang := context.WithCancel(w.ctx)
	s := &stream{
		w: w, call: c, hang: hang, over: make(chan struct{}), begun: make(chan struct{}), header: http.Header{},
		gate: c.from.gate, left: -1,
	}
	r := c.request().WithContext(ctx)
	go func() {
		defer close(s.over)
		c.to.handler.ServeHTTP(s, r)
		s.WriteHeader(http.StatusOK)
		s.finish(io.EOF)
	}()
	<-s.begun
	if s.status == http.StatusOK {
		w.streams = append(w.streams, s)
		w.count("stream")
		context.AfterFunc(c.ctx, func() { s.finish(errNetwork) }) // its client gave it up
	}
	return &http.Response{StatusCode: s.status, Header: s.header, Body: s}
}

// endStreams ends the streams of a relay, or of all relays for nil, as the
// network does or a relay that goes away.
func (w *world) endStreams(at *relay) {
	kept := w.streams[:0]
	for _, s := range w.streams {
		if at != nil && s.call.to != at {
			kept = append(kept, s)
			continue
		}
		s.finish(errNetwork)
		_ = s.Close()
	}
	w.streams = kept
}

// The relay's end.

func (s *stream) Header() http.Header { return s.header }

func (s *stream) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
		s.header = s.header.Clone()
		close(s.begun)
	}
}

func (s *stream) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	s.waiting = append(s.waiting, p...)
	s.gate.moved.Broadcast()
	return len(p), nil
}

func (s *stream) Flush() {}

// The client's end.

func (s *stream) Read(p []byte) (int, error) {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	for {
		switch {
		case s.left == 0:
			return 0, errNetwork
		case len(s.waiting) > 0 && (s.gate.open || s.status != http.StatusOK):
			if s.left > 0 && len(p) > s.left {
				p = p[:s.left]
			}
			n := copy(p, s.waiting)
			s.waiting = s.waiting[n:]
			if s.left > 0 {
				s.left -= n
			}
			s.show(p[:n])
			return n, nil
		case s.end != nil && (len(s.waiting) == 0 || s.end != io.EOF):
			return 0, s.end
		}
		s.gate.moved.Wait()
	}
}

// Close ends the stream, and returns when the relay knows that.
func (s *stream) Close() error {
	s.hang()
	<-s.over
	return nil
}

// finish ends the stream behind what waits to be read, or at once where it is
// broken.
func (s *stream) finish(end error) {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	if s.end == nil {
		s.end = end
	}
	s.gate.moved.Broadcast()
}

// cut makes the network end the stream after so many more bytes.
func (s *stream) cut(bytes int) {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	s.left = bytes
	s.gate.moved.Broadcast()
}

// drain makes the relay ask its client to connect again, and end the stream.
func (s *stream) drain() {
	s.gate.mu.Lock()
	s.waiting = append(s.waiting, relayapi.Event(relayapi.EventDrain)...)
	s.gate.mu.Unlock()
	s.finish(io.EOF)
}

// show keeps account of the entries that the client has read.
func (s *stream) show(p []byte) {
	s.shown = append(s.shown, p...)
	for {
		event, rest, ok := bytes.Cut(s.shown, []byte("\n\n"))
		if !ok {
			return
		}
		s.shown = rest
		if err := s.showEvent(string(event)); err != nil {
			s.w.violate("a stream can be read", "07#listen", "%v", err)
		}
	}
}

func (s *stream) showEvent(event string) error {
	field := map[string]string{}
	for line := range strings.SplitSeq(event, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		field[name] = value
	}
	if field["event"] != relayapi.EventCatchup && field["event"] != relayapi.EventMessage {
		return nil
	}
	e, err := relayapi.ParsePacketEvent(field["id"], []byte(field["data"]))
	if err != nil {
		return fmt.Errorf("%q: %w", event, err)
	}
	s.call.from.show(e)
	return nil
}
