package crash

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/suite"
)

// gateway takes the wakes of all agents.
type gateway struct {
	url string

	mu    sync.Mutex
	woken map[string]bool // by token; guarded by mu
}

func newGateway(t *testing.T) *gateway {
	g := &gateway{woken: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var wake struct{ Token string }
		body, _ := io.ReadAll(r.Body)
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&wake); err != nil {
			t.Errorf("a wake %q: %v", body, err)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.woken[wake.Token] = true
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// got reports whether a wake came since it was forgotten.
func (g *gateway) got(token string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.woken[token]
}

func (g *gateway) forget(token string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.woken, token)
}

// wake is what an agent knows of its wake registration.
type wake struct {
	token   string // of the one that was accepted, "" for none
	unclear bool   // something was asked since, and not answered
}

// setWake replaces the wake registration, or removes it.
func (o *owner) setWake() error {
	next := wake{token: suite.Hex256(suite.RandomBytes(32))}
	var r request
	var err error
	if o.random.IntN(4) == 0 {
		next.token = ""
		r, err = o.signed("DELETE", "/v1/wake", kel.ActionWake, relayapi.WakeDeletePayload(), nil, o.now())
	} else {
		w := relayapi.Wake{Gateway: o.gateway.url, Token: next.token}
		r, err = o.signed("PUT", "/v1/wake", kel.ActionWake, relayapi.WakePayload(w.Gateway, w.Token), w.Body(), o.now())
	}
	o.wake.unclear = true
	_, outcome, err := o.authenticated(r, err)
	switch {
	case err != nil:
		return err
	case outcome != ok:
		return o.unexpected("a wake registration", outcome)
	}
	o.wake = next
	return nil
}

// keepWake asks for a wake registration where there may be none.
func (o *owner) keepWake() error {
	if o.wake.token != "" && !o.wake.unclear {
		return nil
	}
	return o.setWake()
}

// checkWake finds the wake registration as it was accepted: nobody listens, the
// queue was read, and what is queued then is told to the gateway.
func (o *owner) checkWake() error {
	if !o.is(registered) || o.wake.unclear || o.wake.token == "" {
		return nil
	}
	o.gateway.forget(o.wake.token)
	p := o.envelopes.packet(o.random, o.senders[0], o.id.ACEID(), o.now())
	outcome, err := o.send(o.agent, p, o.senders[0], true, false)
	if err != nil || outcome != ok {
		return err
	}
	deadline := time.Now().Add(patience)
	for !o.gateway.got(o.wake.token) {
		if time.Now().After(deadline) {
			o.findings.add(registration, "%s: its wake registration was accepted, and the gateway is not told of a packet", o.name)
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	o.count.wakes.Add(1)
	return nil
}
