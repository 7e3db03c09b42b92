package relayclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// Listener says what to do while listening.
type Listener struct {
	// Since is the stream ID to start after, "-" for the start.
	Since string
	// Clock returns the time in Unix seconds, read once for each connection.
	Clock func() int64
	// Handle gets each event of the types of 07#listen, in order. It reports
	// whether the entry was processed, which moves since, and an error that
	// ends listening.
	Handle func(ctx context.Context, e Event) (processed bool, err error)
	// Retrying, if set, is told of each failed connection and of the seconds
	// until the next one.
	Retrying func(err error, delay int64)
}

// Event is one event of a stream. Entry is set for catchup and message.
type Event struct {
	Type  string
	Entry relayapi.Entry
}

// maxIdleDrains is how many connections in a row may end with drain and without
// an entry before the next one waits for a second: "immediately" is for a relay
// that moves its clients, not for one that keeps them busy.
const maxIdleDrains = 3

// Listen keeps a stream open at relay and hands on its events, reconnecting as
// 07#client-rules states, until ctx ends or the handler fails, whose errors it
// returns as they are. It ends at once when the relay refuses the stream for
// good, as with not_registered: ten failures are for transient trouble. Codes:
// relay_unavailable after ten failures in a row, invalid_argument,
// identity_unavailable, blocked_address, and the permanent ones of
// 07#client-rules.
func (c *Client) Listen(ctx context.Context, relay string, l Listener) error {
	r := NewReconnect(l.Since)
	idle := 0
	for {
		s := stream{client: c, relay: relay, listener: l, reconnect: r}
		failure := s.run(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case s.handlerErr != nil:
			return s.handlerErr
		case failure != nil && fault.CodeOf(failure).Category() != fault.Transient:
			return failure
		}
		s.ending.RetryAfter = retryAfter(failure)
		delay, err := r.Next(s.ending)
		if err != nil {
			return ended(err, failure)
		}
		if idle++; delay > 0 || s.entries {
			idle = 0
		}
		if failure == nil && delay > 0 {
			failure = fault.New(fault.RelayUnavailable, "the stream ended without an entry")
		}
		if failure != nil && l.Retrying != nil {
			l.Retrying(failure, delay)
		}
		if idle > maxIdleDrains {
			delay = 1
		}
		if err := c.wait(ctx, delay); err != nil {
			return err
		}
	}
}

// ended names the last failure as the cause of the end, if there is one.
func ended(err, failure error) error {
	if failure == nil {
		return err
	}
	return fault.Wrapf(fault.CodeOf(err), failure, "%v, the last with", err)
}

func retryAfter(err error) int64 {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// wait waits for so many seconds, or for the end of ctx, whose error it returns.
func wait(ctx context.Context, seconds int64) error {
	const longest = 1 << 32 // seconds; more would overflow a Duration
	t := time.NewTimer(time.Duration(min(seconds, longest)) * failpoint.Second())
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// stream is one connection of Listen.
type stream struct {
	client    *Client
	relay     string
	listener  Listener
	reconnect *Reconnect

	ending     Ending
	entries    bool // it brought one
	handlerErr error
}

// run opens the stream and reads it to its end. It returns nil for a clean end
// and for drain, and otherwise why the connection failed.
func (s *stream) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(s.client.timeout, func() { cancel(errSilent) })
	defer timer.Stop()
	since := s.reconnect.Since()
	query := url.Values{"since": {since}}
	if _, err := relayapi.ParseListen(query); err != nil {
		return err
	}
	res, err := s.client.send(ctx, s.relay, request{
		method: http.MethodGet, path: "/v1/listen?" + query.Encode(),
		action: kel.ActionListen, payload: relayapi.ListenPayload(since),
	}, s.listener.Clock())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := checkMedia(res, relayapi.MediaStream); err != nil {
		return err
	}
	return s.read(ctx, NewEventReader(&watched{src: res.Body, timer: timer, idle: s.client.idle, heard: s.client.heard}))
}

var errSilent = errors.New("the relay was silent for too long")

// watched ends a stream that is silent for too long. The time the handler takes
// does not count.
type watched struct {
	src   io.Reader
	timer *time.Timer
	idle  time.Duration
	heard func() // nil: nobody is told
}

func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(w.idle)
	defer w.timer.Stop()
	n, err := w.src.Read(p)
	if n > 0 && w.heard != nil {
		w.heard()
	}
	return n, err
}

func (s *stream) read(ctx context.Context, events *EventReader) error {
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			s.ending.Clean = true
			return nil
		case errors.Is(err, errEventTooLong):
			return fault.Wrap(fault.RelayProtocolError, err)
		case err != nil:
			return unavailable(err)
		}
		if err := s.dispatch(ctx, e); err != nil || s.ending.Drain || s.handlerErr != nil {
			return err
		}
	}
}

// dispatch hands on one event. Types that 07#listen does not name are ignored.
func (s *stream) dispatch(ctx context.Context, raw StreamEvent) error {
	e := Event{Type: raw.Type}
	switch raw.Type {
	case relayapi.EventConnected:
	case relayapi.EventDrain:
		s.ending.Progress, s.ending.Drain = true, true
	case relayapi.EventCatchup, relayapi.EventMessage:
		entry, err := relayapi.ParsePacketEvent(raw.ID, raw.Data)
		if err != nil {
			return err
		}
		s.ending.Progress, s.entries = true, true
		e.Entry = entry
	default:
		return nil
	}
	processed, err := s.listener.Handle(ctx, e)
	s.handlerErr = err
	if err == nil && processed && e.Entry.StreamID != "" {
		s.reconnect.Processed(e.Entry.StreamID)
	}
	return nil
}
