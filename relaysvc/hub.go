package relaysvc

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// hub knows the open listen streams. It wakes those of an identity when an
// entry is queued, ends them when its registration does, and asks all of them
// to reconnect when the relay drains.
type hub struct {
	perIdentity, limit int
	drained            chan struct{} // closed when the relay drains, after spread is set
	spread             time.Duration // over which streams are asked to reconnect
	empty              chan struct{} // closed when the relay drains and the last stream is over

	mu       sync.Mutex
	topics   map[string]*topic // by ACE ID; guarded by mu, as what follows
	streams  int
	draining bool
}

// topic holds the streams of one identity.
type topic struct {
	streams map[*stream]bool
	// fences counts the registrations and unregistrations in progress.
	// While there is one, no stream opens; lifted is closed after the last.
	fences int
	lifted chan struct{}
}

func newHub(perIdentity, limit int) *hub {
	return &hub{perIdentity: perIdentity, limit: limit, drained: make(chan struct{}), empty: make(chan struct{}), topics: map[string]*topic{}}
}

// open takes a place for a stream of an identity, waiting for fences first:
// what the caller reads from the store afterwards is the outcome of those.
// Code: rate_limited (07#listen).
func (h *hub) open(ctx context.Context, aceID string, st *stream) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := h.topics[aceID]; t != nil && t.fences > 0; t = h.topics[aceID] {
		lifted := t.lifted
		h.mu.Unlock()
		select {
		case <-lifted:
		case <-ctx.Done():
		}
		h.mu.Lock()
		if ctx.Err() != nil {
			return fault.Wrap(relayapi.InternalError, ctx.Err())
		}
	}
	t := h.topics[aceID]
	switch {
	case h.draining:
		// It is one that was just asked to reconnect, and that is soon possible.
		return &fault.Error{Code: relayapi.RateLimited, Msg: "the relay is about to restart", RetryAfter: 1}
	case h.streams >= h.limit:
		return fault.New(relayapi.RateLimited, "the relay has no place for another stream")
	case t != nil && len(t.streams) >= h.perIdentity:
		return fault.New(relayapi.RateLimited, "the identity has no place for another stream")
	}
	h.topic(aceID).streams[st] = true
	h.streams++
	return nil
}

// topic returns the topic of an identity, making it if need be. The caller
// holds mu.
func (h *hub) topic(aceID string) *topic {
	t := h.topics[aceID]
	if t == nil {
		t = &topic{streams: map[*stream]bool{}}
		h.topics[aceID] = t
	}
	return t
}

// tidy forgets the topic of an identity when nothing is left in it. The caller
// holds mu.
func (h *hub) tidy(aceID string, t *topic) {
	if len(t.streams) == 0 && t.fences == 0 {
		delete(h.topics, aceID)
	}
}

// close gives the place of a stream back. Whoever serves the stream calls it
// last, so that no frame is in progress.
func (h *hub) close(aceID string, st *stream) {
	st.mu.Lock()
	st.leave()
	st.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[aceID]
	delete(t.streams, st)
	h.streams--
	h.tidy(aceID, t)
	if h.draining && h.streams == 0 {
		close(h.empty) // no other opens from here on
	}
}

// wake tells the streams of an identity that there is something to read.
func (h *hub) wake(aceID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[aceID]
	if t == nil {
		return
	}
	now := time.Now()
	for st := range t.streams {
		st.poke(now)
	}
}

// supersede takes a decision after which what is open for an identity serves it
// no more: its streams end when that was taken, or may have been, and go on
// otherwise. Meanwhile no frame begins and no stream opens; a frame that began
// before is given up with its stream.
func (h *hub) supersede(aceID string, decide func() error) (err error) {
	streams, lift := h.fence(aceID)
	defer lift()
	finish := (*stream).end // also when decide panics
	defer func() {
		for _, st := range streams {
			finish(st)
		}
	}()
	if err = decide(); untaken(err) {
		finish = (*stream).resume
	}
	return err
}

// untaken reports whether a decision is known not to have been taken. What
// becomes of one that the disk failed at, nobody knows.
func untaken(err error) bool {
	var refusal relaydb.Refusal
	return err != nil && (errors.As(err, &refusal) || !errors.Is(err, fault.StorageFailed))
}

// fence holds the streams of an identity and returns them, and lets none open
// until lift is called.
func (h *hub) fence(aceID string) (streams []*stream, lift func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topic(aceID)
	if t.fences == 0 {
		t.lifted = make(chan struct{})
	}
	t.fences++
	for st := range t.streams {
		st.hold()
		streams = append(streams, st)
	}
	return streams, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if t.fences--; t.fences == 0 {
			close(t.lifted)
			h.tidy(aceID, t)
		}
	}
}

// drain asks every stream to reconnect, each at some moment within spread so
// that their clients do not all come back at once, and lets no new one open.
func (h *hub) drain(spread time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.draining {
		h.draining, h.spread = true, spread
		close(h.drained)
		if h.streams == 0 {
			close(h.empty)
		}
	}
}

// cut ends every stream that is still open.
func (h *hub) cut() {
	var open []*stream
	h.mu.Lock()
	for _, t := range h.topics {
		for st := range t.streams {
			open = append(open, st)
		}
	}
	h.mu.Unlock()
	for _, st := range open {
		st.end()
	}
}

func (h *hub) isDraining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.draining
}
