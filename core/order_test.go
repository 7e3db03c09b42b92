package core_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/relaysvc"
)

// proxy stands before a real relay. It sees each send, and fails some of them:
// before the relay has them, or behind.
type proxy struct {
	forward http.Handler

	mu    sync.Mutex
	first map[string][]string                  // message IDs by recipient, in the order they were first offered
	fails func(to string) (before, after bool) // nil: nothing fails
	hold  func(to string)                      // is called before a send goes on
}

// newProxied returns a relay that is reached through a proxy only.
func newProxied(t *testing.T) (*relay, *proxy) {
	t.Helper()
	p := &proxy{first: map[string][]string{}}
	front := httptest.NewUnstartedServer(p)
	front.Listener.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front.Listener = listener
	public, err := relaysvc.LoopbackURL(listener.Addr())
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, func(c *relaysvc.Config) { c.PublicURL = public })
	target, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	p.forward = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host },
		Transport: transport,
	}
	r.url = public
	front.Start()
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		transport.CloseIdleConnections()
	})
	return r, p
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/send" {
		p.forward.ServeHTTP(w, r)
		return
	}
	raw, err := io.ReadAll(r.Body)
	var body struct {
		Packet struct{ MessageID, To string }
	}
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	before, after := p.see(body.Packet.To, body.Packet.MessageID)
	if before {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if after { // the relay has it, and its answer is lost
		p.forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	p.forward.ServeHTTP(w, r)
}

func (p *proxy) see(to, id string) (before, after bool) {
	p.mu.Lock()
	if !slices.Contains(p.first[to], id) {
		p.first[to] = append(p.first[to], id)
	}
	if p.fails != nil {
		before, after = p.fails(to)
	}
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		hold(to)
	}
	return before, after
}

// Messages to one recipient are first offered to its relay in the order they were
// queued, whatever fails, whoever retries when, and from however many processes;
// and all of them arrive (agentlink: jobs to one recipient leave in the order they
// were created).
func TestOutboxKeepsOrder(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			keepsOrder(t, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func keepsOrder(t *testing.T, chance *rand.Rand) {
	r, p := newProxied(t)
	bob := newAgent(t, r, closed())
	var peers []*agent
	for range 3 {
		peer := newAgent(t, r, open())
		befriend(bob, peer)
		peers = append(peers, peer)
	}
	second, err := core.Open(t.Context(), bob.config)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	processes := []*core.Endpoint{bob.Endpoint, second}
	p.mu.Lock()
	p.first = map[string][]string{}
	failing := rand.New(rand.NewPCG(chance.Uint64(), 1)) // guarded by mu
	p.fails = func(string) (before, after bool) { return failing.IntN(3) == 0, failing.IntN(4) == 0 }
	p.mu.Unlock()

	queued := map[string][]string{}
	for range 25 {
		to := peers[chance.IntN(len(peers))].ACEID()
		out, err := processes[chance.IntN(2)].Enqueue(t.Context(), core.OutMessage{To: to, Body: profile.TextBody("x")})
		if err != nil {
			t.Fatal(err)
		}
		queued[to] = append(queued[to], out.MessageID)
		r.ahead.Add(chance.Int64N(40))
		var both sync.WaitGroup // what fails is in the entries
		switch chance.IntN(4) {
		case 0:
			both.Go(func() { processes[0].Attempt(t.Context(), out.MessageID) })
		case 1:
			both.Go(func() { processes[0].RetryDue(t.Context()) })
			both.Go(func() { processes[1].Attempt(t.Context(), out.MessageID) })
		case 2:
			both.Go(func() { processes[0].RetryDue(t.Context()) })
			both.Go(func() { processes[1].RetryDue(t.Context()) })
		}
		both.Wait()
	}
	for round := 0; !p.allDelivered(t, bob); round++ {
		if round == 20 {
			t.Fatal("not all of them are delivered")
		}
		r.ahead.Add(3600)
		for _, a := range append(peers, bob) {
			a.publish(false)
		}
		if _, err := bob.RetryDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, peer := range peers {
			peer.pull()
		}
		bob.pull()
	}
	for to, want := range queued {
		if got := p.first[to]; !slices.Equal(got, want) {
			t.Errorf("to %s:\nqueued  %v\noffered %v", to, want, got)
		}
	}
}

// allDelivered reports whether no message of an agent waits, and once it has been
// asked lets nothing fail any more.
func (p *proxy) allDelivered(t *testing.T, a *agent) bool {
	t.Helper()
	p.mu.Lock()
	p.fails = nil
	p.mu.Unlock()
	list, err := a.Outbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(list, func(o core.Outgoing) bool { return o.State != core.StateDelivered })
}

// A relay that does not answer for one recipient holds up nobody else's messages.
func TestRecipientsDoNotWait(t *testing.T) {
	r, p := newProxied(t)
	bob, slow, quick := newAgent(t, r, closed()), newAgent(t, r, open()), newAgent(t, r, open())
	befriend(bob, slow)
	befriend(bob, quick)
	released, passed := make(chan struct{}), make(chan struct{}, 1)
	p.mu.Lock()
	p.hold = func(to string) {
		if to == slow.ACEID() {
			<-released
			return
		}
		passed <- struct{}{}
	}
	p.mu.Unlock()
	for _, to := range []*agent{slow, slow, quick} {
		if _, err := bob.Enqueue(t.Context(), core.OutMessage{To: to.ACEID(), Body: profile.TextBody("x")}); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		n, err := bob.RetryDue(context.WithoutCancel(t.Context()))
		if err == nil && n != 3 {
			err = fmt.Errorf("%d of 3 relayed", n)
		}
		ended <- err
	}()
	select {
	case <-passed:
	case err := <-ended:
		t.Errorf("it ended: %v", err)
	case <-t.Context().Done():
	}
	close(released)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
