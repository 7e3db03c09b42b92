package core_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc"
)

// A gateway is told once, with its token and nothing else, that something waits
// (07#wake-hints).
func TestWake(t *testing.T) {
	const first, second = "AAAAAAAAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBBBBBBBB"
	woken := make(chan string, 4)
	gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		woken <- r.URL.Path + string(body)
	}))
	defer gateway.Close()
	next := func() string {
		select {
		case wake := <-woken:
			return wake
		case <-time.After(time.Minute):
			return "nobody"
		}
	}
	r := newRelay(t, func(c *relaysvc.Config) {
		c.WakeGateways, c.Timeouts.WakeInterval = []string{relaysvc.LoopbackGateways}, 1 // none in seconds
	})
	alice, bob := newAgent(t, r, open()), newAgent(t, r, open())

	// Before anything is published: the relay knows it then.
	if err := alice.SetWake(t.Context(), gateway.URL+"/a", first); err != nil {
		t.Fatal(err)
	}
	alice.publish(false)
	bob.publish(false)
	if _, err := bob.Connect(t.Context(), alice.ACEID(), profile.TextID, "wake up"); err != nil {
		t.Fatal(err)
	}
	if got, want := next(), `/a{"token":"`+first+`"}`; got != want {
		t.Errorf("woken by %s, not %s", got, want)
	}
	alice.pull()
	if _, err := alice.Accept(t.Context(), bob.ACEID()); err != nil {
		t.Fatal(err)
	}
	bob.pull()
	if err := alice.SetWake(t.Context(), gateway.URL+"/b", second); err != nil {
		t.Fatal(err)
	}
	bob.send(alice, "wake up")
	if got, want := next(), `/b{"token":"`+second+`"}`; got != want {
		t.Errorf("woken by %s, not %s", got, want)
	}

	// Ended, and ended again; bob's wake comes, which is sent later.
	for range 2 {
		if err := alice.ClearWake(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	alice.pull()
	bob.send(alice, "sleep on")
	if err := bob.SetWake(t.Context(), gateway.URL+"/bob", first); err != nil {
		t.Fatal(err)
	}
	alice.send(bob, "I sleep")
	if got := next(); !strings.HasPrefix(got, "/bob") {
		t.Errorf("woken by %s", got)
	}
}

// What no relay takes is not sent; a relay that does not offer wakes says so.
func TestNoWake(t *testing.T) {
	r := newRelay(t)
	alice := newAgent(t, r, open())
	const token = "AAAAAAAAAAAAAAAAAAAAAA"
	for name, c := range map[string]struct {
		gateway, token string
		want           fault.Code
	}{
		"short token": {r.url, token[1:], fault.InvalidArgument},
		"long token":  {r.url, strings.Repeat("A", 513), fault.InvalidArgument},
		"no token":    {r.url, "", fault.InvalidArgument},
		"foreign":     {r.url, token[1:] + "=", fault.InvalidArgument},
		"no URL":      {r.url + "?", token, fault.InvalidArgument},
		"not offered": {r.url, token, fault.RelayRejected},
	} {
		err := alice.SetWake(t.Context(), c.gateway, c.token)
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != c.want || (f.Code == fault.RelayRejected) != (f.Remote == string(relayapi.NotFound)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && c.token != "" && strings.Contains(err.Error(), c.token) {
			t.Errorf("%s: the token is in %v", name, err)
		}
	}
}
