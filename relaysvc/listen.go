package relaysvc

import (
	"context"
	"net/http"
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
	partBytes   = 256 << 10
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
		return l.open(r.Context(), w, c)
	})
	if err != nil {
		return err
	}
	defer s.hub.close(h.ID, l.stream)
	if !l.stream.begin() {
		return fault.New(fault.NotRegistered, "the registration ended meanwhile")
	}
	w.Header().Set("Content-Type", relayapi.MediaStream)
	w.Header().Set("X-Accel-Buffering", "no") // for a proxy that would collect events
	w.WriteHeader(http.StatusOK)
	if l.stream.send(relayapi.Event(relayapi.EventConnected)) {
		l.run(r.Context())
	}
	return nil
}

// listener sends the queue of an identity to one stream.
type listener struct {
	server      *Server
	stream      *stream
	aceID       string
	incarnation int64
	last        string // stream ID of the newest entry sent
	replayed    string // entries up to here were queued before the stream opened
}

// open takes a place in the hub and reserves the nonce.
func (l *listener) open(ctx context.Context, w http.ResponseWriter, c caller) error {
	s, st := l.server, newStream(w, l.server.config.Timeouts.Write)
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
	return nil
}

// run sends what was queued as catchup and what comes later as message events,
// until the client is gone, the registration ends or the relay drains.
func (l *listener) run(ctx context.Context) {
	heartbeat := time.NewTicker(l.server.config.Timeouts.Heartbeat)
	defer heartbeat.Stop()
	for l.forward(ctx) && l.wait(ctx, heartbeat.C) {
	}
}

// forward sends every entry after the last one. It answers false when the
// stream is over.
func (l *listener) forward(ctx context.Context) bool {
	for !l.server.hub.isDraining() {
		entries, err := l.part(ctx)
		if err != nil {
			return false
		}
		for _, e := range entries {
			event := relayapi.EventMessage
			if wire.CompareStreamIDs(e.StreamID, l.replayed) <= 0 {
				event = relayapi.EventCatchup
			}
			if !l.stream.send(relayapi.PacketEvent(event, e.StreamID, e.Packet)) {
				return false
			}
			l.last = e.StreamID
		}
		if len(entries) == 0 {
			return true
		}
	}
	return true
}

func (l *listener) part(ctx context.Context) ([]relaydb.Entry, error) {
	now := l.server.config.Clock()
	return l.server.db.Entries(ctx, l.aceID, l.incarnation, l.last, partEntries, partBytes, now)
}

// wait returns true when there may be something to send, and false when the
// stream is over.
func (l *listener) wait(ctx context.Context, heartbeat <-chan time.Time) bool {
	for {
		select {
		case <-l.stream.woken:
			return true
		case <-heartbeat:
			if !l.stream.send(relayapi.Heartbeat()) {
				return false
			}
		case <-l.server.hub.drained:
			l.stream.send(relayapi.Event(relayapi.EventDrain))
			return false
		case <-l.stream.ended:
			return false
		case <-ctx.Done():
			return false
		}
	}
}
