package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// action is what a step may do. Weights are relative. calm ones are done by the
// world to a host, and nothing fails under them.
type action struct {
	name   string
	weight int
	calm   bool
	do     func(w *world, h, peer *host)
}

var actions = []action{
	{"wait", 14, true, func(w *world, _, _ *host) { w.wait() }},
	{"send", 16, false, func(_ *world, h, peer *host) { h.send(peer) }},
	{"retry", 14, false, func(_ *world, h, _ *host) { h.expect("retry", h.retry()) }},
	{"pull", 24, false, func(w *world, h, _ *host) { h.expect("pull", h.pull(w.some(0, 0, 0, 1, 3))) }},
	{"publish", 2, false, func(w *world, h, _ *host) { h.expect("publish", h.publish(w.chance(0.6))) }},
	{"upkeep", 5, false, func(_ *world, h, _ *host) { h.upkeep() }},
	{"connect", 5, false, func(_ *world, h, peer *host) { h.expect("connect", h.connect(peer), ofConnect...) }},
	{"decide", 6, false, func(w *world, h, _ *host) { h.expect("decide", h.decide(w.chance(0.85)), ofDecide...) }},
	{"decide blindly", 1, false, func(_ *world, h, peer *host) { h.acceptBlindly(peer) }},
	{"renew", 1, false, func(_ *world, h, peer *host) { h.expect("renew", h.renew(peer), ofConnect...) }},
	{"block", 1, false, func(_ *world, h, peer *host) { h.expect("block", h.block(peer)) }},
	{"unblock", 2, false, func(_ *world, h, peer *host) { h.expect("unblock", h.unblock(peer)) }},
	{"abandon", 1, false, func(_ *world, h, _ *host) { h.abandon() }},
	{"late request", 6, true, func(w *world, _, _ *host) { w.release() }},
	{"part", 2, true, func(w *world, h, _ *host) { w.parted[w.somePair(h)] = true }},
	{"join", 3, true, func(w *world, h, _ *host) { delete(w.parted, w.somePair(h)) }},
	{"restart", 3, false, func(_ *world, h, _ *host) { h.restart(func() {}) }},
	{"copy the store", 3, true, func(_ *world, h, _ *host) { h.keepCopy() }},
	{"restore the copy", 2, true, func(_ *world, h, _ *host) {
		if h.copy != "" {
			h.w.count("restored")
			h.restore()
		}
	}},
	{"lose the store", 1, true, func(w *world, h, _ *host) {
		if w.chance(0.4) {
			h.w.count("lost")
			h.lose()
		}
	}},
	{"rotate", 1, false, func(_ *world, h, _ *host) { h.renewKeys("rotate", h.newSigningKey) }},
	{"rotate the root", 1, false, func(_ *world, h, _ *host) {
		h.renewKeys("rotate the root", func() error { return h.newRoot(false) })
	}},
	{"recover", 1, false, func(w *world, h, _ *host) {
		if w.chance(0.5) {
			h.renewKeys("recover", func() error { return h.newRoot(true) })
		}
	}},
	{"trade", 14, false, func(_ *world, h, peer *host) { h.trade(peer) }},
	{"haggle", 3, false, func(w *world, h, peer *host) { w.haggle(h, peer) }},
	{"flood", 2, false, func(w *world, h, peer *host) { w.flood(h, peer) }},
	{"trade late", 1, false, func(_ *world, h, _ *host) { h.tradeLate() }},
	{"decide late", 1, false, func(_ *world, h, _ *host) { h.decideLate() }},
	{"relapse", 1, false, func(w *world, h, peer *host) { w.relapse(h, peer) }},
	{"sleep", 1, false, func(_ *world, h, _ *host) { h.pullAsleep() }},
	{"vouch", 1, false, func(_ *world, h, peer *host) { h.vouch(peer) }},
	{"handle", 3, false, func(w *world, h, _ *host) { h.expect("handle", h.handle(w.some(1, 2, 100))) }},
	{"run handlers", 10, false, func(_ *world, h, _ *host) { h.runHandlersOn() }},
	{"judge what is held", 8, false, func(_ *world, h, _ *host) { h.judgeHeld() }},
	{"force what is held", 2, false, func(_ *world, h, _ *host) { h.forceHeld() }},
	{"release", 2, false, func(_ *world, h, _ *host) { h.release() }},
	{"fail on", 4, false, func(_ *world, h, _ *host) { h.failOn() }},
	{"work", 6, false, func(w *world, h, peer *host) { w.work(h, peer) }},
	{"unhandle", 1, false, func(_ *world, h, _ *host) { h.unhandle() }},
	{"invite", 2, false, func(_ *world, h, peer *host) { h.invite(peer) }},
	{"import", 3, false, func(_ *world, h, _ *host) { h.importInvitation() }},
	{"forget", 1, false, func(_ *world, h, peer *host) { h.forget(peer) }},
	{"new prekeys", 1, false, func(w *world, h, _ *host) { h.newPrekeys(w.some(1, 2, 4, wire.MaxRetainedPrekeys+2)) }},
	{"unpublish", 1, false, func(w *world, h, _ *host) {
		if w.chance(0.4) {
			h.unpublish()
		}
	}},
	{"listen", 9, false, func(_ *world, h, _ *host) { h.listen() }},
	{"keep", 1, true, func(w *world, _, _ *host) { w.keep() }},
	{"set the clock", 2, true, func(w *world, h, _ *host) { h.skew = int64(w.rand.IntN(2*maxSkew)) - maxSkew }},
	{"restart the relay", 2, true, func(_ *world, h, _ *host) { h.relay.restart() }},
}

// maxSkew is how far a clock is off, such that any two are within
// TIMESTAMP_WINDOW_SECONDS.
const maxSkew = 140

// The codes that an operation may fail with when nothing is wrong.
var (
	ofConnect = []fault.Code{fault.NotPermitted, fault.UnknownPeer}
	ofDecide  = []fault.Code{}
	ofSend    = []fault.Code{fault.NotPermitted, fault.UnknownPeer}
)

func (w *world) some(choices ...int) int { return choices[w.rand.IntN(len(choices))] }

func (w *world) somePair(h *host) [2]int { return [2]int{h.n, w.rand.IntN(len(w.relays))} }

// wait lets time pass: mostly seconds or minutes, at times days.
func (w *world) wait() {
	bound := []int64{5, 40, 90, 90, 200, 4000, 4000, 20_000, day, 4 * day}
	w.now += 1 + w.rand.Int64N(bound[w.rand.IntN(len(bound))])
}

func (h *host) publish(force bool) error {
	_, err := h.endpoint.Publish(h.w.ctx, core.PublishOptions{Force: force})
	return err
}

// upkeep does what an endpoint does at least every hour. What it reports is no
// wrong code either.
func (h *host) upkeep() {
	report, err := h.endpoint.Upkeep(h.w.ctx)
	h.expect("upkeep", err)
	if err == nil && !h.disk.dead && !h.raced && !h.disk.failed && len(report.Failures) == 0 && !report.Withdrawn {
		h.checkUpkeep()
	}
	for _, f := range report.Failures {
		h.expect("upkeep: "+f.Step, f.Err, ofUpkeep[f.Step]...)
	}
}

// checkUpkeep: a pass in which nothing failed leaves nothing due
// (05#delivery-permits, Upkeep).
func (h *host) checkUpkeep() {
	v := h.load()
	for peer, row := range v.contacts {
		if row.State == "admitted" && !signedBy(v.issued[peer], h.id.State(), h.id.ACEID()) {
			h.w.violate("upkeep sends permit refreshes", "05#delivery-permits", "%s: none under its key to %s", h.name, peer)
		}
	}
	for peer, b := range v.blocks {
		if b.Settled == "" {
			h.w.violate("upkeep registers blocks", "05#blocks", "%s: that of %s is not", h.name, peer)
		}
	}
	h.read(func(tx *store.Tx) error {
		for _, kind := range []store.DocumentKind{store.OwnDescriptor, store.OwnCard} {
			own, _, err := tx.Own(kind)
			if err != nil {
				return err
			}
			if own.Relay != h.relay.url() {
				h.w.violate("upkeep publishes", "05#delivery-permits", "%s: %s is at %q", h.name, kind, own.Relay)
			}
		}
		return nil
	})
}

// ofUpkeep are the codes of its steps. Where both of two peers have a new key, a
// permit refresh is a stranger's request: the peer may be closed, and receipts
// may have taken up the stranger allowance. Where the clock of the relay is behind,
// it serves descriptors that have expired here.
var ofUpkeep = map[string][]fault.Code{
	core.UpkeepPermit: {fault.NotPermitted, fault.UnknownPeer, fault.RelayUnavailable, fault.InvalidAuthorization},
}

func (h *host) renew(peer *host) error {
	_, err := h.endpoint.RenewPermit(h.w.ctx, peer.id.ACEID())
	return err
}

func (h *host) block(peer *host) error {
	h.deciding, h.w.blocks = true, true
	h.blocked[peer.id.ACEID()] = true
	_, err := h.endpoint.Block(h.w.ctx, peer.id.ACEID())
	return err
}

func (h *host) unblock(peer *host) error {
	h.deciding = true
	_, err := h.endpoint.Unblock(h.w.ctx, peer.id.ACEID())
	return err
}

// connect asks a peer, which is found by its handle when nothing is known of it.
func (h *host) connect(peer *host) error {
	if h.view.pins[peer.id.ACEID()] == nil {
		if _, err := h.endpoint.Resolve(h.w.ctx, "@"+peer.name+"@"+peer.relay.host()); err != nil {
			return err
		}
	}
	about := profile.TextID
	if h.w.chance(0.2) {
		about = profile.CommerceID
	}
	h.requested[peer.id.ACEID()] = true
	_, err := h.endpoint.Connect(h.w.ctx, peer.id.ACEID(), about, "")
	return err
}

func (h *host) pull(max int) error {
	report, err := h.endpoint.Pull(h.w.ctx, max, h.hear)
	if report.Fetched > 0 {
		h.w.note("   %s: %+v", h.name, report)
	}
	return err
}

// hear is the application.
func (h *host) hear(e core.Event) {
	h.w.count("event " + e.Kind)
	if e.Kind == core.EventMessage {
		h.told[received{e.Message.From, e.Message.MessageID}]++
	}
}

// decide accepts or rejects the contact requests that are held.
func (h *host) decide(accept bool) error {
	held, err := h.endpoint.Requests(h.w.ctx)
	if err != nil {
		return err
	}
	h.deciding = h.deciding || accept
	for _, q := range held {
		if !accept {
			err = h.endpoint.Reject(h.w.ctx, q.From)
		} else {
			_, err = h.endpoint.Accept(h.w.ctx, q.From)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// acceptBlindly accepts a request whether or not one is held: one that has
// expired is never accepted (05#flow step 2).
func (h *host) acceptBlindly(peer *host) {
	id := peer.id.ACEID()
	at := slices.IndexFunc(h.view.requests, func(q store.Request) bool { return q.Peer == id })
	live := at >= 0 && h.view.requests[at].ReceivedAt > h.clock()-wire.ContactRequestTTLSeconds
	h.deciding = h.deciding || live
	_, err := h.endpoint.Accept(h.w.ctx, id)
	if err == nil && !live {
		h.w.violate("only a held request is accepted", "05#flow step 2", "%s accepts %s", h.name, peer.name)
	}
	codes := ofDecide
	if !live {
		codes = append(codes, fault.InvalidArgument, fault.NotPermitted)
	}
	h.expect("accept", err, codes...)
}

// send enqueues a message and mostly makes the first attempt at once, as the
// command line does.
func (h *host) send(peer *host) {
	body := profile.TextBody(fmt.Sprintf("message %d", len(h.w.sent.list)))
	h.expect("enqueue", h.enqueue(core.OutMessage{To: peer.id.ACEID(), Type: profile.TextType, Body: body}), ofSend...)
}

// enqueue returns why a message was not accepted.
func (h *host) enqueue(m core.OutMessage) error {
	out, err := h.endpoint.Enqueue(h.w.ctx, m)
	h.checkPolicy(m.Type, out, err)
	if err != nil {
		return err
	}
	h.read(func(tx *store.Tx) error { return h.checkPermitted(tx, out.To) })
	sent := h.w.sent.add(out.MessageID, h, out.To)
	sent.body, sent.kind, sent.thread = string(m.Body.Canonical()), m.Type, m.ThreadID
	h.w.count("accepted")
	if out.State != core.StatePendingApproval && h.w.chance(0.8) {
		_, err = h.endpoint.AttemptDue(h.w.ctx, out.MessageID)
		if errors.Is(err, delivery.ErrNotItsTurn) {
			return nil // another process makes the attempt before it, or died in that
		}
		h.expect("attempt", err, fault.UnknownPeer) // its descriptor has expired
	}
	return nil
}

// checkPermitted: nothing is enqueued to a peer without a valid permit of it
// (06#outbox-sender).
func (h *host) checkPermitted(tx *store.Tx, peer string) error {
	held, _, err := tx.Permit(peer, store.PermitHeld)
	if err != nil {
		return err
	}
	pin, err := h.pinned(tx, peer)
	if err == nil && (held.ExpiresAt <= h.clock() || !signedBy(held, pin, peer)) {
		h.w.violate("a message needs a permit", "06#outbox-sender", "%s has none of %s", h.name, peer)
	}
	return err
}

func (h *host) retry() error {
	_, err := h.endpoint.RetryDue(h.w.ctx)
	return err
}

// abandon gives up one message that waits.
func (h *host) abandon() {
	for _, m := range h.w.sent.of(h) {
		e := h.view.entry(m.id)
		if e == nil || e.State != store.Pending || !h.w.chance(0.5) {
			continue
		}
		_, err := h.endpoint.Abandon(h.w.ctx, m.id)
		h.expect("abandon", err)
		m.abandoned = true
		return
	}
}
