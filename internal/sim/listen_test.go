package sim

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"testing/synctest"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

// listen makes a host follow its inbox while the world goes on: others act, and
// another process of the same host; the network cuts the stream, holds it up and
// opens it twice; its relay drains and restarts.
func (h *host) listen() {
	w := h.w
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	known := h.id
	h.listening = true
	go func() {
		defer func() {
			if p := recover(); p != nil {
				w.violate("no panic", "06#error-codes", "%v\n%s", p, debug.Stack())
				ended <- nil
			}
		}()
		ended <- h.endpoint.Listen(ctx, h.hear)
	}()
	synctest.Wait()
	for range 2 + w.rand.IntN(8) {
		if len(ended) > 0 || h.disk.dead || w.broken != nil {
			break
		}
		w.turn(h)
		h.goOn(0)
		if !h.disk.dead {
			h.look()
		}
	}
	stop()
	h.expect("listen", <-ended, ofListen...)
	h.listening = false
	w.endStreams(nil)
	if h.id != known && !h.disk.dead {
		h.takeUp() // another process has renewed the keys
	}
}

// ofListen are the codes with which listening ends although nothing is wrong:
// another process has renewed the keys, or ten connections in a row have failed.
var ofListen = []fault.Code{fault.IdentityUnavailable, fault.RelayUnavailable}

// goOn lets so many seconds pass, in which the streams of the host hand on what
// they have, and returns when the host waits again.
func (h *host) goOn(seconds int64) {
	h.gate.set(true)
	h.w.sleep(seconds)
	h.gate.set(false)
}

// sleep lets time pass, also that of timers.
func (w *world) sleep(seconds int64) {
	synctest.Wait()
	w.now += seconds
	time.Sleep(time.Duration(seconds) * time.Second)
	synctest.Wait()
}

// turn is what happens once while a host listens.
func (w *world) turn(h *host) {
	turns := []struct {
		weight int
		do     func()
	}{
		{10, func() { w.bystand(h) }},
		{4, func() { h.rival() }},
		{3, func() { h.runHandlers() }},
		{3, func() { h.goOn(1 + w.rand.Int64N(100)) }},
		{1, func() { w.sleep(1 + w.rand.Int64N(700)) }}, // nothing comes through
		{2, func() { h.cutStreams(func(s *stream) { s.cut(w.rand.IntN(60_000)) }) }},
		{1, func() { h.cutStreams(func(s *stream) { s.cut(w.rand.IntN(300)) }) }},
		{1, func() { h.cutStreams((*stream).drain) }},
		{1, func() { h.relay.restart() }},
	}
	total := 0
	for _, t := range turns {
		total += t.weight
	}
	n := w.rand.IntN(total)
	for _, t := range turns {
		if n < t.weight {
			t.do()
			return
		}
		n -= t.weight
	}
}

func (h *host) cutStreams(cut func(*stream)) {
	for _, s := range h.w.streams {
		if s.call.from == h && !h.w.calm {
			h.w.count("stream cut")
			cut(s)
		}
	}
}

// bystand is an action of another host.
func (w *world) bystand(h *host) {
	other := w.hosts[(h.n+1+w.rand.IntN(len(w.hosts)-1))%len(w.hosts)]
	peer := h
	if w.chance(0.2) {
		peer = w.hosts[(other.n+1+w.rand.IntN(len(w.hosts)-1))%len(w.hosts)]
	}
	a := drawFrom(besides, w.rand)
	w.aside(other, a.name, func() { a.do(w, other, peer) })
}

// aside is something that a host does within a step, as in one of its own.
func (w *world) aside(h *host, what string, do func()) {
	w.note("  meanwhile %s: %s", h.name, what)
	h.expose(w.plan.weather)
	do()
	h.settleStep()
}

// rival is an action of another process of the host, which opens the same store.
func (h *host) rival() {
	w := h.w
	if h.rivalry || h.disk.dead {
		return
	}
	h.rivalry, h.raced = true, true
	defer func() { h.rivalry = false }()
	a := drawFrom(besides, w.rand)
	if h.listening && w.chance(0.1) {
		a = &renewal
	}
	w.note("  another process of %s: %s", h.name, a.name)
	w.count("another process")
	w.count("another process: " + a.name)
	if a == &renewal {
		if err := h.newSigningKey(); err != nil {
			h.expect("rotate", err, fault.InvalidArgument)
			return
		}
	}
	second, err := core.Open(w.ctx, h.config())
	if err != nil {
		h.expect("open", err)
		return
	}
	first := h.endpoint
	h.endpoint = second
	defer func() {
		h.endpoint = first
		if err := second.Close(); err != nil && !h.disk.dead && !h.disk.failed {
			w.violate("a store closes", "06#error-codes", "%v", err)
		}
	}()
	peer := w.hosts[(h.n+1+w.rand.IntN(len(w.hosts)-1))%len(w.hosts)]
	a.do(w, h, peer)
}

// besides are the actions that are done while a host is at something else.
var besides []*action

var renewal = action{name: "renew the keys", do: func(_ *world, h, _ *host) { h.expect("publish", h.publish(false)) }}

func setBesides() {
	if besides != nil {
		return
	}
	names := []string{
		"send", "trade", "retry", "pull", "publish", "upkeep", "connect", "decide", "renew", "block", "unblock", "abandon", "handle", "invite", "forget",
	}
	for i := range actions {
		if slices.Contains(names, actions[i].name) {
			besides = append(besides, &actions[i])
		}
	}
	if len(besides) != len(names) {
		panic(fmt.Sprintf("sim: %d of the actions %q", len(besides), names))
	}
}
