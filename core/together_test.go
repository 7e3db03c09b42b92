package core_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/profile"
)

// TestPeersAtOnce holds the first sends up until there are several:
// messages to different peers do not wait for each other, and those to one peer
// arrive in their order.
func TestPeersAtOnce(t *testing.T) {
	r := newRelay(t)
	const peers, each, together = 4, 5, 3
	gate := newGate(together)
	alice := newAgent(t, r, closed())
	var all []*agent
	for range peers {
		bob := newAgent(t, r, open())
		befriend(alice, bob)
		all = append(all, bob)
	}
	for n := range each {
		for _, bob := range all {
			if _, err := alice.Enqueue(t.Context(), core.OutMessage{To: bob.ACEID(), Body: profile.TextBody(fmt.Sprint(n))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	alice.reopen(func(c *core.Config) { c.Transport = gate })
	if n, err := alice.RetryDue(t.Context()); err != nil || n != peers*each {
		t.Fatalf("%d attempts: %v", n, err)
	}
	for _, bob := range all {
		var got string
		if _, err := bob.Pull(t.Context(), 0, func(e core.Event) { got += profile.TextOf(e.Message.Body) }); err != nil {
			t.Fatal(err)
		}
		if got != "01234" {
			t.Errorf("arrived as %q", got)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if gate.most() < together {
		t.Errorf("%d sends at a time", gate.most())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := alice.RetryDue(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}

// gate holds sends until a number of them are there.
type gate struct {
	mu      sync.Mutex
	want    int
	inside  int
	highest int
	open    chan struct{}
}

func newGate(want int) *gate { return &gate{want: want, open: make(chan struct{})} }

// RoundTrip is a connection with the gate before it.
func (g *gate) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Path == "/v1/send" {
		g.pass(q.Context())
	}
	return http.DefaultTransport.RoundTrip(q)
}

func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	g.inside++
	if g.inside > g.highest {
		if g.highest = g.inside; g.highest == g.want {
			close(g.open)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	g.mu.Lock()
	g.inside--
	g.mu.Unlock()
}

func (g *gate) most() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.highest
}
