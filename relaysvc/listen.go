package relaysvc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// A stream reads its queue in parts, so that a slow client costs the relay one
// part and keeps no transaction open.
const (
	partEntries = 32
	partBytes   = 64 << 10
)

// serveListen is GET /v1/listen (07#listen).
func (s *Server) serveListen(w http.ResponseWriter, r *request) error {
	query, err := r.query()
	if err != nil {
		return err
	}
	since, err := relayapi.ParseListen(query)
	if err != nil {
		return err
	}
	h, err := relayapi.ParseHeaders(r.Header)
	if err != nil {
		return err
	}
	l := &listener{server: s, aceID: h.ID, last: since}
	err = s.authenticated(r, h, kel.ActionListen, relayapi.ListenPayload(since), func(c caller) error {
		return l.open(r.Context(), c)
	})
	if err != nil {
		return err
	}
	return l.begin(w, r)
}

// listener sends the queue of an identity to one stream.
type listener struct {
	server      *Server
	stream      *stream
	aceID       string
	incarnation int64
	last        string // stream ID of the newest entry sent
	replayed    string // entries up to here were queued before the stream opened
	part        buffer // of frames, while they are written
	short       int    // bytes that the next part needs and did not get
}

// open takes a place in the hub and reserves the nonce.
func (l *listener) open(ctx context.Context, c caller) error {
	s, st := l.server, newStream(l.server.config.Timeouts.Write)
	if err := s.hub.open(ctx, l.aceID, st); err != nil {
		return err
	}
	replayed, err := s.db.Newest(ctx, l.aceID, c.Incarnation)
	if err == nil {
		// This is after the place was taken, so that an unregister which comes
		// too late to be seen here ends the stream.
		err = s.db.Spend(ctx, c.Caller)
	}
	if err != nil {
		s.hub.close(l.aceID, st)
		return err
	}
	l.stream, l.incarnation, l.replayed = st, c.Incarnation, replayed
	if wire.CompareStreamIDs(l.last, replayed) > 0 {
		// The cursor is none of this queue's. What comes from now on is new.
		l.last = replayed
	}
	return nil
}

// begin answers the request with the stream. Over HTTP/1 it takes the
// connection and lets the handler return, whose memory a stream would keep
// otherwise.
func (l *listener) begin(w http.ResponseWriter, r *request) error {
	select {
	case <-l.stream.ended:
		l.server.hub.close(l.aceID, l.stream)
		return errEnded
	default:
	}
	h := w.Header()
	h.Set("Content-Type", relayapi.MediaStream)
	h.Set("X-Accel-Buffering", "no") // for a proxy that would collect events
	if r.ProtoMajor == 1 && l.server.config.Chaos == nil {
		conn, err := takeOver(w, r.Request)
		if err == nil {
			return l.detach(w, conn)
		}
		if !errors.Is(err, http.ErrNotSupported) {
			l.server.hub.close(l.aceID, l.stream)
			return nil // the client is gone
		}
	}
	defer l.server.hub.close(l.aceID, l.stream)
	if !l.stream.begin(newAnswerSink(w)) {
		return errEnded
	}
	w.WriteHeader(http.StatusOK)
	forget(r.Header)
	l.run(r.Context().Done())
	return nil
}

// forget drops the header of a request, 7 KB that nobody needs any more, but for
// what the log may want to know of it.
func forget(h http.Header) {
	for name := range h {
		if name != headerCaller && name != headerForwarded {
			delete(h, name)
		}
	}
}

// errEnded refuses a stream whose registration ended while it was opened.
var errEnded = fault.New(fault.NotRegistered, "the registration ended meanwhile")

// detach serves the stream on its connection after the handler has returned.
func (l *listener) detach(w http.ResponseWriter, conn *connSink) error {
	if o, ok := w.(*observed); ok {
		o.status = http.StatusOK
	}
	gone := make(chan struct{})
	go func() { // ends with the connection
		defer close(gone)
		// A client has nothing to say any more; what it says ends the stream.
		_, _ = io.ReadFull(conn, make([]byte, 1))
	}()
	go func() { // the hub counts it
		defer l.server.hub.close(l.aceID, l.stream)
		defer func() {
			conn.Close()
			<-gone
		}()
		defer l.catch()
		if l.stream.begin(conn) && l.run(gone) {
			conn.finish()
		}
	}()
	return nil
}

// catch keeps a mistake of the relay to this stream.
func (l *listener) catch() {
	if p := recover(); p != nil {
		l.server.log.Error("panic", "value", fmt.Sprint(p), "stack", string(debug.Stack()))
	}
}

// The frames that never change.
var (
	connectedFrame = relayapi.Event(relayapi.EventConnected)
	drainFrame     = relayapi.Event(relayapi.EventDrain)
	heartbeatFrame = relayapi.Heartbeat()
)

// run sends what was queued as catchup and what comes later as message events,
// until the client is gone, the registration ends or the relay drains. It
// reports whether the stream ended as it should, with a drain.
func (l *listener) run(gone <-chan struct{}) (drained bool) {
	w := newWaiting(l, gone)
	defer w.stop()
	ok := l.event(connectedFrame, eventConnected)
	for more := true; ok; {
		switch signal, woken := w.next(more); signal {
		case somethingToRead:
			more, ok = l.forward()
			if ok && !woken.IsZero() {
				l.server.metrics.lag.Since(woken)
			}
		case silence:
			ok = l.event(heartbeatFrame, eventHeartbeat)
		case timeToLeave:
			return l.event(drainFrame, eventDrain)
		case over:
			return false
		}
	}
	return false
}

// signal is why a stream stops waiting.
type signal int

const (
	somethingToRead signal = iota
	silence                // since the last heartbeat
	timeToLeave            // the relay drains
	over                   // the client is gone, or the registration has ended
)

// waiting is what a stream waits for.
type waiting struct {
	stream    *stream
	hub       *hub
	gone      <-chan struct{}
	draining  <-chan struct{} // nil once it was noticed
	every     time.Duration   // between heartbeats
	heartbeat *time.Timer
	leave     *time.Timer
}

func newWaiting(l *listener, gone <-chan struct{}) *waiting {
	every := l.server.config.Timeouts.Heartbeat
	w := &waiting{
		stream: l.stream, hub: l.server.hub, gone: gone, draining: l.server.hub.drained,
		every: every, heartbeat: time.NewTimer(every), leave: time.NewTimer(time.Hour),
	}
	w.leave.Stop()
	return w
}

func (w *waiting) stop() {
	w.heartbeat.Stop()
	w.leave.Stop()
}

// always can be received from at any time.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// next waits for a signal. A stream that knows of more to read need not wait
// for that, and still gets the others: a long queue does not keep it from its
// end. With somethingToRead comes when it was queued, where that is known.
func (w *waiting) next(more bool) (signal, time.Time) {
	var ready <-chan struct{}
	if more {
		ready = always
	}
	for {
		select {
		case <-ready:
			return somethingToRead, time.Time{}
		case at := <-w.stream.woken:
			return somethingToRead, at
		case <-w.heartbeat.C:
			w.heartbeat.Reset(w.every)
			return silence, time.Time{}
		case <-w.draining:
			w.draining = nil
			w.leave.Reset(within(w.hub.spread))
		case <-w.leave.C:
			return timeToLeave, time.Time{}
		case <-w.stream.ended:
			return over, time.Time{}
		case <-w.gone:
			return over, time.Time{}
		}
	}
}

// within returns a random part of d.
func within(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d)
}

// event sends an event that is no packet.
func (l *listener) event(frame []byte, kind int) bool {
	if !l.stream.send(framed(frame)) {
		return false
	}
	l.server.metrics.events[kind].Inc()
	return true
}

// forward sends one part of the entries after the last one, and reports whether
// there may be more and whether the stream goes on.
func (l *listener) forward() (more, ok bool) {
	pages := l.server.pages
	defer func() { pages.free(&l.part) }()
	if l.short > 0 {
		size := sizeFor(l.short)
		l.short = 0
		if !pages.take(context.Background(), int64(sizes[size]), l.stream.slow) {
			return true, true // others are slow, and this client is not to blame
		}
		pages.grow(&l.part, size)
	}
	p := frames{listener: l}
	var err error
	l.server.crew.run(func() { more, err = p.read() })
	if err != nil {
		return false, false
	}
	if p.entries == 0 {
		return more, true
	}
	if !l.sendPart() {
		return false, false
	}
	l.last = p.last
	l.server.metrics.events[eventCatchup].Add(p.catchups)
	l.server.metrics.events[eventMessage].Add(p.entries - p.catchups)
	return more, true
}

// sendPart sends the frames in the buffer, and reports whether the stream goes
// on.
func (l *listener) sendPart() bool {
	defer l.server.pages.lend(l.part.held(), l.stream.hurry)()
	return l.stream.send(append(l.part.data, "\r\n"...))
}

// frames are those of one part.
type frames struct {
	*listener
	last              string
	entries, catchups uint64
}

// read puts the next part of the queue into the buffer.
func (f *frames) read() (more bool, err error) {
	return f.server.db.Entries(context.Background(), relaydb.Span{
		ACEID: f.aceID, Incarnation: f.incarnation, After: f.listener.last, Entries: partEntries, Bytes: partBytes, Now: f.server.config.Clock(),
	}, f.add)
}

// add appends the frame of an entry.
func (f *frames) add(e relaydb.Entry) bool {
	if !f.room(e) {
		return false
	}
	event := relayapi.EventMessage
	if wire.CompareStreamIDs(e.StreamID, f.replayed) <= 0 {
		event = relayapi.EventCatchup
		f.catchups++
	}
	f.part.data = relayapi.AppendPacketEvent(f.part.data, event, e.StreamID, e.Packet)
	f.last = e.StreamID
	f.entries++
	return true
}

// room makes the buffer large enough for e and what comes after it, or for e
// alone where that is small, if there is memory. Waiting for it is not for here,
// where a transaction is open.
func (f *frames) room(e relaydb.Entry) bool {
	if f.entries > 0 {
		return len(f.part.data)+len(e.Packet)+relayapi.EventOverhead+frameTail <= cap(f.part.data)
	}
	alone := partSize(len(e.Packet), 1)
	if cap(f.part.data) < alone {
		f.server.pages.free(&f.part)
		all := partSize(int(e.Bytes), e.Entries)
		size, ok := f.server.pages.tryFirst(all, alone)
		if !ok {
			f.short = all
			return false
		}
		f.server.pages.grow(&f.part, size)
	}
	f.part.data = f.part.data[:frameHead]
	return true
}

// partSize returns the bytes of a part with so many entries, whose packets have
// so many bytes together.
func partSize(packets, entries int) int {
	return frameHead + packets + entries*relayapi.EventOverhead + frameTail
}
