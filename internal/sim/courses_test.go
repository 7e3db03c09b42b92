package sim

import (
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Courses of events that chance alone brings about too rarely.

func (w *world) pullAside(h *host) {
	w.aside(h, "pull", func() { h.expect("pull", h.pull(0)) })
}

// haggle takes a thread further, with both hosts at it.
func (w *world) haggle(h, peer *host) {
	thread := w.someThread()
	for range 2 + w.rand.IntN(6) {
		w.aside(h, "trade", func() { h.tradeIn(peer, thread) })
		w.pullAside(peer)
		w.pullAside(h)
		if w.broken != nil {
			return
		}
		h, peer = peer, h
	}
}

// flood sends a host more than it may have room for, which it then fetches more
// often than an entry that fails may be (06#receive-pipeline step 10).
func (w *world) flood(h, peer *host) {
	for range 4 {
		w.aside(h, "send", func() { h.send(peer) })
	}
	for range wire.MaxFetchAttempts + 1 {
		w.pullAside(peer)
	}
}

// work lets a host handle what it gets as it comes.
func (w *world) work(h, peer *host) {
	for range 1 + w.rand.IntN(4) {
		w.aside(peer, "send", func() { peer.send(h) })
		if w.chance(0.7) {
			w.pullAside(h)
			w.aside(h, "run handlers", h.runHandlersOn)
			if w.chance(0.2) {
				w.aside(h, "fail on", h.failOn)
			}
		}
		if w.broken != nil {
			return
		}
	}
}

// tradeLate goes on in a thread as soon as the time of the message that keeps it
// busy is over, whether or not somebody has noticed
// (08#sender-state-and-busy-threads).
func (h *host) tradeLate() {
	w := h.w
	for _, e := range h.view.outbox {
		if e.State != store.Pending || e.Attempts == 0 || shortType(e.Type) == "" || !w.chance(0.5) {
			continue
		}
		h.sleepUntil(e.FirstAttemptAt + wire.OfflineWindowSeconds)
		h.tradeIn(w.other(e.Peer), e.ThreadID)
		return
	}
}

// decideLate accepts a contact request that has just ended (05#flow step 2).
func (h *host) decideLate() {
	for _, q := range h.view.requests {
		if h.w.chance(0.5) {
			h.sleepUntil(q.ReceivedAt + wire.ContactRequestTTLSeconds)
			h.acceptBlindly(h.w.other(q.Peer))
			return
		}
	}
}

// sleepUntil lets time pass until the clock of the host says at.
func (h *host) sleepUntil(at int64) { h.w.now = max(h.w.now, at-h.skew) }

// pullAsleep pulls, and the machine sleeps between the answer and what it does
// with it: perhaps for so long that a packet is out of its window
// (06#receive-pipeline step 5).
func (h *host) pullAsleep() {
	h.asleep = int64(h.w.some(60, day, wire.OfflineWindowSeconds-1, wire.OfflineWindowSeconds+1))
	h.expect("pull", h.pull(0))
	h.asleep = 0
}

// relapse puts the store of a host back to before it offered a prekey, to which
// its peer then sends: the one after that which the peer uses first. The receipt
// that calls it unknown finds the message as it was, at its next attempt, or
// given up (06#outbox-sender).
func (w *world) relapse(h, peer *host) {
	h.keepCopy()
	w.aside(h, "send", func() { h.send(peer) })
	w.pullAside(peer)
	w.aside(peer, "send", func() { peer.send(h) })
	w.now++ // of two offers of the same second the first stays held, then as with that in the receipt
	w.pullAside(h)
	w.pullAside(peer)
	if w.broken != nil {
		return
	}
	w.count("restored")
	h.restore()
	w.aside(peer, "send", func() { peer.send(h) })
	w.pullAside(h)
	switch w.some(0, 1, 2) {
	case 1:
		w.now += 61
		w.aside(peer, "retry", func() { peer.expect("retry", peer.retry()) })
	case 2:
		w.aside(peer, "abandon", peer.abandon)
	}
	w.pullAside(peer)
}
