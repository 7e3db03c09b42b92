package core_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestListenTellsWhereItIs: the first event says how much waits and where the one
// before ended, and each processed page or entry moves the cursor.
func TestListenTellsWhereItIs(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	drain := func(want int) (before, after string) {
		t.Helper()
		for range want {
			bob.send(alice, "hello")
		}
		listening, stop := context.WithCancel(t.Context())
		first := true
		err := alice.Listen(listening, func(e core.Event) {
			if first != (e.Kind == core.EventBacklog) {
				t.Errorf("event %s, the first one: %v", e.Kind, first)
			}
			first = false
			switch e.Kind {
			case core.EventBacklog:
				before = e.Backlog.Cursor
				if e.Backlog.Waiting != want || e.Backlog.More {
					t.Errorf("backlog %+v, want %d", *e.Backlog, want)
				}
			case core.EventCursor:
				after = e.Cursor
			case core.EventConnection:
				stop()
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return before, after
	}
	alice.reopen(func(c *core.Config) { c.StorePath += "2" }) // nothing was ever received
	alice.publish(false)
	if before, after := drain(0); before != "" || after != "" {
		t.Errorf("an empty inbox: %q, %q", before, after)
	}
	befriend(bob, alice)
	before, after := drain(2)
	if before == "" || after == "" || after == before {
		t.Errorf("two messages: %q, %q", before, after)
	}
	if again, _ := drain(0); again != after {
		t.Errorf("the next one begins at %q, not at %q", again, after)
	}
}

// TestTrace: every attempt is told, with its outcome.
func TestTrace(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	var mu sync.Mutex
	var told []string
	a.reopen(func(c *core.Config) {
		c.Trace = func(e relayclient.Exchange) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.Method+" "+e.Path)
			if e.Relay != r.url || (e.Status == 200) != (e.Err == nil) || e.Status == 0 {
				t.Errorf("told %+v", e)
			}
		}
	})
	a.publish(false)
	want := []string{"POST /v1/register", "GET /v1/descriptor/" + a.ACEID(), "POST /v1/descriptor", "GET /v1/card/" + a.ACEID(), "POST /v1/card"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

// Who listens is told why nothing comes for a while: an entry has to be fetched
// again, here for lack of room in a page of the inbox, and there in the stream or while polling.
func TestListenTellsOfWhatIsFetchedAgain(t *testing.T) {
	for _, where := range []string{"inbox", "stream", "poll"} {
		t.Run(where, func(t *testing.T) {
			r := newRelay(t)
			alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
			befriend(bob, alice)
			alice.reopen(func(c *core.Config) { c.Capacity = 1 })
			listen := alice.Listen
			if where == "poll" {
				listen = func(ctx context.Context, on func(core.Event)) error { return alice.Poll(ctx, 1, on) }
			}
			send := func() {
				bob.send(alice, "one")
				bob.send(alice, "two")
			}
			if where != "stream" {
				send()
			}
			listening, stop := context.WithCancel(t.Context())
			var told core.ConnectionEvent
			err := listen(listening, func(e core.Event) {
				switch c := e.Connection; {
				case c == nil:
				case c.State == "connected" && where == "stream":
					send()
				case c.State == "reconnecting":
					told = *c
					stop()
				}
			})
			if err != nil || told.InSeconds != wire.PinRefreshIntervalSeconds+1 || !strings.Contains(told.Reason, "receiver_capacity") {
				t.Errorf("%+v, %v", told, err)
			}
		})
	}
}

// A receipt that could not be sent is tried again after a second, once: the fetches
// that MAX_FETCH_ATTEMPTS allows are not spent on a relay that is away for longer.
func TestListenResendsAReceiptSoon(t *testing.T) {
	r := newRelay(t)
	alice, bob := newAgent(t, r, open()), newAgent(t, r, closed())
	befriend(bob, alice)
	bob.send(alice, "x")
	alice.reopen(func(c *core.Config) { c.Transport = &refusing{path: "/v1/send", times: 2} })
	listening, stop := context.WithCancel(t.Context())
	var waits []int64
	err := alice.Listen(listening, func(e core.Event) {
		if c := e.Connection; c != nil && c.State == "reconnecting" {
			if waits = append(waits, c.InSeconds); len(waits) == 2 {
				stop()
			}
		}
	})
	if err != nil || !slices.Equal(waits, []int64{1, wire.PinRefreshIntervalSeconds + 1}) {
		t.Errorf("waits %v, %v", waits, err)
	}

	// What is processed begins anew.
	alice.pull()
	bob.send(alice, "y")
	network := &refusing{path: "/v1/send", times: 1}
	alice.reopen(func(c *core.Config) { c.Transport = network })
	listening, stop = context.WithCancel(t.Context())
	waits = nil
	err = alice.Listen(listening, func(e core.Event) {
		switch c := e.Connection; {
		case c == nil:
		case c.State == "reconnecting":
			waits = append(waits, c.InSeconds)
		case len(waits) == 1:
			network.times = 1
			bob.send(alice, "z")
		default:
			stop()
		}
	})
	if err != nil || !slices.Equal(waits, []int64{1, 1}) {
		t.Errorf("waits %v, %v", waits, err)
	}
	bob.pull()
	for _, out := range bob.outbox() {
		if out.State != core.StateDelivered {
			t.Errorf("%s", out.State)
		}
	}
}

// refusing is a network that loses the first requests for a path.
type refusing struct {
	path  string
	times int
}

func (f *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == f.path && f.times > 0 {
		f.times--
		return nil, net.ErrClosed
	}
	return http.DefaultTransport.RoundTrip(r)
}
