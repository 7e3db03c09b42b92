package cli

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestClockOfARelayJumps sets the clock of a relay that runs two days ahead,
// sweeps, and sets it right: what waited a minute is still there. The relay's
// own tests could not see that the program gave it no other clock to go by.
func TestClockOfARelayJumps(t *testing.T) {
	r := newStage(t)
	var ready relayReady
	must(t, json.Unmarshal([]byte(r.relay()), &ready))
	a, b := newStage(t), newStage(t)
	for _, s := range []*stage{a, b} {
		s.env["ACE_RELAY"], s.env["ACE_ALLOW_LOOPBACK"] = ready.URL, "1"
		s.must("init", "--yes", "--contact", "open")
	}
	peer := b.must("status", "--jq", ".ace_id")
	a.must("connect", peer, "--profile", "ace:text:1")

	r.ahead.Store(2 * day)
	r.must("relay", "gc", "--data", filepath.Join(r.dir, "relay"))
	r.ahead.Store(0)
	b.must("pull")
	if got := b.must("contact", "requests"); !strings.Contains(got, "ace:text:1") {
		t.Errorf("the request is gone: %q", got)
	}
}
