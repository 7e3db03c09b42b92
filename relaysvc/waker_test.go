package relaysvc

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestWakesGoThroughNoProxy, whatever the environment names: it would look the
// gateway's name up by itself, out of reach of the policy. Loopback, where every
// other test has its gateway, is never asked of a proxy.
func TestWakesGoThroughNoProxy(t *testing.T) {
	if newWakeClient(Config{}).Transport.(*http.Transport).Proxy != nil {
		t.Error("wakes may go to a proxy")
	}
}

// TestWakeAddresses: the relay makes no request to a blocked address, whatever
// name stands for it, and a blocked gateway is not tried again.
func TestWakeAddresses(t *testing.T) {
	reached := 0
	gateway := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	defer gateway.Close()
	port := gateway.URL[strings.LastIndexByte(gateway.URL, ':'):]
	for _, c := range []struct {
		development bool
		host        string
		reached     bool
	}{
		{true, "127.0.0.1", true}, {true, "localhost", true}, {true, "169.254.169.254", false}, {true, "10.0.0.1", false}, {true, "[fd00::1]", false},
		{false, "127.0.0.1", false}, {false, "localhost", false}, {false, "[::ffff:127.0.0.1]", false}, {false, "[::1]", false},
	} {
		w := newWaker(Config{Development: c.development, Timeouts: Timeouts{Wake: 20 * time.Second}}, nil, nil, slog.New(slog.DiscardHandler), nil)
		before := reached
		_, err := w.post(t.Context(), relaydb.Wake{WakeTarget: relaydb.WakeTarget{Gateway: "http://" + c.host + port, Token: "token"}})
		w.client.CloseIdleConnections()
		if errors.Is(err, fault.BlockedAddress) == c.reached || reached > before != c.reached {
			t.Errorf("%s in development %v: reached %v, error %v", c.host, c.development, reached > before, err)
		}
		if !c.reached && again(0, err) {
			t.Errorf("%s is tried again", c.host)
		}
	}
}

// TestWakeTimeout: a gateway has a bounded time to answer.
func TestWakeTimeout(t *testing.T) {
	end := make(chan struct{})
	gateway := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	defer gateway.Close()
	defer close(end)
	w := newWaker(Config{Development: true, Timeouts: Timeouts{Wake: 10 * time.Millisecond}}, nil, nil, slog.New(slog.DiscardHandler), nil)
	defer w.client.CloseIdleConnections()
	_, err := w.post(context.Background(), relaydb.Wake{WakeTarget: relaydb.WakeTarget{Gateway: gateway.URL, Token: "token"}})
	if !errors.Is(err, context.DeadlineExceeded) || !again(0, err) {
		t.Fatalf("got %v", err)
	}
}

// TestNotes: a send leaves a note and waits for nothing, also when there are
// too many to keep.
func TestNotes(t *testing.T) {
	listening := map[string]bool{"listens": true}
	w := newWaker(Config{}, nil, func(id string) bool { return listening[id] }, slog.New(slog.DiscardHandler), nil)
	if noted, all := w.take(); len(noted) != 0 || !all {
		t.Fatalf("at the start: %v, all %v", noted, all)
	}
	for _, id := range []string{"a", "listens", "a"} {
		w.note(id)
	}
	if noted, all := w.take(); len(noted) != 1 || noted[0] != "a" || all {
		t.Fatalf("%v, all %v", noted, all)
	}
	for i := range maxNoted + 1 {
		w.note(strconv.Itoa(i))
	}
	if noted, all := w.take(); len(noted) != maxNoted || !all {
		t.Fatalf("%d, all %v", len(noted), all)
	}
	if noted, all := w.take(); len(noted) != 0 || all {
		t.Fatalf("taken twice: %d, all %v", len(noted), all)
	}
	var none *waker
	none.note("a") // where wake hints are not offered
}

// TestNotesRest: those noted while the waker rests are one look at the store,
// each of them once, and after the rest the next one is looked at right away.
func TestNotesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		var looks []string
		w := newWaker(Config{Clock: func() int64 { return 1 }}, nil, func(string) bool { return false }, slog.New(slog.DiscardHandler), nil)
		w.unwoken = func(_ context.Context, noted []string, _ int64) ([]string, error) {
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(noted)
			looks = append(looks, strings.Join(noted, " "))
			if len(looks) == 2 {
				return nil, errors.New("the store fails")
			}
			return nil, nil
		}
		go w.watch(ctx)
		want := func(all ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(looks, all) {
				t.Fatalf("looks %q, want %q", looks, all)
			}
		}
		want("") // at everything
		for _, id := range []string{"a", "b", "a"} {
			w.note(id)
			want("")
		}
		time.Sleep(noteRest)
		want("", "a b")
		time.Sleep(noteRest + wakePatience) // after the failure
		want("", "a b", "")
		time.Sleep(noteRest)
		w.note("c")
		want("", "a b", "", "c")
		w.note("d")
		stop()
		want("", "a b", "", "c")
	})
}

func TestWakeGateways(t *testing.T) {
	for _, c := range []struct {
		listed      []string
		development bool
		valid       bool
		accepts     string
		refuses     string
	}{
		{[]string{"https://push.example/a"}, false, true, "https://push.example/a", "https://push.example/b"},
		{[]string{AnyGateway}, false, true, "https://push.example", ""},
		{[]string{LoopbackGateways}, true, true, "http://127.0.0.1:1/x", "https://push.example"},
		{[]string{LoopbackGateways}, true, true, "http://[::1]:1", "https://localhost.example"},
		{[]string{LoopbackGateways}, false, false, "", ""},
		{[]string{"http://127.0.0.1:1"}, true, true, "http://127.0.0.1:1", "http://127.0.0.1:2"},
		{[]string{"http://127.0.0.1:1"}, false, false, "", ""},
		{[]string{"https://push.example/"}, false, false, "", ""},
		{[]string{""}, false, false, "", ""},
	} {
		config := Config{WakeGateways: c.listed, Development: c.development}
		if err := config.checkGateways(); (err == nil) != c.valid {
			t.Errorf("%v: %v", c.listed, err)
		}
		if c.accepts != "" && !config.acceptsGateway(c.accepts) || c.refuses != "" && config.acceptsGateway(c.refuses) {
			t.Errorf("%v: accepts %q or refuses %q", c.listed, c.refuses, c.accepts)
		}
	}
}
