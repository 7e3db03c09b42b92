package relaysvc

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

func quiet() *stream { return newStream(time.Minute) }

// TestFence opens a stream while registrations of its identity are in progress.
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(1, 2)
		first, second := h.fence("alice"), h.fence("alice")
		opened := make(chan error, 2)
		go func() { opened <- h.open(t.Context(), "alice", quiet()) }()
		first()
		synctest.Wait()
		if len(opened) != 0 {
			t.Fatal("a stream opened while a registration was in progress")
		}
		if err := h.open(t.Context(), "bob", quiet()); err != nil {
			t.Fatalf("another identity: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.open(ctx, "alice", quiet()); err == nil {
			t.Fatal("a client that is gone got a stream")
		}
		second()
		if err := <-opened; err != nil {
			t.Fatal(err)
		}
	})
}

func TestDrainingHubOpensNothing(t *testing.T) {
	h := newHub(1, 1)
	h.drain(0)
	h.drain(0)
	err := h.open(t.Context(), "alice", quiet())
	if fault.CodeOf(err) != relayapi.RateLimited {
		t.Fatalf("got %v", err)
	}
	var e *fault.Error
	if !errors.As(err, &e) || e.RetryAfter != 1 {
		t.Fatalf("a client that was asked to reconnect is kept away: %+v", e)
	}
}

// blockedSink is a connection that takes a frame when released is closed.
type blockedSink struct {
	started, released chan struct{}
	written, late     atomic.Bool
}

func (b *blockedSink) send([]byte) error {
	close(b.started)
	<-b.released
	b.written.Store(true)
	return nil
}

func (b *blockedSink) SetWriteDeadline(t time.Time) error {
	b.late.Store(t.Before(time.Now()))
	return nil
}

func (*blockedSink) finish() {}

// TestEndWaitsForAFrame ends a stream in the middle of a frame.
func TestEndWaitsForAFrame(t *testing.T) {
	out := &blockedSink{started: make(chan struct{}), released: make(chan struct{})}
	st := newStream(time.Minute)
	if !st.begin(out) {
		t.Fatal("a new stream has ended")
	}
	sent := make(chan bool)
	go func() { sent <- st.send(framed([]byte("frame"))) }()
	<-out.started
	go func() {
		<-st.ended
		close(out.released)
	}()
	st.end()
	if !out.written.Load() {
		t.Fatal("the frame was still being written")
	}
	if !out.late.Load() {
		t.Fatal("the frame was not given up")
	}
	<-sent
	if st.send(framed([]byte("another"))) || st.begin(out) {
		t.Fatal("a stream that has ended sends frames")
	}
}
