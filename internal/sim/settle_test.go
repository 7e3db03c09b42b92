package sim

import (
	"slices"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// eagerRounds is how many rounds of retries and pulls messages are given after
// the faults have stopped, before only their expiry is waited for; and
// eagerAttempts how many attempts a hopeful one, in as many rounds as that takes.
const eagerRounds, eagerAttempts = 8, 6

// settle stops the faults and lets the hosts do what upkeep does, until every
// message has its end.
func (w *world) settle() {
	w.calm = true
	w.draw(w.plan.seed + 1<<32)
	w.note("calm")
	clear(w.parted)
	for len(w.late) > 0 {
		w.release()
	}
	for _, h := range w.hosts {
		h.takeBackGivenUp() // or it would take up the room of others for good
		h.judgeHeld()
		withdrawn, err := h.endpoint.Withdrawn(w.ctx)
		h.expect("withdrawn", err)
		if withdrawn { // only its owner publishes it again
			h.expect("publish", h.publish(false))
		}
	}
	hopeful := w.hopeful()
	for round := 0; round < eagerRounds || round < mostRounds && w.waiting(hopeful); round++ {
		w.round(round == 0)
		if round == 0 {
			hopeful = append(hopeful, w.hopeful()...) // permits were renewed
		}
		if w.broken != nil || !w.advance() {
			break
		}
	}
	w.mustHaveEnded(hopeful)
	for rounds := 0; w.broken == nil && w.pending() > 0; rounds++ {
		if rounds == mostRounds {
			w.violate("a message ends", "06#outbox-sender", "%d do not", w.pending())
		}
		w.expireNext()
		w.round(false)
	}
	if w.broken == nil {
		w.outlastHeld()
		w.serveToTheEnd()
	}
	for _, m := range w.sent.list {
		w.checkEnd(m)
	}
	w.checkThreads()
}

// round is one turn of upkeep, or of what is due meanwhile, and of pulling, for
// each host.
func (w *world) round(all bool) {
	w.began = w.now
	for _, h := range w.hosts {
		if all || w.now-h.keptUp >= day/2 {
			h.upkeep()
			h.keptUp = w.now
		} else {
			h.expect("retry", h.retry())
		}
		h.look()
	}
	for again := true; again && w.broken == nil; { // what is sent, and then its receipts
		again = false
		w.now += wire.PinRefreshIntervalSeconds + 1
		for _, h := range w.hosts {
			if h.awaited || all {
				again = again || h.awaited
				h.serveAll()
				h.expect("pull", h.pull(0))
				h.look()
			}
		}
		all = false
	}
}

// advance moves the clock to the next attempt that is due, and reports whether
// there is one.
func (w *world) advance() bool {
	next := int64(0)
	for _, h := range w.hosts {
		for _, e := range h.view.outbox {
			if e.State == store.Pending && (next == 0 || e.NextAttemptAt-h.skew < next) {
				next = e.NextAttemptAt - h.skew
			}
		}
	}
	if next == 0 {
		return false
	}
	// A pin refresh is not suppressed any more, whatever is due at once.
	w.now = max(w.now+wire.PinRefreshIntervalSeconds+1, next)
	return true
}

func (w *world) pending() (n int) {
	for _, h := range w.hosts {
		for _, e := range h.view.outbox {
			if e.State == store.Pending {
				n++
			}
		}
	}
	return n
}

// mostRounds is far more than any world takes to end.
const mostRounds = 1000

// expireNext moves the clock to the last second of the pending message that
// expires first, and from there to its end.
func (w *world) expireNext() {
	if at := w.nextExpiry(); at-1 > w.now {
		w.now = at - 1
		return
	}
	w.now += 60
}

func (w *world) nextExpiry() (at int64) {
	for _, h := range w.hosts {
		for _, e := range h.view.outbox {
			if e.State == store.Pending && e.Attempts > 0 {
				ends := e.FirstAttemptAt + wire.OfflineWindowSeconds - h.skew
				if at == 0 || ends < at {
					at = ends
				}
			}
		}
	}
	return at
}

// hope is a message that has to be delivered, and the attempts that it had when
// that became so.
type hope struct {
	*sentMessage
	attempts int
}

// waiting reports whether one of them has more attempts to come.
func (w *world) waiting(hopeful []hope) bool {
	return slices.ContainsFunc(hopeful, func(m hope) bool {
		e := m.from.view.entry(m.id)
		return e.State == store.Pending && e.Attempts < m.attempts+eagerAttempts
	})
}

// hopeful returns the messages that nothing but the faults keeps from being
// delivered: sender and recipient hold each other as admitted, or the recipient
// has lost that and recovers it from the message (05#admission-recovery), the
// permit is good, and there is time for some attempts.
func (w *world) hopeful() (list []hope) {
	for _, m := range w.sent.list {
		to := w.other(m.to)
		e := m.from.view.entry(m.id)
		if e == nil || e.State != store.Pending || m.from.view.contacts[m.to].State != "admitted" {
			continue
		}
		if m.kind != profile.TextType || to.recovered && !m.from.knows(to) || m.from.recovered && !to.knows(m.from) {
			continue // a rule may reject it, or one of the two does not know the other any more
		}
		if m.from.exhausted || !m.from.opensReceiptsOf(to) {
			continue // they go to a prekey that it has deleted or lost, until their sender looks it up
		}
		if to.mayHaveForgottenBlock(m.from) || m.from.mayHaveForgottenBlock(to) {
			continue
		}
		back := to.view.contacts[m.from.id.ACEID()].State
		timely := e.Attempts == 0 || e.FirstAttemptAt+wire.OfflineWindowSeconds-m.from.clock() > day
		if (back == "admitted" || back == "" && to.lost) && timely && w.permitted(m) {
			list = append(list, hope{m, e.Attempts})
			if to.lost {
				w.count("hopeful after a loss")
			}
		}
	}
	return list
}

// opensReceiptsOf reports whether a host holds the prekey that is in the
// descriptor by which a peer answers it, or the peer has to look it up.
func (h *host) opensReceiptsOf(peer *host) bool {
	var agent *descriptor.PublishedAgent
	peer.read(func(tx *store.Tx) error {
		raw, err := tx.Descriptor(h.id.ACEID())
		if err == nil && raw != nil {
			agent, err = descriptor.DecodeStored(raw)
		}
		return err
	})
	if agent == nil || !agent.Usable(peer.clock(), peer.view.pins[h.id.ACEID()]) {
		return true
	}
	return slices.ContainsFunc(h.view.prekeys[""], func(k store.Prekey) bool { return k.ID == agent.PrekeyID })
}

// mayHaveForgottenBlock reports whether a block may stand at the relay that the
// store does not know of: it outlives the store (05#blocks).
func (h *host) mayHaveForgottenBlock(peer *host) bool {
	return h.blocked[peer.id.ACEID()] && (h.lost || h.restored)
}

// permitted reports whether the sender holds a permit that lasts.
func (w *world) permitted(m *sentMessage) bool {
	held := m.from.view.held[m.to]
	return held.ExpiresAt > m.from.clock()+day && signedBy(held, w.other(m.to).id.State(), m.to)
}

// excused reports whether a host has lost something that delivery rests on.
func (h *host) excused() bool { return h.lost || h.restored }

func (w *world) mustHaveEnded(hopeful []hope) {
	if w.broken != nil {
		return
	}
	for _, m := range hopeful {
		if e := m.from.view.entry(m.id); e.State != store.Delivered {
			w.violate("a message is delivered once the faults have stopped", "06#outbox-sender",
				"%s of %s is %s after %d attempts, the last failed with %q", m.id, m.from.name, e.State, e.Attempts, e.LastError)
		}
	}
	w.counted["hopeful"] += len(hopeful)
}

// checkEnd is the promise of the whole: every accepted message is delivered, and
// then in the recipient's store, or has ended as 06#outbox-sender says.
func (w *world) checkEnd(m *sentMessage) {
	if m.gone || w.broken != nil {
		return
	}
	e := m.from.view.entry(m.id)
	switch {
	case e == nil:
		w.violate("an accepted message stays", "06#outbox-sender", "%s of %s is not in the outbox", m.id, m.from.name)
	case e.State == store.Pending || e.State == store.PendingApproval:
		w.violate("a message ends", "06#outbox-sender", "%s of %s is pending", m.id, m.from.name)
	case e.State == store.Delivered:
		to := w.other(m.to)
		at := func(s store.Message) bool { return s.MessageID == m.id && s.Peer == m.from.id.ACEID() }
		if !to.excused() && !slices.ContainsFunc(to.view.messages, at) && !to.view.isWithheld(m.from.id.ACEID(), m.id) {
			w.violate("delivered means stored", "06#receipts", "%s of %s is not at %s", m.id, m.from.name, to.name)
		}
	}
	if e != nil {
		w.count("ended " + e.State)
	}
}
