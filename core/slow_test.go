package core_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/profile"
)

// deafRelay is the way to a relay that takes connections and, while it is deaf, says
// nothing until those who asked give up.
type deafRelay struct {
	host  string
	clock *relay // passes while they wait

	mu    sync.Mutex
	deaf  bool
	asked []string // hosts to which something was sent, in order
}

func (d *deafRelay) RoundTrip(q *http.Request) (*http.Response, error) {
	d.mu.Lock()
	if q.URL.Path == "/v1/send" {
		d.asked = append(d.asked, q.URL.Host)
	}
	deaf := d.deaf && q.URL.Host == d.host
	d.mu.Unlock()
	if deaf {
		d.clock.ahead.Add(30)
		return nil, errors.New("timeout awaiting response headers")
	}
	return http.DefaultTransport.RoundTrip(q)
}

func (d *deafRelay) set(deaf bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf, d.asked = deaf, nil
}

// times is how often the relay was asked, and behind whether nothing else was asked
// later.
func (d *deafRelay) times() (n int, behind bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, host := range d.asked {
		if host == d.host {
			n++
		}
	}
	return n, n > 0 && !slices.ContainsFunc(d.asked[slices.Index(d.asked, d.host):], func(host string) bool { return host != d.host })
}

// besideDeafRelay makes bob, who has admitted one at his own relay and three behind
// another, the way to which is returned.
func besideDeafRelay(t *testing.T) (bob, quick *agent, behind []*agent, way *deafRelay) {
	t.Helper()
	near, far := newRelay(t), newRelay(t)
	bob, quick = newAgent(t, near, closed()), newAgent(t, near, open())
	befriend(bob, quick)
	for range 3 {
		peer := newAgent(t, far, open())
		peer.publish(false)
		if _, err := bob.ImportAgent(t.Context(), []byte(far.get(t, "/v1/descriptor/"+peer.ACEID()))); err != nil {
			t.Fatal(err)
		}
		befriend(bob, peer)
		behind = append(behind, peer)
	}
	way = &deafRelay{host: strings.TrimPrefix(far.url, "http://"), clock: near}
	bob.reopen(func(c *core.Config) { c.Transport, c.PeersAtOnce = way, 1 })
	return bob, quick, behind, way
}

// TestDeafRelayKeepsNobody: a pass over what is due waits for a relay that says
// nothing once, whatever waits for the peers behind it, and not before it has served
// the others. Nothing of what is left out counts as an attempt, and all of it leaves
// in its order once the relay answers (agentlink: different recipients never wait
// for each other).
func TestDeafRelayKeepsNobody(t *testing.T) {
	bob, quick, behind, way := besideDeafRelay(t)
	enqueue := func(to *agent, text string) {
		if _, err := bob.Enqueue(t.Context(), core.OutMessage{To: to.ACEID(), Body: profile.TextBody(text)}); err != nil {
			t.Fatal(err)
		}
	}
	retry := func(relayed int) {
		t.Helper()
		if n, err := bob.RetryDue(t.Context()); err != nil || n != relayed {
			t.Errorf("%d relayed, want %d: %v", n, relayed, err)
		}
	}
	for n := range 3 {
		for _, peer := range behind {
			enqueue(peer, fmt.Sprint(n))
		}
	}
	enqueue(quick, "x")
	way.set(true)
	retry(1)
	if n, _ := way.times(); n != 1 {
		t.Errorf("the relay was asked %d times in the first pass", n)
	}
	enqueue(quick, "y")
	way.set(true)
	retry(1)
	if n, last := way.times(); n != 1 || !last {
		t.Errorf("the relay was asked %d times in the next pass, last: %t", n, last)
	}
	way.set(false)
	way.clock.ahead.Add(60)
	retry(9 + 2) // and a second time to quick, which has not looked
	for i, peer := range behind {
		got := ""
		if _, err := peer.Pull(t.Context(), 0, func(e core.Event) { got += profile.TextOf(e.Message.Body) }); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix("012", got) {
			t.Errorf("peer %d received %q", i, got)
		}
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A pass of upkeep waits for such a relay once too, when a new signing key has made
// permits for all peers due (05#delivery-permits, Upkeep).
func TestDeafRelayKeepsNoPermit(t *testing.T) {
	bob, _, behind, way := besideDeafRelay(t)
	bob.delegate(way.clock)
	way.set(true)
	report := bob.upkeep()
	if len(report.Failures) != 1 || report.Failures[0].Step != core.UpkeepPermit || report.Permits != 1 {
		t.Errorf("%d permits were sent, and the others: %+v", report.Permits, report.Failures)
	}
	way.set(false)
	if report := bob.upkeep(); report.Permits != len(behind) {
		t.Errorf("%d permits were sent once the relay answered", report.Permits)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
