package relaysvc_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// from is a request of a client in another network.
func (a *agent) from(network, path string, body []byte) answer {
	a.t.Helper()
	return a.do(call{method: "POST", path: path, body: body, network: network})
}

// charged returns what a network is charged for, and checks all totals.
func (r *relay) charged(network string) int64 {
	r.t.Helper()
	report, err := r.server.Operator().Verify(r.t.Context())
	must(r.t, err)
	if len(report.Problems) > 0 {
		r.t.Fatalf("%q", report.Problems)
	}
	var stored int64
	r.look("SELECT coalesce(max(stored), 0) FROM networks WHERE network = ?", []any{network}, &stored)
	return stored
}

// TestRegisteredNetwork: an identity is charged to the network that it
// registered from, wherever its later requests come from; one that unregistered
// and registers anew, to the new one, with its horizon (07#registration).
func TestRegisteredNetwork(t *testing.T) {
	const x, y = "198.51.100.1", "2001:db8:0:1ff::1"
	const ofX, ofY = "198.51.100.0/24", "2001:db8:0:100::/56"
	r := start(t, nil)
	a := r.newAgent()
	r.expect("ok", a.from(x, "/v1/register", a.registration(epoch)))
	registered := r.charged(ofX)
	r.expect("ok", a.from(y, "/v1/register", a.registration(epoch+1))) // refreshed
	r.expect("ok", a.from(y, "/v1/descriptor", a.descriptor(-1).Raw()))
	r.expect("ok", a.from(y, "/v1/card", a.card(descriptor.CardRecord{}, -1).Raw()))
	published := r.charged(ofX)
	a.delegate(epoch)
	r.expect("ok", a.from(y, "/v1/register", a.registration(epoch+2))) // rotated
	if rotated := r.charged(ofX); registered == 0 || published <= registered || rotated <= published || r.charged(ofY) != 0 {
		t.Fatalf("charged %d, %d, %d and %d", registered, published, rotated, r.charged(ofY))
	}
	r.expect("ok", a.unregister(epoch+3))
	kept := r.charged(ofX)
	if kept <= registered || kept >= published {
		t.Fatalf("charged %d while the kel is kept", kept)
	}
	r.expect("ok", a.from(y, "/v1/register", a.registration(epoch+4)))
	if r.charged(ofX) != 0 || r.charged(ofY) != kept {
		t.Fatalf("charged %d and %d after registering anew", r.charged(ofX), r.charged(ofY))
	}
	r.expect("ok", a.unregister(epoch+5))
	r.now.Add(wire.OfflineWindowSeconds)
	r.collect()
	if left := r.charged(ofY); left == 0 || left >= registered {
		t.Fatalf("charged %d for a horizon", left)
	}
}

// TestNetworkBudget: what would exceed the budget is rate_limited and changes
// nothing; a network next to it is not concerned.
func TestNetworkBudget(t *testing.T) {
	const x, y = "198.51.100.1", "198.51.101.1"
	r := start(t, nil)
	a, b := r.newAgent(), r.newAgent()
	r.expect("ok", a.from(x, "/v1/register", a.registration(epoch)))
	budget := r.charged("198.51.100.0/24")
	r.stop()
	r.run(func(c *relaysvc.Config) { c.Limits.NetworkStored = budget })
	for path, body := range map[string][]byte{
		"/v1/register": b.registration(epoch), "/v1/descriptor": a.descriptor(-1).Raw(), "/v1/card": a.card(descriptor.CardRecord{Handle: "alice"}, -1).Raw(),
	} {
		got := a.from(x, path, body)
		r.expect("rate_limited", got)
		if after := got.header.Get("Retry-After"); after != "3600" {
			t.Fatalf("%s: Retry-After %s", path, after)
		}
	}
	longer := *a
	longer.delegate(epoch)
	r.expect("rate_limited", longer.from(x, "/v1/register", longer.registration(epoch+1)))
	if got := r.charged("198.51.100.0/24"); got != budget {
		t.Fatalf("charged %d, was %d", got, budget)
	}
	r.expect("ok", a.inbox())
	r.expect("unknown_peer", r.do(call{method: "GET", path: "/v1/card/" + a.aceID()}))
	r.expect("unknown_peer", r.do(call{method: "GET", path: "/v1/handles/alice"}))
	r.expect("ok", a.from(x, "/v1/register", a.registration(epoch+1))) // stores nothing more
	r.expect("ok", b.from(y, "/v1/register", b.registration(epoch)))
}

// TestHandleClaimsComeBack: the delay that is asked for after too many claims
// is the time until the first of them is a day old.
func TestHandleClaimsComeBack(t *testing.T) {
	r := start(t, nil)
	claim := func(name string) answer {
		a := r.registered()
		return a.post("/v1/card", a.card(descriptor.CardRecord{Handle: name}, -1).Raw())
	}
	for i := range wire.HandleClaimsPerNetworkPerDay {
		r.expect("ok", claim(fmt.Sprintf("name-%c", 'a'+i)))
		r.now.Add(100)
	}
	refused := claim("late")
	r.expect("rate_limited", refused)
	after, err := strconv.ParseInt(refused.header.Get("Retry-After"), 10, 64)
	must(t, err)
	r.now.Add(after - 1)
	r.expect("rate_limited", claim("late"))
	r.now.Add(1)
	r.expect("ok", claim("late"))
	r.expect("rate_limited", claim("later"))
}
