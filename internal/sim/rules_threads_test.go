package sim

import (
	"fmt"
	"slices"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// ofTrade are the codes by which a message of the commerce profile may be
// rejected, of those that the bodies of these worlds can be.
var ofTrade = []string{string(fault.ThreadBusy), "transition_not_allowed", "wrong_role", "bad_reference"}

// threadsRun: a history is a run of the table from idle, and the state its end.
func threadsRun(h *host, _, after *view) string {
	for key, t := range after.threads {
		run := bargain{state: "idle"}
		for _, e := range t.entries {
			short := shortType(e.Type)
			move, ok := trade[[2]string{run.state, short}]
			if run.opener == "" {
				run.opener = e.Sender
			}
			if !ok || move.buyer != (e.Sender == run.opener) || e.Sender != key.peer && e.Sender != h.id.ACEID() {
				return fmt.Sprintf("%q with %s: %s of %s in %s", key.id, key.peer, short, e.Sender, run.state)
			}
			run.state = move.to
		}
		if run.state != t.state || run.opener != t.opener {
			return fmt.Sprintf("%q with %s is %s, and its history is %s", key.id, key.peer, t.state, run.state)
		}
	}
	return ""
}

// threadsRefer: what the peer has sent refers to the entries before it. An own
// message was checked when it was sent, and a late receipt may find the thread
// elsewhere.
func threadsRefer(h *host, _, after *view) string {
	for key, t := range after.threads {
		for i, e := range t.entries {
			m := h.w.sent.byID[e.MessageID]
			if m == nil || m.from.id.ACEID() != e.Sender || m.kind != e.Type || m.thread != key.id {
				return fmt.Sprintf("%q with %s: nobody sent %s", key.id, key.peer, e.MessageID)
			}
			member, want := bargain{entries: t.entries[:i]}.reference(shortType(e.Type))
			if member != "" && e.Sender == key.peer && m.reference(member) != want {
				return fmt.Sprintf("%q with %s: %s refers to %s, not %s", key.id, key.peer, e.MessageID, m.reference(member), want)
			}
		}
	}
	return ""
}

// reference returns a member of a body that is a string.
func (m *sentMessage) reference(member string) string {
	body, err := wire.Parse([]byte(m.body), wire.MaxJSONDepth)
	if err != nil {
		return ""
	}
	v, _ := body.Get(member)
	text, _ := v.AsString()
	return text
}

// threadRetention is after what time a thread may be deleted.
const threadRetention = 30 * day

func threadsGrow(h *host, before, after *view) string {
	for key, was := range before.threads {
		is, ok := after.threads[key]
		head := was.entries[len(was.entries)-1]
		ours := slices.ContainsFunc(was.entries, func(e store.ThreadEntry) bool { return e.Sender == h.id.ACEID() })
		final := was.state == "rejected" || was.state == "confirmed"
		switch {
		case !ok && head.Timestamp < h.clock()-threadRetention && (final || !ours):
		case !ok:
			return fmt.Sprintf("%q with %s is gone", key.id, key.peer)
		case len(is.entries) < len(was.entries) || !slices.Equal(is.entries[:len(was.entries)], was.entries):
			return fmt.Sprintf("%q with %s has another history", key.id, key.peer)
		}
	}
	return ""
}

// threadsFollow: an own message is in a history once the peer has applied it.
func threadsFollow(h *host, _, after *view) string {
	for key, t := range after.threads {
		peer := h.w.other(key.peer)
		theirs, ok := peer.view.threads[threadKey{h.id.ACEID(), key.id}]
		if !ok || peer.listening || peer.excused() || h.excused() {
			continue // deleted after its time, or lost
		}
		for _, e := range t.entries {
			same := func(other store.ThreadEntry) bool { return other.MessageID == e.MessageID && other.Sender == e.Sender }
			if e.Sender == h.id.ACEID() && !slices.ContainsFunc(theirs.entries, same) {
				return fmt.Sprintf("%q with %s: %s is not in the history of %s", key.id, key.peer, e.MessageID, peer.name)
			}
		}
	}
	return ""
}

// deliveredCommits: what the receipt ends as delivered is in the history of its
// thread, unless the outcome of another message was unknown when it was sent.
func deliveredCommits(h *host, before, after *view) string {
	for _, e := range after.outbox {
		was := before.entry(e.MessageID)
		if e.State != store.Delivered || was == nil || was.State != store.Pending || shortType(e.Type) == "" {
			continue
		}
		same := func(entry store.ThreadEntry) bool {
			return entry.MessageID == e.MessageID && entry.Sender == h.id.ACEID()
		}
		in := slices.ContainsFunc(after.threads[threadKey{e.Peer, e.ThreadID}].entries, same)
		if !in && !h.excused() && !h.w.unknownOutcome(h, h.w.other(e.Peer), e.ThreadID) {
			return fmt.Sprintf("%s is not in %q", e.MessageID, e.ThreadID)
		}
	}
	return ""
}

// threadsAreBusy: the time of a message may have been over before the clock was
// set back.
func threadsAreBusy(h *host, _, after *view) string {
	pending := map[threadKey]string{}
	for _, e := range after.outbox {
		over := e.Attempts > 0 && h.clock()+2*maxSkew >= e.FirstAttemptAt+wire.OfflineWindowSeconds
		if e.State != store.Pending || over || shortType(e.Type) == "" {
			continue
		}
		key := threadKey{e.Peer, e.ThreadID}
		if other := pending[key]; other != "" {
			return fmt.Sprintf("%s and %s are pending in %q", other, e.MessageID, e.ThreadID)
		}
		pending[key] = e.MessageID
	}
	return ""
}

// tradesRejected: a commerce message that was rejected in this step was to be,
// in the state before the step, after it or, where several were taken in, in one
// between.
func tradesRejected(h *host, before, after *view) string {
	for _, a := range after.audits[min(len(before.audits), len(after.audits)):] {
		m := h.w.sent.byID[a.MessageID]
		if a.Event != audit.MessageRejected || m == nil || shortType(m.kind) == "" || !slices.Contains(ofTrade, a.Code) {
			continue
		}
		key := threadKey{a.Peer, m.thread}
		if a.Code == string(fault.ThreadBusy) {
			if !before.busy(key, a.At) && !after.busy(key, a.At) {
				return fmt.Sprintf("%s is rejected as thread_busy, and %q is free", a.MessageID, m.thread)
			}
			continue
		}
		if !justified(before.threads[key], after.threads[key], m, a.Code) {
			return fmt.Sprintf("%s, a %s in %q, is rejected with %s", a.MessageID, shortType(m.kind), m.thread, a.Code)
		}
	}
	return ""
}

// justified reports whether a message is refused with a code at some point of
// what a thread went through.
func justified(was, is bargain, m *sentMessage, code string) bool {
	for n := len(was.entries); n <= len(is.entries); n++ {
		then := bargain{state: "idle", entries: is.entries[:n]}
		for _, e := range then.entries {
			then.state, then.opener = trade[[2]string{then.state, shortType(e.Type)}].to, is.opener
		}
		member, _ := then.reference(shortType(m.kind))
		if then.judge(shortType(m.kind), m.from.id.ACEID(), m.reference(member)) == code {
			return true
		}
	}
	return false
}

// checkThreads: at the end, where nothing was lost and no outcome is unknown,
// both parties see the same.
func (w *world) checkThreads() {
	for _, h := range w.hosts {
		for key, t := range h.view.threads {
			peer := w.other(key.peer)
			theirs, ok := peer.view.threads[threadKey{h.id.ACEID(), key.id}]
			old := t.entries[0].Timestamp < w.now-threadRetention // and may have been deleted
			if w.broken != nil || h.excused() || peer.excused() || !ok && old || w.unknownOutcome(h, peer, key.id) {
				continue
			}
			w.count("threads at their end")
			if t.state != theirs.state || !slices.EqualFunc(t.entries, theirs.entries, sameEntry) {
				w.violate("both parties of a thread see the same", "08#sender-state-and-busy-threads", "%q is %s at %s and %s at %s", key.id, t.state, h.name, theirs.state, peer.name)
			}
		}
	}
}

// sameEntry leaves out the time, which is the sender's on one side and that of
// the packet on the other.
func sameEntry(a, b store.ThreadEntry) bool {
	return a.Type == b.Type && a.MessageID == b.MessageID && a.Sender == b.Sender
}

// unknownOutcome reports whether a message between two hosts in a thread has
// expired, which frees its thread without a change, or was judged twice: one
// that is rejected is not recorded as seen, and the next attempt of it, which may
// be on its way already, can be taken in. The first receipt ends it all the same.
func (w *world) unknownOutcome(a, b *host, thread string) bool {
	return slices.ContainsFunc(w.sent.list, func(m *sentMessage) bool {
		if m.thread != thread || !(m.from == a && m.to == b.id.ACEID() || m.from == b && m.to == a.id.ACEID()) {
			return false
		}
		e := m.from.view.entry(m.id)
		return m.expired || w.judgedTwice(m) || e == nil || e.State == store.Expired
	})
}

func (w *world) judgedTwice(m *sentMessage) bool {
	outcomes := map[string]bool{}
	for _, r := range w.receipts {
		if r.answers == m.id {
			outcomes[r.outcome] = true
		}
	}
	return len(outcomes) > 1
}

// fullHolds: a receiver takes in no more than it has room for.
func fullHolds(h *host, before, after *view) string {
	capacity := int(h.shape.capacity)
	if capacity == 0 {
		return ""
	}
	was, is := before.unhandled(), after.unhandled()
	if is == capacity {
		h.w.count("full")
	}
	if is > max(was, capacity)+len(h.handlers.unmarked)+len(h.owner.released) {
		return fmt.Sprintf("%d messages wait to be handled, and %d did before", is, was)
	}
	return ""
}

func (v *view) unhandled() (n int) {
	for _, m := range v.messages {
		if !m.Handled {
			n++
		}
	}
	return n
}

// issuedIsRecorded: the permit that has left in this step is the newest one on
// record (05#delivery-permits, Renewal). Another process may have issued one as
// new or newer while it was on its way.
func issuedIsRecorded(h *host, _, after *view) string {
	for peer, raw := range h.issued {
		overtaken := h.raced && after.issued[peer].IssuedAt >= issuedAt(raw)
		if string(after.issued[peer].Raw) != string(raw) && !h.forgot[peer] && !overtaken {
			return fmt.Sprintf("a permit for %s went out and is not the one on record", peer)
		}
	}
	return ""
}

// issuedAt returns when a permit was issued, 0 for none.
func issuedAt(raw []byte) int64 {
	v, err := wire.Parse(raw, wire.MaxJSONDepth)
	if err != nil {
		return 0
	}
	permit, err := admission.DecodePermit(v)
	if err != nil {
		return 0
	}
	return permit.IssuedAt
}
