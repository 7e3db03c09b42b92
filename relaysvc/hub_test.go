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
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

func quiet() *stream { return newStream(time.Minute) }

// TestFence opens a stream while registrations of its identity are in progress.
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(1, 2)
		_, first := h.fence("alice")
		_, second := h.fence("alice")
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

// takingSink is a connection that takes every frame.
type takingSink struct{ frames atomic.Int64 }

func (s *takingSink) send([]byte) error              { s.frames.Add(1); return nil }
func (*takingSink) SetWriteDeadline(time.Time) error { return nil }
func (*takingSink) finish()                          {}

// TestSupersede has something to send while a registration is decided: nothing
// is sent before the outcome, and afterwards only when that is a refusal.
func TestSupersede(t *testing.T) {
	unknown := fault.Wrap(fault.StorageFailed, errors.New("a failed disk"))
	for _, c := range []struct {
		name  string
		err   error
		going bool
	}{
		{"accepted", nil, false},
		{"refused", relaydb.OverBudget, true},
		{"replayed", fault.Wrap(relayapi.Replay, relaydb.Replayed), true},
		{"a full disk", fault.Wrap(fault.StorageFailed, errors.Join(relaydb.DiskFull, errors.New("full"))), true},
		{"a client that is gone", fault.Wrap(fault.LockBusy, context.Canceled), true},
		{"a failed disk", unknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, st, out := newHub(1, 1), quiet(), &takingSink{}
				if err := h.open(t.Context(), "alice", st); err != nil || !st.begin(out) {
					t.Fatal(err)
				}
				sent := make(chan bool, 1)
				err := h.supersede("alice", func() error {
					go func() { sent <- st.send(framed([]byte("frame"))) }()
					synctest.Wait()
					if len(sent) > 0 || out.frames.Load() > 0 {
						t.Error("a frame was sent while the registration was decided")
					}
					return c.err
				})
				if going := <-sent; !errors.Is(err, c.err) || going != c.going || (out.frames.Load() == 1) != c.going {
					t.Errorf("%v; sent %v, %d frames", err, going, out.frames.Load())
				}
			})
		})
	}
}

// TestSupersedeDoesNotWaitForAFrame decides while a client does not take the
// frame that is being sent to it.
func TestSupersedeDoesNotWaitForAFrame(t *testing.T) {
	h, st := newHub(1, 1), quiet()
	out := &blockedSink{started: make(chan struct{}), released: make(chan struct{})}
	if err := h.open(t.Context(), "alice", st); err != nil || !st.begin(out) {
		t.Fatal(err)
	}
	sent := make(chan bool, 1)
	go func() { sent <- st.send(framed([]byte("frame"))) }()
	<-out.started
	refused := make(chan error, 1)
	go func() { refused <- h.supersede("alice", func() error { return relaydb.OverBudget }) }()
	select {
	case <-refused:
	case <-time.After(10 * time.Second):
		t.Error("the decision waits for the client")
	}
	close(out.released)
	if !<-sent || out.late.Load() {
		t.Error("the frame was given up for a registration that was refused")
	}
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
