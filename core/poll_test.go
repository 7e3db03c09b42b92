package core_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
)

// TestPoll: what waits is told first, then each message as it comes, and the
// receive role is held all the while.
func TestPoll(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	bob.send(alice, "first")
	bob.send(alice, "second")
	var heard atomic.Int64
	alice.reopen(func(c *core.Config) { c.Heard = func() { heard.Add(1) } })
	polling, stop := context.WithCancel(t.Context())
	defer stop()
	var kinds, texts []string
	err := alice.Poll(polling, 1, func(e core.Event) {
		kinds = append(kinds, e.Kind)
		switch e.Kind {
		case core.EventBacklog:
			if e.Backlog.Waiting != 2 || e.Backlog.More {
				t.Errorf("backlog %+v", *e.Backlog)
			}
		case core.EventConnection:
			if _, err := alice.Pull(t.Context(), 0, nil); !errors.Is(err, fault.LockBusy) {
				t.Errorf("a pull beside it: %v", err)
			}
			bob.send(alice, "third")
		case core.EventMessage:
			texts = append(texts, profile.TextOf(e.Message.Body))
			if len(texts) == 3 {
				stop()
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(texts, []string{"first", "second", "third"}) || heard.Load() < 2 {
		t.Errorf("messages %v, heard %d times", texts, heard.Load())
	}
	if want := []string{core.EventBacklog, core.EventMessage, core.EventMessage, core.EventCursor, core.EventConnection, core.EventMessage, core.EventCursor}; !slices.Equal(kinds, want) {
		t.Errorf("told %v, want %v", kinds, want)
	}
	for _, seconds := range []int64{0, -1, 604801} {
		if err := alice.Poll(t.Context(), seconds, nil); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("every %d seconds: %v", seconds, err)
		}
	}
}

// TestHeard: a listener hears each heartbeat of the stream.
func TestHeard(t *testing.T) {
	r := newRelay(t)
	alice := newAgent(t, r, open())
	alice.publish(false)
	listening, stop := context.WithCancel(t.Context())
	defer stop()
	alice.reopen(func(c *core.Config) { c.Heard = stop })
	if err := alice.Listen(listening, func(core.Event) {}); err != nil {
		t.Fatal(err)
	}
}
