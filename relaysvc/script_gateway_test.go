package relaysvc_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// gateway is a wake gateway on loopback, which the relay of the case lists.
type gateway struct {
	arrived chan *wakeRequest

	mu   sync.Mutex
	next []string // statuses of the next answers, guarded by mu; then 200
}

// wakeRequest is what a gateway was sent.
type wakeRequest struct {
	method, path, body string
	header             http.Header
}

// openGateway starts a gateway; $NAME is its URL.
func (p *player) openGateway(name string) {
	p.t.Helper()
	g := &gateway{arrived: make(chan *wakeRequest, 100)}
	server := httptest.NewServer(http.HandlerFunc(g.serve))
	p.t.Cleanup(server.Close)
	p.gateways[name], p.vars[name] = g, server.URL
	p.option(func(c *relaysvc.Config) { c.WakeGateways = append(c.WakeGateways, server.URL) })
}

func (g *gateway) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 10_000))
	g.arrived <- &wakeRequest{r.Method, r.URL.RequestURI(), string(body), r.Header}
	g.mu.Lock()
	status := http.StatusOK
	if len(g.next) > 0 {
		status, _ = strconv.Atoi(g.next[0])
		g.next = g.next[1:]
	}
	g.mu.Unlock()
	if status/100 == 3 {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(status)
}

func (g *gateway) answers(statuses []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next = append(g.next, statuses...)
}

// woken waits for a wake and checks that it is the request of 07#wake-hints and
// no more than that.
func (p *player) woken(name, token string) {
	p.t.Helper()
	select {
	case w := <-p.gateways[name].arrived:
		if w.method != "POST" || w.path != "/" || w.body != `{"token":"`+p.variable(token)+`"}` || w.header.Get("Content-Type") != "application/json" {
			p.fail("a wake of %+v", w)
		}
		for header := range w.header {
			if !slices.Contains([]string{"Content-Type", "Content-Length", "User-Agent", "Accept-Encoding", "Connection"}, header) {
				p.fail("a wake with header %s", header)
			}
		}
	case <-time.After(patience):
		p.fail("no wake came")
	}
}

// quiet checks that nothing else arrives. It wakes somebody new, twice: a wake
// that was due before would come before the second of these.
func (p *player) quiet(name string) {
	p.t.Helper()
	before := p.sum("wakes_total")
	for range 2 {
		marker := fmt.Sprintf("marker%d", len(p.agents))
		p.vars[marker] = suite.NewNonce()
		p.register(marker)
		p.quick("PUT /v1/wake", "wake $"+name+" "+p.vars[marker], "signed by "+marker)
		p.fill("1", "sender", marker)
		p.woken(name, marker)
	}
	// The relay knows that these are done, and sends none of them again.
	p.metric("wakes_total", wire.Decimal(before+2))
}

var metricLine = regexp.MustCompile(`(?m)^ace_relay_([a-z_]+)(?:\{[^}]*\})? (\d+)$`)

// metric waits until the relay counts so many of something, over all labels.
func (p *player) metric(name, count string) {
	p.t.Helper()
	want := p.number(count)
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		sum := p.sum(name)
		if sum == want {
			return
		}
		if time.Now().After(deadline) {
			p.fail("%s is %d", name, sum)
		}
	}
}

// sum returns what the relay has counted of something, over all labels.
func (p *player) sum(name string) int64 {
	p.t.Helper()
	sum := int64(0)
	for _, m := range metricLine.FindAllSubmatch(p.do(call{method: "GET", path: "/metrics"}).body, -1) {
		if string(m[1]) == name {
			sum += p.number(string(m[2]))
		}
	}
	return sum
}
