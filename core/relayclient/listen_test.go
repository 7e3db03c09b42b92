package relayclient

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

var (
	errEnough = errors.New("the test has seen enough")

	connected = string(relayapi.Event(relayapi.EventConnected))
	drain     = string(relayapi.Event(relayapi.EventDrain))
)

// recorder is a handler that records the events and ends listening at the entry
// named last.
type recorder struct {
	events []string
	last   string
	skip   string // an entry that it does not process
}

func (r *recorder) handle(_ context.Context, e Event) (bool, error) {
	r.events = append(r.events, strings.TrimSuffix(e.Type+" "+e.Entry.StreamID, " "))
	if e.Entry.StreamID != "" && e.Entry.StreamID == r.last {
		return true, errEnough
	}
	return e.Entry.StreamID != r.skip, nil
}

func (r *recorder) listener(since string) Listener {
	return Listener{Since: since, Clock: clock, Handle: r.handle}
}

// sinces returns the since of each request and checks how it is signed.
func sinces(t *testing.T, relay *testRelay, id *kel.Identity) []string {
	t.Helper()
	var list []string
	nonces := map[string]bool{}
	for _, r := range relay.seen() {
		since := strings.TrimPrefix(r.uri, "/v1/listen?since=")
		h, err := relayapi.ParseHeaders(r.header)
		must(t, err)
		must(t, h.Verify(kel.ActionListen, relayapi.ListenPayload(since), relay.URL, id.State(), now))
		nonces[h.Nonce] = true
		list = append(list, since)
	}
	if len(nonces) != len(list) {
		t.Fatal("a nonce was used twice")
	}
	return list
}

func TestListen(t *testing.T) {
	id := newIdentity(t)
	relay := newRelay(t,
		events(connected+packetEvent("catchup", 1)+"event: new\ndata: {}\n\n"+packetEvent("message", 2)),
		open(connected+":\n\n"+packetEvent("message", 3)+drain+packetEvent("message", 9)),
		status(409, `{"error":"replay"}`),
		cut(connected+packetEvent("message", 4)),
		status(503, "", "Retry-After", "7"),
		open(connected+packetEvent("message", 5)),
	)
	client, delays := newClient(t, id)
	r := &recorder{last: "5-0"}
	l := r.listener("-")
	var told []int64
	l.Retrying = func(err error, delay int64) {
		if fault.CodeOf(err) != fault.RelayUnavailable {
			t.Error(err)
		}
		told = append(told, delay)
	}
	if err := client.Listen(t.Context(), relay.URL, l); err != errEnough {
		t.Fatal(err)
	}
	want := []string{"connected", "catchup 1-0", "message 2-0", "connected", "message 3-0", "drain", "connected", "message 4-0", "connected", "message 5-0"}
	if !slices.Equal(r.events, want) {
		t.Errorf("events %q", r.events)
	}
	if got := sinces(t, relay, id); !slices.Equal(got, []string{"-", "2-0", "3-0", "3-0", "4-0", "4-0"}) {
		t.Errorf("since %q", got)
	}
	if !slices.Equal(*delays, []int64{0, 0, 1, 7}) || !slices.Equal(told, []int64{1, 7}) {
		t.Errorf("delays %v, told %v", *delays, told)
	}
}

// TestListenOfARelayThatAlwaysDrains: it is reconnected to, but not as fast as it
// can say so.
func TestListenOfARelayThatAlwaysDrains(t *testing.T) {
	idle := open(connected + drain)
	relay := newRelay(t, idle, idle, idle, idle, idle, events(packetEvent("message", 1)), idle, events(packetEvent("message", 2)))
	client, delays := newClient(t, newIdentity(t))
	r := &recorder{last: "2-0"}
	if err := client.Listen(t.Context(), relay.URL, r.listener("-")); err != errEnough {
		t.Fatal(err)
	}
	if !slices.Equal(*delays, []int64{0, 0, 0, 1, 1, 0, 0}) {
		t.Errorf("delays %v", *delays)
	}
}

func TestUnprocessedEntryDoesNotMoveSince(t *testing.T) {
	id := newIdentity(t)
	relay := newRelay(t, events(packetEvent("message", 1)+packetEvent("message", 2)), events(packetEvent("message", 3)))
	client, _ := newClient(t, id)
	r := &recorder{skip: "2-0", last: "3-0"}
	if err := client.Listen(t.Context(), relay.URL, r.listener("0-0")); err != errEnough {
		t.Fatal(err)
	}
	if got := sinces(t, relay, id); !slices.Equal(got, []string{"0-0", "1-0"}) {
		t.Errorf("since %q", got)
	}
}

// TestListenEndsAtOnce covers what ten attempts would not change.
func TestListenEndsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		code   fault.Code
	}{
		"not registered": {status(403, `{"error":"not_registered"}`), fault.NotRegistered},
		"stale seq":      {status(401, `{"error":"stale_seq"}`), fault.RelayRejected},
		"two replays":    {status(409, `{"error":"replay"}`), fault.RelayRejected},
	} {
		t.Run(name, func(t *testing.T) {
			relay := newRelay(t, c.answer)
			client, delays := newClient(t, newIdentity(t))
			wantCode(t, client.Listen(t.Context(), relay.URL, (&recorder{}).listener("-")), c.code)
			if len(*delays) != 0 {
				t.Errorf("delays %v", *delays)
			}
		})
	}
}

// TestListenFails covers connections that fail the same way each time.
func TestListenFails(t *testing.T) {
	long := strings.Repeat("x", maxEventBytes)
	for name, answer := range map[string]http.HandlerFunc{
		"unavailable":   status(503, ""),
		"protocol":      status(200, `{"ok":true}`),
		"clean, empty":  events(connected),
		"cut":           cut(connected),
		"no stream ID":  events("event: message\ndata: {\"packet\":{}}\n\n"),
		"no packet":     events("id: 1-0\nevent: message\ndata: {}\n\n"),
		"no json":       events("id: 1-0\nevent: message\ndata: x\n\n"),
		"deep packet":   events("id: 1-0\nevent: message\ndata: {\"packet\":" + nested(33) + "}\n\n"),
		"endless line":  open(":" + long + long),
		"endless event": open(strings.Repeat("data: "+long[:1<<20]+"\n", 4)),
	} {
		t.Run(name, func(t *testing.T) {
			relay := newRelay(t, answer)
			client, delays := newClient(t, newIdentity(t))
			r := &recorder{}
			wantCode(t, client.Listen(t.Context(), relay.URL, r.listener("-")), fault.RelayUnavailable)
			if want := []int64{1, 2, 4, 8, 16, 30, 30, 30, 30}; !slices.Equal(*delays, want) {
				t.Errorf("delays %v", *delays)
			}
			for _, e := range r.events {
				if e != "connected" {
					t.Errorf("handled %q", e)
				}
			}
		})
	}
}

func TestSilentStream(t *testing.T) {
	relay := newRelay(t, open(connected), open(packetEvent("message", 1)))
	client := New(Config{
		Identity: newIdentity(t), URLs: wire.Development, Idle: 50 * time.Millisecond,
		testOnlyWait: func(ctx context.Context, _ int64) error { return ctx.Err() },
	})
	defer client.Close()
	r := &recorder{last: "1-0"}
	if err := client.Listen(t.Context(), relay.URL, r.listener("-")); err != errEnough {
		t.Fatal(err)
	}
}

// TestSlowRefusal has a relay that never ends the body of its refusal.
func TestSlowRefusal(t *testing.T) {
	relay := newRelay(t, func(w http.ResponseWriter, req *http.Request) {
		status(503, `{"error":`)(w, req)
		w.(http.Flusher).Flush()
		hang(w, req)
	}, open(packetEvent("message", 1)))
	client := New(Config{
		Identity: newIdentity(t), URLs: wire.Development, Timeout: 100 * time.Millisecond,
		testOnlyWait: func(ctx context.Context, _ int64) error { return ctx.Err() },
	})
	defer client.Close()
	r := &recorder{last: "1-0"}
	if err := client.Listen(t.Context(), relay.URL, r.listener("-")); err != errEnough {
		t.Fatal(err)
	}
}

func TestListenIsCancelled(t *testing.T) {
	relay := newRelay(t, open(connected))
	client, _ := newClient(t, newIdentity(t))
	ctx, cancel := context.WithCancel(t.Context())
	l := Listener{Since: "-", Clock: clock, Handle: func(context.Context, Event) (bool, error) {
		cancel()
		return true, nil
	}}
	if err := client.Listen(ctx, relay.URL, l); err != context.Canceled {
		t.Fatal(err)
	}
	if err := wait(ctx, wire.MaxInt); err != context.Canceled {
		t.Fatal(err)
	}
	must(t, wait(t.Context(), 0))
}

// TestStreamCutAnywhere cuts a stream after every byte, in order and not, and
// expects each entry to be processed exactly once and in order.
func TestStreamCutAnywhere(t *testing.T) {
	id := newIdentity(t)
	entries := []string{packetEvent("catchup", 1), strings.ReplaceAll(packetEvent("message", 2), "\n", "\r\n"), strings.ReplaceAll(packetEvent("message", 3), "\n", "\r")}
	whole := connected + strings.Join(entries, "")
	for at := range len(whole) + 1 {
		for name, end := range map[string]func(string) http.HandlerFunc{"clean": events, "cut": cut} {
			relay := newRelay(t, end(whole[:at]), nil)
			relay.answers[1] = func(w http.ResponseWriter, req *http.Request) {
				since := req.FormValue("since")
				rest := entries
				for i := range entries {
					if since == strconv.Itoa(i+1)+"-0" {
						rest = entries[i+1:]
					}
				}
				open(strings.Join(rest, "")+packetEvent("message", 4))(w, req)
			}
			client, _ := newClient(t, id)
			r := &recorder{last: "4-0"}
			if err := client.Listen(t.Context(), relay.URL, r.listener("-")); err != errEnough {
				t.Fatal(name, at, err)
			}
			got := slices.DeleteFunc(r.events, func(e string) bool { return e == "connected" })
			if !reflect.DeepEqual(got, []string{"catchup 1-0", "message 2-0", "message 3-0", "message 4-0"}) {
				t.Fatalf("%s at %d: %q", name, at, got)
			}
			client.Close()
			relay.Close()
		}
	}
}
