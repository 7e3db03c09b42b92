package sim

import (
	"fmt"
	"slices"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile/delegation"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// rule is something that a store obeys from each step to the next. check tells
// what is wrong, or "". The store before is that of the same installation: one
// that was lost or put back begins anew.
type rule struct {
	name, cite string
	check      func(h *host, before, after *view) string
}

var rules = []rule{
	{"an accepted message stays", "06#outbox-sender", outboxStays},
	{"a message changes as receipts and time allow", "06#outbox-sender", outboxStates},
	{"a receipt ends its message", "06#outbox-sender", receiptsEnd},
	{"the delay after an attempt is that of the schedule", "06#outbox-sender", delaysGrow},
	{"delivered follows a delivery", "06#receipts", deliveredWasStored},
	{"a rejection has a reason", "06#receipts", rejectedForAReason},
	{"a claim ends", "06#outbox-sender", claimsEnd},
	{"a delivered message is the one that was sent", "06#receive-pipeline step 10", messagesAreSent},
	{"a delivered message stays", "06#receive-pipeline", messagesStay},
	{"a message is handed over once", "06#deduplication", toldOnce},
	{"a delivery record has its seen entry", "06#receive-pipeline step 10", messagesAreSeen},
	{"seen entries leave below a horizon only", "06#deduplication", seenLeaves},
	{"horizons never go back", "06#deduplication", horizonsRise},
	{"admission changes as chapter 05 allows", "05#flow", admissionChanges},
	{"nothing of a blocked peer is taken in", "05#blocks", blockedIsDropped},
	{"an admitted peer has a pin and a permit", "05#flow step 3", admittedIsPinned},
	{"no message of a stranger is taken in", "05#receiver-admission", strangersAreNot},
	{"held requests are few", "05#flow step 2", requestsBounded},
	{"a pin only grows", "01#pinning", pinsGrow},
	{"the newest permit is held", "06#outbox-sender step 3", permitsRenew},
	{"prekeys are few", "04#prekey", prekeysBounded},
	{"prekey seeds are kept for their time", "04#prekey", prekeysKept},
	{"prekey seeds are deleted in time", "04#prekey", prekeysEnd},
	{"a packet is dropped for a reason", "06#receive-pipeline", droppedForAReason},
	{"an entry is given up after MAX_FETCH_ATTEMPTS", "06#receive-pipeline", quarantineIsLate},
	{"a message is taken in within its time", "06#receive-pipeline step 5", takenInTime},
	{"what a lookup shows is pinned", "01#pinning", lookupsPin},
	{"a block decision outranks the one before", "05#blocks", revisionsRise},
	{"a held prekey that is unknown is dropped", "06#outbox-sender", unknownIsDropped},
	{"an offered prekey that was used is offered no more", "04#peer-prekeys", offersMove},
	{"a full receiver holds", "06#receive-pipeline step 10", fullHolds},
	{"an issued permit is on record", "05#delivery-permits", issuedIsRecorded},
	{"a thread is a run of its table", "commerce#parties-and-roles", threadsRun},
	{"a thread names what it refers to", "commerce#references", threadsRefer},
	{"a thread only grows", "commerce#bounds-and-retention", threadsGrow},
	{"what the sender has committed the receiver has", "08#sender-state-and-busy-threads", threadsFollow},
	{"the delivered receipt commits a message", "08#sender-state-and-busy-threads", deliveredCommits},
	{"one message of a thread is in flight", "08#sender-state-and-busy-threads", threadsAreBusy},
	{"a commerce message is rejected for its reason", "commerce#check-order", tradesRejected},
}

func outboxStays(h *host, before, after *view) string {
	for _, e := range before.outbox {
		switch {
		case after.entry(e.MessageID) != nil:
		case !delivery.MayDelete(e, h.clock()):
			return fmt.Sprintf("%s, which was %s, has left the outbox", e.MessageID, e.State)
		default:
			h.w.sent.byID[e.MessageID].gone = true
		}
	}
	for _, m := range h.w.sent.of(h) {
		if !m.gone && before.entry(m.id) == nil && after.entry(m.id) == nil {
			return fmt.Sprintf("%s was accepted and is not in the outbox", m.id)
		}
	}
	return ""
}

func outboxStates(h *host, before, after *view) string {
	for _, e := range after.outbox {
		m := h.w.sent.add(e.MessageID, h, e.Peer)
		if m.body == "" {
			content, err := delivery.StoredContent(e)
			if err != nil {
				return err.Error()
			}
			m.body, m.kind, m.thread = string(content.Body.Canonical()), e.Type, e.ThreadID
		}
		m.expired = m.expired || e.State == store.Expired
		was := before.entry(e.MessageID)
		switch {
		case was == nil:
		case was.Attempts > e.Attempts || was.Attempts > 0 && was.FirstAttemptAt != e.FirstAttemptAt:
			return fmt.Sprintf("%s had %d attempts, and now %d", e.MessageID, was.Attempts, e.Attempts)
		case was.State != e.State && !slices.Contains(next[was.State], e.State):
			return fmt.Sprintf("%s was %s and is %s", e.MessageID, was.State, e.State)
		}
		over := e.Attempts > 0 && h.clock() >= e.FirstAttemptAt+wire.OfflineWindowSeconds
		if e.State == store.Expired && !e.Abandoned && !over && (was == nil || was.State != store.Expired) {
			return fmt.Sprintf("%s expired early", e.MessageID)
		}
	}
	return ""
}

// next are the states that may follow one of the Outbox.
var next = map[string][]string{
	store.PendingApproval: {store.Pending, store.Rejected, store.Delivered}, // see heldIsDecided
	store.Pending:         {store.Delivered, store.Rejected, store.Expired},
	store.Expired:         {store.Delivered, store.Rejected},
}

// receiptsEnd: a receipt that was taken in ends a message, also one that had
// expired.
func receiptsEnd(h *host, _, after *view) string {
	for _, r := range h.w.receipts {
		if r.to != h || r.outcome != delivery.OutcomeDelivered {
			continue
		}
		e := after.entry(r.answers)
		if _, taken := after.seen[received{r.from, r.packet}]; taken && e != nil && e.State != store.Delivered && e.State != store.Rejected {
			return fmt.Sprintf("%s is %s although its receipt has come", e.MessageID, e.State)
		}
	}
	return ""
}

// maxRetryAfter is the longest that a relay of these worlds asks for.
const maxRetryAfter = 200

// delaysGrow: the delay after attempt n is min(60 · 2^(n-1), 3600) seconds, or
// what a relay asked for if that is more.
func delaysGrow(h *host, before, after *view) string {
	for _, e := range after.outbox {
		attempts := 0
		if was := before.entry(e.MessageID); was != nil {
			attempts = was.Attempts
		}
		if attempts+1 != e.Attempts || e.State != store.Pending {
			continue
		}
		delay := int64(3600)
		if e.Attempts < 7 {
			delay = 60 << (e.Attempts - 1)
		}
		delay = max(delay, h.retryAfter[nthAttempt{e.MessageID, e.Attempts}])
		// It was made at some time of this step.
		if waits := e.NextAttemptAt - h.clock(); waits < delay-(h.w.now-h.w.began) || waits > max(delay, maxRetryAfter) {
			return fmt.Sprintf("%s waits %d s after attempt %d", e.MessageID, waits, e.Attempts)
		}
	}
	return ""
}

func deliveredWasStored(h *host, _, after *view) string {
	for _, e := range after.outbox {
		m := h.w.sent.byID[e.MessageID]
		if e.State != store.Delivered || m.stored {
			continue
		}
		h.w.other(m.to).read(func(tx *store.Tx) (err error) { // it may be at something just now
			if m.stored, err = tx.HasMessage(h.id.ACEID(), m.id); err == nil && !m.stored {
				m.stored, err = tx.HasWithheld(h.id.ACEID(), m.id)
			}
			return err
		})
		if !m.stored {
			return fmt.Sprintf("%s is delivered, and its recipient never had it", e.MessageID)
		}
	}
	return ""
}

// rejectedForAReason: all that is sent here matches its schema, so that keys
// which the recipient has lost or deleted are a reason, the rules of profiles,
// and nothing else.
func rejectedForAReason(h *host, before, after *view) string {
	for _, e := range after.outbox {
		if e.State != store.Rejected {
			continue
		}
		was, to := before.entry(e.MessageID), h.w.other(e.Peer)
		switch code := e.RemoteCode; {
		case was != nil && was.State == store.Rejected:
		case unsent(e): // see heldIsDecided
		case code == string(fault.UnknownPrekey) && to.excused() && !e.PrekeyIsPeer && (was == nil || was.State == store.Pending) && h.missed(e):
		case shortType(e.Type) != "" && slices.Contains(ofTrade, code): // see tradesRejected
		case e.Type == delegation.MessageType && code == string(fault.InvalidBody): // see droppedForAReason
		default:
			return fmt.Sprintf("%s was rejected with %s", e.MessageID, e.RemoteCode)
		}
	}
	return ""
}

// missed reports whether a receipt says that the prekey of the latest attempt is
// unknown: those for earlier ones are late (06#outbox-sender).
func (h *host) missed(e store.OutboxEntry) bool {
	return slices.ContainsFunc(h.w.receipts, func(r sentReceipt) bool {
		return r.to == h && r.answers == e.MessageID && r.prekey == e.Prekey
	})
}

// unknownIsDropped: a receipt that was taken in and says that the peer prekey of
// the latest attempt is unknown takes that from the held keys.
func unknownIsDropped(h *host, before, after *view) string {
	for _, r := range h.w.receipts {
		e := before.entry(r.answers)
		if r.to != h || r.prekey == "" || e == nil || e.State != store.Pending || e.Prekey != r.prekey || !e.PrekeyIsPeer {
			continue
		}
		_, was := before.seen[received{r.from, r.packet}]
		if _, is := after.seen[received{r.from, r.packet}]; is && !was && after.heldKey[r.from] == r.prekey {
			return fmt.Sprintf("%.8s of %s", r.prekey, r.from)
		}
	}
	return ""
}

// offersMove: a packet that was taken in and came to the offered key of its
// sender has made it the key in use.
func offersMove(h *host, before, after *view) string {
	for key := range after.seen {
		if _, was := before.seen[key]; was {
			continue
		}
		for _, p := range h.w.packets[key.id] {
			for _, k := range after.prekeys[key.from] {
				if k.ID == p.prekey && k.Slot == store.SlotOffered && len(h.w.packets[key.id]) == 1 {
					return fmt.Sprintf("%.8s, which opened %s of %s", k.ID, key.id, key.from)
				}
			}
		}
	}
	return ""
}

func takenInTime(h *host, before, after *view) string {
	for key := range after.seen {
		if _, was := before.seen[key]; !was && !inTime(h.w.packets[key.id], h.clock()) {
			return key.id
		}
	}
	return ""
}

// lookupsPin: a lookup that was answered leaves the log it showed pinned, unless
// what is pinned supersedes it.
func lookupsPin(h *host, _, after *view) string {
	for peer, shown := range h.lookups {
		is := after.pins[peer]
		if is != nil && !supersedes(is.Events(), shown.Events()) {
			return fmt.Sprintf("of %s up to %d, and up to %d was shown", peer, is.Seq(), shown.Seq())
		}
	}
	return ""
}

// revisionsRise: also at least to the clock, so that a decision outranks those of
// a store that was lost.
func revisionsRise(h *host, before, after *view) string {
	for peer, is := range after.blocks {
		was, ok := before.blocks[peer]
		decided := !ok || was.Blocked != is.Blocked || was.Revision != is.Revision
		if decided && (is.Revision <= was.Revision || is.Revision < h.clock()-max(maxSlow, h.w.now-h.w.began)) {
			return fmt.Sprintf("%+v after %+v", is, was)
		}
	}
	return ""
}

// maxSlow is how much time may pass within a step in which nobody sleeps.
const maxSlow = 6000

// maxClaim is how long a process that has died keeps others from an attempt.
const maxClaim = 120

func claimsEnd(h *host, before, after *view) string {
	for _, e := range after.outbox {
		if was := before.entry(e.MessageID); was != nil && was.ClaimedUntil == e.ClaimedUntil {
			continue // the clock may have been set back since
		}
		if e.ClaimedUntil > h.clock()+maxClaim {
			return fmt.Sprintf("%s is claimed for %d s", e.MessageID, e.ClaimedUntil-h.clock())
		}
	}
	return ""
}

func messagesAreSent(h *host, _, after *view) string {
	for _, m := range after.messages {
		sent := h.w.sent.byID[m.MessageID]
		switch {
		case sent == nil:
			return fmt.Sprintf("%s was never sent", m.MessageID)
		case sent.to != h.id.ACEID() || sent.from.id.ACEID() != m.Peer || sent.body != string(m.Body):
			return fmt.Sprintf("%s is another message than was sent", m.MessageID)
		}
		sent.stored = true
	}
	return ""
}

func messagesStay(_ *host, before, after *view) string {
	for _, m := range before.messages {
		if countMessages(after, m.Peer, m.MessageID) != 1 {
			return fmt.Sprintf("%s is there %d times", m.MessageID, countMessages(after, m.Peer, m.MessageID))
		}
	}
	return ""
}

func countMessages(v *view, peer, id string) (n int) {
	for _, m := range v.messages {
		if m.Peer == peer && m.MessageID == id {
			n++
		}
	}
	return n
}

func toldOnce(h *host, _, _ *view) string {
	for m, n := range h.told {
		if n > 1 {
			return fmt.Sprintf("%s was handed over %d times", m.id, n)
		}
	}
	return ""
}

func messagesAreSeen(_ *host, _, after *view) string {
	for _, m := range after.messages {
		if _, ok := after.seen[received{m.Peer, m.MessageID}]; !ok && m.SentAt > max(after.horizon, after.horizons[m.Peer]) {
			return fmt.Sprintf("%s could be delivered again", m.MessageID)
		}
	}
	return ""
}

func seenLeaves(_ *host, before, after *view) string {
	for key, e := range before.seen {
		if _, ok := after.seen[key]; !ok && e.Timestamp > max(after.horizon, after.horizons[e.Peer]) {
			return fmt.Sprintf("%s was forgotten", e.MessageID)
		}
	}
	return ""
}

func horizonsRise(h *host, before, after *view) string {
	if after.horizon < before.horizon {
		return fmt.Sprintf("H goes from %d to %d", before.horizon, after.horizon)
	}
	if floor := h.clock() - 2*wire.OfflineWindowSeconds; after.horizon > max(before.horizon, floor) {
		return fmt.Sprintf("H is %d s above the floor", after.horizon-floor)
	}
	for peer, was := range before.horizons {
		if max(after.horizon, after.horizons[peer]) < was {
			return fmt.Sprintf("H[%s] goes back", peer)
		}
	}
	return ""
}

// admissionChanges: a row begins as pending, or as admitted by a decision, a rule
// or a recovery; a pending one ends as admitted or is removed. An admitted one
// stays, and blocks come and go, by the owner's decision alone (05#blocks).
func admissionChanges(h *host, before, after *view) string {
	if h.deciding {
		return ""
	}
	for peer, was := range before.contacts {
		if is := after.contacts[peer]; was.State != "pending" && is != was {
			return fmt.Sprintf("%s was %+v and is %+v", peer, was, is)
		}
	}
	for peer, is := range after.contacts {
		was := before.contacts[peer]
		switch {
		case is == was:
		case is.State == "pending" && is.ExpiresAt != is.Since+wire.OfflineWindowSeconds:
			return fmt.Sprintf("%s is pending for %d s", peer, is.ExpiresAt-is.Since)
		case is.State == "admitted" && (was.State == "" || was.ExpiresAt <= is.Since) && !h.shape.obliges && !h.proved(peer) && !h.requested[peer]:
			return fmt.Sprintf("%s was a stranger and is admitted without a decision", peer)
		case is.State != "admitted" && is.State != "pending":
			return fmt.Sprintf("%s is %q", peer, is.State)
		}
	}
	return ""
}

// proved reports whether a peer has sent a permit of this host that its log
// verifies (05#admission-recovery step 2).
func (h *host) proved(peer string) bool {
	return slices.ContainsFunc(h.w.proofs[[2]string{peer, h.id.ACEID()}], func(p *admission.Permit) bool {
		good := func(log *kel.State) bool { return p.Verify(log, h.id.ACEID(), peer, p.IssuedAt) == nil }
		return good(h.id.State()) || h.was != nil && h.wasIn == h.w.step && good(h.was)
	})
}

// blockedIsDropped: nothing of a blocked peer is taken in, and no request of it
// is held (05#blocks).
func blockedIsDropped(h *host, before, after *view) string {
	for peer, is := range after.contacts {
		if is.State != "blocked" {
			continue
		}
		if slices.ContainsFunc(after.requests, func(q store.Request) bool { return q.Peer == peer }) {
			return "a request of " + peer + " is held"
		}
		if after.heldKey[peer] != "" {
			return "a prekey of " + peer + " is held"
		}
		if before.contacts[peer] != is {
			continue
		}
		h.w.count("blocked")
		for key := range after.seen {
			if _, was := before.seen[key]; !was && key.from == peer {
				return key.id + " of " + peer + " was taken in"
			}
		}
	}
	return ""
}

// admittedIsPinned: who was invited has not sent a permit yet (05#invitations).
func admittedIsPinned(h *host, before, after *view) string {
	for peer, is := range after.contacts {
		if is.State != "admitted" || before.contacts[peer].State == "admitted" {
			continue
		}
		if after.pins[peer] == nil || after.held[peer].Raw == nil && !h.inviting {
			return peer
		}
	}
	return ""
}

// strangersAreNot: who restores its admission with a message is admitted with it
// (05#admission-recovery).
func strangersAreNot(h *host, before, after *view) string {
	if h.deciding {
		return ""
	}
	for _, m := range after.messages {
		known := []string{"admitted", "pending"}
		if state := after.contacts[m.Peer].State; !slices.Contains(known, state) && !before.message(m.Peer, m.MessageID) && !before.isWithheld(m.Peer, m.MessageID) {
			return fmt.Sprintf("%s of %s, which is %q", m.MessageID, m.Peer, state)
		}
	}
	return ""
}

func requestsBounded(_ *host, _, after *view) string {
	if len(after.requests) > wire.MaxPendingContactRequests {
		return fmt.Sprintf("%d", len(after.requests))
	}
	return ""
}

// pinsGrow: a pin is a log that the peer once had, and what takes its place
// extends it, or forks it with a rot where the pinned log has none from there on
// (01#verifier-rules rule 6).
func pinsGrow(h *host, before, after *view) string {
	for peer, is := range after.pins {
		if is != nil && !h.w.other(peer).logs[is.LastHash()] {
			return "the pin of " + peer + " is no log of it"
		}
	}
	for peer, was := range before.pins {
		is := after.pins[peer]
		switch {
		case was == nil:
		case is == nil:
			return "the pin of " + peer + " is gone"
		case !supersedes(is.Events(), was.Events()):
			return "the pin of " + peer + " goes back"
		}
	}
	return ""
}

func supersedes(is, was []kel.Event) bool {
	for i, e := range was {
		switch {
		case i == len(is):
			return false
		case e.Hash != is[i].Hash:
			rot := func(e kel.Event) bool { return e.Type == kel.Rotation }
			return rot(is[i]) && !slices.ContainsFunc(was[i:], rot)
		}
	}
	return true
}

// permitsRenew: a permit that is good under the pin gives way to a newer one
// only.
func permitsRenew(h *host, before, after *view) string {
	for peer, was := range before.held {
		if was.Raw == nil || after.held[peer].IssuedAt >= was.IssuedAt || h.forgot[peer] {
			continue
		}
		if signedBy(was, after.pins[peer], peer) {
			return fmt.Sprintf("the permit of %s of %d gave way to one of %d", peer, was.IssuedAt, after.held[peer].IssuedAt)
		}
	}
	return ""
}

// signedBy reports whether a stored permit was signed under the current
// delegation of a log.
func signedBy(p store.Permit, log *kel.State, issuer string) bool {
	v, err := wire.Parse(p.Raw, wire.MaxJSONDepth)
	if err != nil || log == nil {
		return false
	}
	permit, err := admission.DecodePermit(v)
	return err == nil && permit.Verify(log, issuer, permit.Subject, permit.IssuedAt) == nil
}

func prekeysBounded(_ *host, _, after *view) string {
	most := map[string]int{store.SlotCurrent: 1, store.SlotSuperseded: wire.MaxRetainedPrekeys, store.SlotOffered: 1, store.SlotInUse: 1}
	for peer, kept := range after.prekeys {
		count := map[string]int{}
		for _, k := range kept {
			count[k.Slot]++
			if published := k.Slot == store.SlotCurrent || k.Slot == store.SlotSuperseded; published != (peer == "") {
				return fmt.Sprintf("a key of %q is %s", peer, k.Slot)
			}
			if count[k.Slot] > most[k.Slot] {
				return fmt.Sprintf("%d %s keys of %q", count[k.Slot], k.Slot, peer)
			}
		}
	}
	return ""
}

// prekeysKept: a published key is kept for OFFLINE_WINDOW_SECONDS after another
// took its place, a peer prekey for as long after a packet has carried it, or
// until the peer has used the next one (04#peer-prekeys).
func prekeysKept(h *host, before, after *view) string {
	for peer, kept := range before.prekeys {
		slots := map[string]string{}
		superseded := 0
		for _, k := range after.prekeys[peer] {
			slots[k.ID], slots[k.Slot] = k.Slot, k.ID
			if k.Slot == store.SlotSuperseded {
				superseded++
			}
		}
		for _, k := range kept {
			ended := k.Slot != store.SlotCurrent && h.clock()-k.At >= wire.OfflineWindowSeconds
			pushed := peer == "" && superseded == wire.MaxRetainedPrekeys
			passed := k.Slot == store.SlotInUse && slots[store.SlotInUse] != ""
			if slots[k.ID] == "" && !ended && !pushed && !passed {
				return fmt.Sprintf("the %s key %.8s of %q is gone after %d s", k.Slot, k.ID, peer, h.clock()-k.At)
			}
		}
	}
	return ""
}

// prekeysEnd: opening a packet deletes every seed whose time has ended. That one
// was opened and committed shows in the seen store. The clock may have passed
// some seconds since, with the network: none here.
func prekeysEnd(h *host, before, after *view) string {
	if len(after.seen) <= len(before.seen) {
		return ""
	}
	for peer, kept := range after.prekeys {
		for _, k := range kept {
			if k.Slot != store.SlotCurrent && h.clock()-k.At >= wire.OfflineWindowSeconds {
				return fmt.Sprintf("a %s key of %q is %d s old", k.Slot, peer, h.clock()-k.At)
			}
		}
	}
	return ""
}

// droppedForAReason: packets are dropped here because they are late, because
// their sender is no contact, or because a key has changed meanwhile.
func droppedForAReason(h *host, before, after *view) string {
	for _, a := range after.audits[min(len(before.audits), len(after.audits)):] {
		h.w.count(string(a.Event) + " " + a.Code)
		switch fault.Code(a.Code) {
		case fault.StaleTimestamp:
			if !allInTime(h.w.packets[a.MessageID], a.At) {
				continue
			}
		case fault.NotPermitted:
			if !h.admits(a.Peer, before, after) || h.renewed(a.Peer) {
				continue
			}
		case fault.UnknownPrekey:
			continue // see checkReceipt
		case fault.InvalidAuthorization:
			// The source of a contact packet expires while it waits.
			if h.renewed(a.Peer) || h.w.now-dawn > wire.MaxDescriptorLifetime/2 {
				continue
			}
		case fault.StalePeerBinding:
			if h.renewed(a.Peer) {
				continue
			}
		case fault.InvalidSignature, fault.KELConflict:
			if from := h.w.other(a.Peer); from.recovered {
				continue // the delegation at that seq is another now
			}
		case fault.InvalidBody:
			// A credential ended on its way, or the key that signed it was replaced.
			if m := h.w.sent.byID[a.MessageID]; m != nil && m.kind == delegation.MessageType &&
				(h.w.other(a.Peer).rotated || h.clock()-m.at > 60-2*maxSkew) {
				continue
			}
		default:
			if slices.Contains(ofTrade, a.Code) && a.Event == audit.MessageRejected {
				continue // see tradesRejected
			}
		}
		return fmt.Sprintf("%s of %s is %s with %q", a.MessageID, a.Peer, a.Event, a.Code)
	}
	return ""
}

// admits reports whether a peer was admitted before and after a step.
func (h *host) admits(peer string, before, after *view) bool {
	return !h.deciding && before.contacts[peer].State == "admitted" && after.contacts[peer].State == "admitted"
}

// renewed reports whether a host or a peer of it has had another key.
func (h *host) renewed(peer string) bool { return h.rotated || h.w.other(peer).rotated }

func (w *world) anyRotated() bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool { return h.rotated })
}

func (w *world) anyExcused() bool { return slices.ContainsFunc(w.hosts, (*host).excused) }

func (w *world) anyUnregistered() bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool { return h.unregistered })
}

func quarantineIsLate(h *host, before, after *view) string {
	for _, q := range after.quarantine[min(len(before.quarantine), len(after.quarantine)):] {
		h.w.count("quarantined " + q.Code)
		if q.Code == string(fault.ReceiverCapacity) {
			return q.StreamID + " was given up for lack of capacity"
		}
		if n := h.fetches[q.StreamID]; n < wire.MaxFetchAttempts {
			return fmt.Sprintf("%s was given up after %d fetches", q.StreamID, n)
		}
	}
	return ""
}
