package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// call is one request of a host to a relay.
type call struct {
	ctx     context.Context
	from    *host
	to      *relay
	method  string
	url     *url.URL
	header  http.Header
	body    []byte
	issues  []byte // the permit that the packet of a send carries to its recipient
	peer    string // that recipient, an ACE ID
	message string // the message of the Outbox that it attempts, "" for none
	attempt int    // which one
	answers string // the message that its receipt answers, "" for none
}

func (c *call) String() string {
	path := c.url.Path
	if through := c.url.Query().Get("through"); through != "" {
		path += " " + through
	}
	if i := strings.Index(path, "ace:sha256:"); i >= 0 {
		path = path[:i+17]
	}
	return fmt.Sprintf("%s → %s %s %s", c.from.name, c.to.name(), c.method, path)
}

// nthAttempt names an attempt of a message.
type nthAttempt struct {
	message string
	number  int
}

var errNetwork = errors.New("the simulated network lost it")

// RoundTrip is the network between a host and the relays.
func (h *host) RoundTrip(req *http.Request) (*http.Response, error) {
	c := &call{ctx: req.Context(), from: h, method: req.Method, url: req.URL, header: req.Header}
	for _, r := range h.w.relays {
		if r.host() == req.URL.Host {
			c.to = r
		}
	}
	if req.Body != nil {
		var err error
		if c.body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	if c.to == nil {
		return nil, fmt.Errorf("no relay at %s", req.URL.Host)
	}
	return h.w.carry(c)
}

// carry is the fate of a request.
func (w *world) carry(c *call) (*http.Response, error) {
	h := c.from
	if h.disk.dead {
		return nil, errNetwork
	}
	w.checkCall(c)
	if c.message != "" {
		h.posting[c.message] = true
	}
	h.requests++
	if !w.calm && w.chance(w.plan.weather.rival) {
		h.rival()
	}
	if h.requests == h.dieBefore {
		w.note("   %s: the host dies first", c)
		h.die()
		delete(h.posting, c.message)
		return nil, errNetwork
	}
	res, err := w.pass(c)
	if h.requests == h.dieAfter {
		w.note("   %s: the host dies before the answer", c)
		h.die()
		delete(h.posting, c.message)
		return nil, errNetwork
	}
	h.answered(c, res, err)
	if c.url.Path == "/v1/inbox" && h.asleep > 0 && err == nil && res.StatusCode == http.StatusOK {
		w.now += h.asleep
		h.asleep = 0
	}
	return res, err
}

// answered keeps account of what a host has learned from an answer.
func (h *host) answered(c *call, res *http.Response, err error) {
	delete(h.posting, c.message)
	if c.url.Path == "/v1/listen" {
		return
	}
	var body []byte
	if err == nil {
		if body, err = io.ReadAll(res.Body); err != nil {
			h.w.t.Fatal(err)
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
	}
	ok := err == nil && res.StatusCode == http.StatusOK
	accepted := ok && bytes.Contains(body, []byte(`"ok":true`))
	if c.issues != nil && accepted {
		h.issued[c.peer] = c.issues
	}
	if c.answers != "" {
		transient := err != nil || res.StatusCode == 429 || res.StatusCode >= 500 || ok && !accepted
		h.receipted[c.answers] = !transient
	}
	if c.message != "" && err == nil && res.StatusCode == 429 {
		seconds, _ := strconv.ParseInt(res.Header.Get("Retry-After"), 10, 64)
		h.retryAfter[nthAttempt{c.message, c.attempt}] = seconds
	}
	if peer, found := strings.CutPrefix(c.url.Path, "/v1/descriptor/"); found && err == nil && c.method == http.MethodGet {
		if ok {
			h.learned(peer, body)
		}
		h.noteRoute(peer, res.StatusCode, body)
	}
}

// noteRoute notes, for what was shown of a peer, whether a lookup has found a
// descriptor of it that a receipt may go to.
func (h *host) noteRoute(peer string, status int, body []byte) {
	if status == http.StatusTooManyRequests || status >= 500 {
		return // it may be tried again
	}
	_, err := descriptor.Verify(body, h.clock(), descriptor.Options{KELs: h.w.kels})
	for _, raw := range h.shown {
		if p, unread := packet.DecodeValue(raw); unread == nil && p.From == peer {
			h.routeless[strings.Clone(p.MessageID)] = err != nil
		}
	}
}

// learned notes the log of a descriptor that a lookup has shown and that is valid
// by the clock of the host.
func (h *host) learned(peer string, body []byte) {
	v, err := wire.Parse(body, wire.MaxJSONDepth)
	if err != nil || peer == h.id.ACEID() {
		return
	}
	agent, err := descriptor.VerifyValue(v, h.clock(), descriptor.Options{KELs: h.w.kels, URLs: wire.Development})
	if err == nil {
		h.lookups[peer] = agent.State()
	}
}

// pass takes a request through the network.
func (w *world) pass(c *call) (*http.Response, error) {
	if w.parted[[2]int{c.from.n, c.to.n}] {
		w.note("   %s: parted", c)
		return nil, errNetwork
	}
	if !w.calm && w.chance(w.plan.weather.relay) {
		w.note("   %s restarts", c.to.name())
		w.count("relay restarted under a request")
		before := w.chance(0.5)
		if !before {
			w.serve(c)
		}
		c.to.restart()
		return nil, errNetwork
	}
	if w.calm || !w.chance(w.plan.weather.network) {
		res := w.serve(c)
		w.note("   %s: %d", c, res.StatusCode)
		return res, nil
	}
	fate := fates[w.rand.IntN(len(fates))]
	w.note("   %s: %s", c, fate.name)
	w.count(fate.name)
	return fate.meet(w, c)
}

// fate is a way in which the network or the relay fails a request.
type fate struct {
	name string
	meet func(*world, *call) (*http.Response, error)
}

var fates = []fate{
	{"request lost", func(*world, *call) (*http.Response, error) { return nil, errNetwork }},
	{"answer lost", func(w *world, c *call) (*http.Response, error) {
		w.serve(c)
		return nil, errNetwork
	}},
	{"doubled", func(w *world, c *call) (*http.Response, error) {
		w.serve(c)
		return w.serve(c), nil
	}},
	{"doubled, one late", func(w *world, c *call) (*http.Response, error) {
		w.late = append(w.late, c)
		return w.serve(c), nil
	}},
	{"held back", func(w *world, c *call) (*http.Response, error) {
		w.late = append(w.late, c)
		return nil, errNetwork
	}},
	{"refused 500", refusal(500, `{"error":"internal_error"}`)},
	{"refused 503", refusal(503, "<html>")},
	{"refused 429", refusal(429, `{"error":"rate_limited"}`)},
	{"refused 429 after the effect", func(w *world, c *call) (*http.Response, error) {
		w.serve(c)
		return refusal(429, `{"error":"rate_limited"}`)(w, c)
	}},
	{"no JSON", refusal(200, "<html>")},
	{"not registered", refusal(403, `{"error":"not_registered"}`)},
}

func refusal(status int, body string) func(*world, *call) (*http.Response, error) {
	return func(w *world, _ *call) (*http.Response, error) {
		header := http.Header{"Content-Type": {relayapi.MediaJSON}}
		if status == 429 {
			header.Set("Retry-After", fmt.Sprint(w.rand.IntN(maxRetryAfter)))
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// serve hands a request to its relay.
func (w *world) serve(c *call) *http.Response {
	if c.url.Path == "/v1/listen" {
		return w.listen(c)
	}
	answer := httptest.NewRecorder()
	c.to.handler.ServeHTTP(answer, c.request())
	res := answer.Result()
	if res.StatusCode == http.StatusOK {
		w.served(c, answer.Body.Bytes())
	}
	return res
}

// show notes that an entry was shown to a host, which then has a receipt to send.
func (h *host) show(e relayapi.Entry) {
	h.shown[e.StreamID] = e.Packet
	h.fetches[strings.Clone(e.StreamID)]++ // not with the page
	if p, err := packet.DecodeValue(e.Packet); err == nil {
		delete(h.receipted, p.MessageID)
		delete(h.routeless, p.MessageID)
	}
}

func (c *call) request() *http.Request {
	r := httptest.NewRequest(c.method, c.url.String(), bytes.NewReader(c.body))
	r.Header = c.header.Clone()
	r.RemoteAddr = fmt.Sprintf("198.51.%d.1:1", c.from.n) // a client network of its own
	return r
}

// served keeps account of what an inbox has shown, and of what was taken from
// it.
func (w *world) served(c *call, body []byte) {
	h := c.from
	switch c.url.Path {
	case "/v1/inbox":
		since := c.url.Query().Get("since")
		entries, err := relayapi.ParseInboxPage(body, since)
		if err != nil {
			w.violate("a page can be read", "07#inbox", "%v", err)
		}
		// What is not there any more has expired.
		for id := range h.shown {
			if since == relayapi.Dash || wire.CompareStreamIDs(id, since) > 0 {
				delete(h.shown, id)
			}
		}
		h.awaited = len(entries) > 0
		for _, e := range entries {
			h.show(e)
		}
	case "/v1/unregister":
		h.unregistered = true
		clear(h.shown) // the queue is gone
	case "/v1/register":
		h.unregistered = false
	case "/v1/send":
		if send, err := relayapi.DecodeSend(c.body); err == nil {
			w.other(send.Packet.To).awaited = true
		}
	case "/v1/inbox/ack":
		for id := range h.shown {
			if wire.CompareStreamIDs(id, c.url.Query().Get("through")) <= 0 {
				delete(h.shown, id)
			}
		}
	}
}

// release lets a request arrive that was held back: none overtakes in order.
func (w *world) release() {
	if len(w.late) == 0 {
		return
	}
	i := w.rand.IntN(len(w.late))
	c := w.late[i]
	w.late = append(w.late[:i], w.late[i+1:]...)
	res := w.serve(c)
	w.note("   late: %s: %d", c, res.StatusCode)
	_ = res.Body.Close()
}
