package relaysvc_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// sink is a wake gateway on loopback that keeps what it is sent.
type sink struct {
	t      testing.TB
	url    string
	calls  chan sent
	mu     sync.Mutex
	answer func(token string) int // status of the next answers; guarded by mu
}

// sent is one request to a sink.
type sent struct {
	method, path, token string
	body                string
	header              http.Header
	length              int64
}

func newSink(t testing.TB) *sink {
	t.Helper()
	s := &sink{t: t, calls: make(chan sent, 1000), answer: func(string) int { return http.StatusNoContent }}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.url = server.URL + "/wake"
	return s
}

func (s *sink) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	token := strings.TrimSuffix(strings.TrimPrefix(string(body), `{"token":"`), `"}`)
	s.calls <- sent{r.Method, r.URL.RequestURI(), token, string(body), r.Header, r.ContentLength}
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	status := answer(token)
	if status/100 == 3 {
		w.Header().Set("Location", s.url)
	}
	w.WriteHeader(status)
}

func (s *sink) answers(f func(token string) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// next waits for a request.
func (s *sink) next() sent {
	s.t.Helper()
	select {
	case c := <-s.calls:
		return c
	case <-time.After(patience):
		s.t.Fatal("no wake came")
	}
	return sent{}
}

// want waits for a request with the token.
func (s *sink) want(token string) sent {
	s.t.Helper()
	c := s.next()
	if c.token != token {
		s.t.Fatalf("a wake for %s, want %s", c.token, token)
	}
	return c
}

// wakers starts a relay that offers wake hints to gateways on loopback.
func wakers(t testing.TB, change func(*relaysvc.Config)) *relay {
	t.Helper()
	return start(t, func(c *relaysvc.Config) {
		offering(c)
		if change != nil {
			change(c)
		}
	})
}

// offering has a relay wake gateways on loopback. A request is not given up,
// and so not sent again, however slow the machine is.
func offering(c *relaysvc.Config) {
	c.WakeGateways = []string{relaysvc.LoopbackGateways}
	c.Timeouts.Wake = time.Hour
}

func newToken() string { return suite.NewNonce()[:32] }

func (a *agent) putWake(gateway, token string) answer {
	a.t.Helper()
	return a.do(call{method: "PUT", path: "/v1/wake", body: relayapi.Wake{Gateway: gateway, Token: token}.Body(),
		header: a.signed(kel.ActionWake, relayapi.WakePayload(gateway, token))})
}

func (a *agent) deleteWake() answer {
	a.t.Helper()
	return a.do(call{method: "DELETE", path: "/v1/wake", header: a.signed(kel.ActionWake, relayapi.WakeDeletePayload())})
}

// waking returns a registered agent with a wake registration.
func (r *relay) waking(s *sink) (*agent, string) {
	r.t.Helper()
	a, token := r.registered(), newToken()
	r.expect("ok", a.putWake(s.url, token))
	return a, token
}

// queue sends a packet to a.
func (a *agent) queue() {
	a.t.Helper()
	from := strangerID()
	a.expect("ok", a.send(a.packet(from), a.permit(from)))
}

// quiet checks that no wake is on its way: those of two others, one after the
// other, are the next to come.
func (r *relay) quiet(s *sink) {
	r.t.Helper()
	for range 2 {
		a, token := r.waking(s)
		a.queue()
		s.want(token)
	}
}

func TestWakesAreNotOffered(t *testing.T) {
	r := start(t, nil)
	a := r.registered()
	for range 2 {
		r.expect("not_found", a.putWake("http://127.0.0.1:1", newToken()))
		r.expect("not_found", a.deleteWake())
		r.expect("not_found", r.do(call{method: "PUT", path: "/v1/wake"}))
	}
}

func TestWakeRegistration(t *testing.T) {
	const listed = "https://push.example/ace"
	r := wakers(t, func(c *relaysvc.Config) { c.WakeGateways = append(c.WakeGateways, listed) })
	a := r.registered()
	token := newToken()
	body := relayapi.Wake{Gateway: listed, Token: token}.Body()
	put := func(body []byte, payload []byte) answer {
		return a.do(call{method: "PUT", path: "/v1/wake", body: body, header: a.signed(kel.ActionWake, payload)})
	}
	good := relayapi.WakePayload(listed, token)
	for _, c := range []struct {
		name, want string
		body       []byte
	}{
		{"as it should be", "ok", body},
		{"once more", "ok", body},
		{"unknown member", "invalid_argument", with(t, body, "extra", wire.NewInt(1))},
		{"no gateway", "invalid_argument", []byte(`{"token":"` + token + `"}`)},
		{"no token", "invalid_argument", []byte(`{"gateway":"` + listed + `"}`)},
		{"no object", "invalid_argument", []byte(`[]`)},
		{"gateway not canonical", "invalid_argument", with(t, body, "gateway", wire.NewString(listed+"/"))},
		{"gateway not listed", "invalid_argument", with(t, body, "gateway", wire.NewString("https://push.example"))},
		{"gateway http elsewhere", "invalid_argument", with(t, body, "gateway", wire.NewString("http://push.example"))},
		{"gateway no string", "invalid_argument", with(t, body, "gateway", wire.NewInt(1))},
		{"short token", "invalid_argument", with(t, body, "token", wire.NewString(strings.Repeat("a", 21)))},
		{"long token", "invalid_argument", with(t, body, "token", wire.NewString(strings.Repeat("a", 513)))},
		{"token with another character", "invalid_argument", with(t, body, "token", wire.NewString(strings.Repeat("a.", 20)))},
		{"another gateway than signed", "invalid_signature", with(t, body, "gateway", wire.NewString("http://127.0.0.1:9"))},
		{"another token than signed", "invalid_signature", with(t, body, "token", wire.NewString(newToken()))},
	} {
		t.Run(c.name, func(t *testing.T) { put(c.body, good).expect(t, c.want) })
	}
	for _, n := range []int{22, 512} {
		r.expect("ok", a.putWake(listed, strings.Repeat("_", n)))
	}
	r.expect("payload_too_large", put(append(body, strings.Repeat(" ", 20_000)...), good))
	r.expect("invalid_argument", a.do(call{method: "PUT", path: "/v1/wake", body: body, plain: true, header: a.signed(kel.ActionWake, good)}))
	r.expect("invalid_argument", a.do(call{method: "PUT", path: "/v1/wake", body: body}))
	r.expect("not_registered", r.newAgent().putWake(listed, token))
	r.expect("not_registered", r.newAgent().deleteWake())
	r.expect("invalid_signature", a.do(call{method: "DELETE", path: "/v1/wake", header: a.signed(kel.ActionWake, good)}))
	r.expect("invalid_signature", a.do(call{method: "DELETE", path: "/v1/wake", header: a.signed(kel.ActionInbox, nil)}))
	replayed := call{method: "DELETE", path: "/v1/wake", header: a.signed(kel.ActionWake, nil)}
	r.expect("ok", a.do(replayed))
	r.expect("replay", a.do(replayed))
	r.expect("ok", a.deleteWake())
}

// TestWakeBudget: a registration is charged to the network that the identity
// registered from.
func TestWakeBudget(t *testing.T) {
	const gateway = "http://127.0.0.1:1"
	r := wakers(t, nil)
	a := r.registered()
	var stored int64
	r.look("SELECT stored FROM networks", nil, &stored)
	r.stop()
	r.run(func(c *relaysvc.Config) {
		offering(c)
		c.Limits.NetworkStored = stored + int64(len(gateway)) + 100
	})
	refused := a.putWake(gateway, strings.Repeat("a", 101))
	r.expect("rate_limited", refused)
	if after := refused.header.Get("Retry-After"); after != "3600" {
		t.Fatalf("Retry-After %s", after)
	}
	r.expect("ok", a.putWake(gateway, strings.Repeat("a", 100)))
	r.expect("ok", a.putWake(gateway, strings.Repeat("b", 99)))
	r.expect("ok", a.deleteWake())
	r.expect("ok", a.putWake(gateway, strings.Repeat("a", 100)))
}

// TestWake is the arming of 07#wake-hints: one wake covers every entry until
// the endpoint next fetches or acknowledges.
func TestWake(t *testing.T) {
	s := newSink(t)
	r := wakers(t, func(c *relaysvc.Config) { c.Timeouts.WakeInterval = time.Second })
	a, token := r.waking(s)
	a.queue()
	got := s.want(token)
	if got.method != "POST" || got.path != "/wake" || got.body != `{"token":"`+token+`"}` || got.length != int64(len(got.body)) {
		t.Fatalf("%+v", got)
	}
	if len(got.header) != 2 || got.header.Get("Content-Type") != "application/json" || got.header.Get("Content-Length") == "" {
		t.Fatalf("headers %v", got.header)
	}
	a.queue()
	r.quiet(s)
	for name, fetch := range map[string]func(){
		"inbox":     func() { r.expect("ok", a.inbox()) },
		"inbox-ack": func() { r.expect("ok", a.ack("1-1")) },
		"listen":    func() { l := a.listen("-"); l.next(); must(t, l.close()); r.untilSilent(a) },
		"wake":      func() { r.expect("ok", a.putWake(s.url, token)) },
	} {
		t.Run(name, func(t *testing.T) {
			r.now.Add(1)
			fetch()
			a.queue()
			s.want(token)
			a.queue()
			r.quiet(s)
		})
	}
}

// untilSilent waits until the relay has noticed that a's streams are closed.
func (r *relay) untilSilent(a *agent) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); r.server.Operator().Status(r.t.Context()).Streams > 0; {
		if time.Now().After(deadline) {
			r.t.Fatal("a closed stream still counts")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestWhatNeedsNoWake: a stream that is open, a duplicate, a refused packet, a
// deleted or replaced registration.
func TestWhatNeedsNoWake(t *testing.T) {
	s := newSink(t)
	r := wakers(t, nil)
	t.Run("a stream", func(t *testing.T) {
		a, token := r.waking(s)
		l := a.listen("-")
		l.want("connected", "")
		a.queue()
		if e, _ := l.next(); e.name != "message" {
			t.Fatalf("%v", e)
		}
		r.quiet(s)
		must(t, l.close())
		r.untilSilent(a)
		a.queue()
		s.want(token)
	})
	t.Run("a duplicate", func(t *testing.T) {
		a := r.registered()
		from := strangerID()
		p := a.packet(from)
		r.expect("ok", r.send(p, a.permit(from)))
		r.expect("ok", a.putWake(s.url, newToken()))
		r.expect("ok", r.send(p, a.permit(from)))
		r.quiet(s)
	})
	t.Run("a refused packet", func(t *testing.T) {
		a, _ := r.waking(s)
		r.expect("not_permitted", r.send(a.packet(strangerID()), nil))
		r.quiet(s)
	})
	t.Run("a deleted registration", func(t *testing.T) {
		a, _ := r.waking(s)
		r.expect("ok", a.deleteWake())
		a.queue()
		r.quiet(s)
	})
	t.Run("a replaced registration", func(t *testing.T) {
		a, _ := r.waking(s)
		token := newToken()
		r.expect("ok", a.putWake(s.url, token))
		a.queue()
		s.want(token)
		r.quiet(s)
	})
	t.Run("an identity that registered anew", func(t *testing.T) {
		a, _ := r.waking(s)
		r.expect("ok", a.unregister(epoch+1))
		r.expect("ok", a.register(epoch+2))
		a.queue()
		r.quiet(s)
	})
}

func TestStrangersWakeToo(t *testing.T) {
	s := newSink(t)
	r := wakers(t, nil)
	a, token := r.published(), newToken()
	r.expect("ok", a.putWake(s.url, token))
	r.expect("ok", r.send(a.packet(strangerID()), nil))
	s.want(token)
}

// TestWakeExpires: a registration is good for OFFLINE_WINDOW_SECONDS after the
// last request that keeps it alive.
func TestWakeExpires(t *testing.T) {
	s := newSink(t)
	r := wakers(t, nil)
	for name, request := range map[string]func(*agent){
		"wake":      func(*agent) {},
		"inbox":     func(a *agent) { r.expect("ok", a.inbox()) },
		"inbox-ack": func(a *agent) { r.expect("ok", a.ack("1-1")) },
		"listen":    func(a *agent) { l := a.listen("-"); l.next(); must(t, l.close()); r.untilSilent(a) },
	} {
		t.Run(name, func(t *testing.T) {
			r.now.Store(epoch)
			a, token := r.waking(s)
			b, _ := r.waking(s)
			if name != "wake" {
				r.now.Add(wire.OfflineWindowSeconds - 1)
				request(a)
				request(b)
			}
			r.now.Add(wire.OfflineWindowSeconds - 1)
			a.queue()
			s.want(token)
			r.now.Add(1)
			b.queue()
			r.quiet(s)
			// What expired does not come back, swept or not.
			r.expect("ok", b.inbox())
			b.queue()
			r.quiet(s)
			r.collect()
			var left int
			r.look("SELECT count(*) FROM wakes w JOIN identities i ON i.id = w.identity WHERE i.ace_id IN (?, ?)", []any{a.aceID(), b.aceID()}, &left)
			if left != 0 {
				t.Fatalf("%d registrations are left", left)
			}
		})
	}
}

// TestWakeIsDeferred keeps the interval between two wakes of one identity, over
// a restart too.
func TestWakeIsDeferred(t *testing.T) {
	s := newSink(t)
	r := wakers(t, nil)
	a, token := r.waking(s)
	a.queue()
	s.want(token)
	r.quiet(s) // by then the first is noted as sent
	r.now.Add(10)
	r.expect("ok", a.inbox())
	a.queue()
	r.quiet(s)
	r.now.Add(19)
	r.quiet(s)
	r.noted()
	r.stop()
	r.run(offering)
	r.quiet(s)
	r.now.Add(1)
	b, other := r.waking(s)
	b.queue()
	got := []string{s.next().token, s.next().token}
	if fmt.Sprint(got) != fmt.Sprint([]string{token, other}) && fmt.Sprint(got) != fmt.Sprint([]string{other, token}) {
		t.Fatalf("wakes for %v, want %s and %s", got, token, other)
	}
	r.quiet(s)
}

// noted waits until the relay has noted what it was answered: one that ends
// before sends a wake again.
func (r *relay) noted() {
	r.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		var due int
		if r.look("SELECT count(*) FROM wakes WHERE due_at <= ?", []any{r.now.Load()}, &due); due == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%d wakes are due for good", due)
		}
	}
}

// TestWakeComesByItself lets a deferred wake come without anything else to do.
func TestWakeComesByItself(t *testing.T) {
	s := newSink(t)
	r := wakers(t, func(c *relaysvc.Config) {
		c.Clock = nil
		c.Timeouts.WakeInterval = time.Second
	})
	r.now.Store(time.Now().Unix())
	a, token := r.waking(s)
	for range 3 {
		a.queue()
		s.want(token)
		r.now.Store(time.Now().Unix())
		r.expect("ok", a.inbox())
	}
}

// TestWakeAnswers: a gateway that does not know the token ends the
// registration; every other answer ends the wake.
func TestWakeAnswers(t *testing.T) {
	s := newSink(t)
	r := wakers(t, func(c *relaysvc.Config) { c.Timeouts.WakeInterval = time.Second })
	for _, c := range []struct {
		status, attempts int
		stays            bool
	}{
		{200, 1, true}, {204, 1, true}, {301, 1, true}, {307, 1, true}, {400, 1, true}, {403, 1, true}, {429, 1, true},
		{500, 2, true}, {503, 2, true}, {404, 1, false}, {410, 1, false},
	} {
		t.Run(fmt.Sprint(c.status), func(t *testing.T) {
			a, token := r.waking(s)
			s.answers(func(of string) int {
				if of == token {
					return c.status
				}
				return http.StatusOK
			})
			a.queue()
			for range c.attempts {
				s.want(token)
			}
			r.quiet(s)
			r.now.Add(1)
			r.expect("ok", a.inbox())
			a.queue()
			if c.stays {
				s.want(token)
			}
			if c.attempts == 1 {
				r.quiet(s)
			} else {
				s.want(token)
			}
		})
	}
}

// TestForgottenTokenOnly: 410 ends the registration only if it still holds the
// token that the gateway was sent.
func TestForgottenTokenOnly(t *testing.T) {
	s := newSink(t)
	r := wakers(t, func(c *relaysvc.Config) { c.Timeouts.WakeInterval = time.Second })
	a, old := r.waking(s)
	token := newToken()
	replaced := make(chan struct{})
	release := sync.OnceFunc(func() { close(replaced) })
	defer release()
	s.answers(func(of string) int {
		if of == old {
			<-replaced
			return http.StatusGone
		}
		return http.StatusOK
	})
	a.queue()
	s.want(old)
	r.expect("ok", a.putWake(s.url, token))
	release()
	r.quiet(s)
	r.now.Add(1)
	a.queue()
	s.want(token)
}

// TestGatewayThatHangs changes nothing for senders, nor for the recipients of
// other gateways, and does not hold up the end of the relay.
func TestGatewayThatHangs(t *testing.T) {
	s, hanging := newSink(t), newSink(t)
	r := wakers(t, nil)
	end := make(chan struct{})
	defer close(end)
	hanging.answers(func(string) int { <-end; return 200 })
	a, token := r.waking(hanging)
	none := r.registered()
	for _, x := range []*agent{a, none} {
		from := strangerID()
		got := r.send(x.packet(from), x.permit(from))
		got.header.Del("Date")
		if text := fmt.Sprint(got.status, got.header, string(got.body)); text != fmt.Sprint(200, http.Header{
			"Content-Type": {"application/json"}, "Content-Length": {"11"}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"},
		}, `{"ok":true}`) {
			t.Fatal(text)
		}
	}
	hanging.want(token)
	r.quiet(s)
	r.stop()
	// What was in progress is due again.
	r.run(offering)
	hanging.want(token)
}

// TestWakeAfterACrash: an entry that was queued right before the relay ended
// has its wake after the next start.
func TestWakeAfterACrash(t *testing.T) {
	s := newSink(t)
	r := wakers(t, nil)
	a, token := r.waking(s)
	r.stop()
	r.run(nil) // takes the packet and has nobody who sends wakes
	a.queue()
	r.stop()
	r.run(offering)
	s.want(token)
	r.quiet(s)
}

// TestWakesAtOnce bounds the requests that are in progress at the same time.
func TestWakesAtOnce(t *testing.T) {
	const atOnce, agents = 32, 36
	s := newSink(t)
	r := wakers(t, nil)
	end := make(chan struct{})
	release := sync.OnceFunc(func() { close(end) })
	defer release()
	s.answers(func(string) int { <-end; return http.StatusOK })
	tokens := map[string]bool{}
	for range agents {
		a, token := r.waking(s)
		tokens[token] = true
		a.queue()
	}
	for range atOnce {
		delete(tokens, s.next().token)
	}
	// Those that were queued last have to wait: nobody else is woken now.
	if len(tokens) != agents-atOnce || len(s.calls) > 0 {
		t.Fatalf("%d tokens are left, %d more wakes came", len(tokens), len(s.calls))
	}
	release()
	for range agents - atOnce {
		delete(tokens, s.next().token)
	}
	if len(tokens) > 0 {
		t.Fatalf("%d were not woken", len(tokens))
	}
}
