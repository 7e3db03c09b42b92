package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/store"
)

// checkHandled holds what the handler of a side has done against its inbox. Runs
// go by the order in which messages came, one message after the other: that which
// fails holds the next ones back.
func (x *side) checkHandled(own state) {
	x.t.Helper()
	texts := map[string]string{}
	for _, m := range x.peer.queued {
		texts[m.id] = m.text
	}
	runs := x.handler.lines(runsFile)
	if got := messagesOf(runs); !slices.Equal(got, own.order) {
		x.t.Errorf("%s: the handler ran for other messages, or in another order, than they came: %s", x.name, difference(got, own.order))
	}
	handled := x.handler.lines(handledFile)
	if got := messagesOf(handled); !slices.Equal(got, own.order) {
		x.t.Errorf("%s: other messages were handled, or in another order, than came: %s", x.name, difference(got, own.order))
	}
	for _, r := range handled {
		if text, id := x.handler.read(r); text != texts[r.id] || id != r.id {
			x.t.Errorf("%s: the handler of %s read %q of %s, want %q", x.name, r.id, text, id, texts[r.id])
		}
	}
	x.checkAttempts(runs)
	if info, err := os.Stat(x.handler.path(handledFile)); err != nil || info.Mode().Perm() != 0o600 {
		x.t.Errorf("%s: %v %v", x.name, info, err)
	}
	if len(own.handlings) > 0 {
		x.t.Errorf("%s: attempts are left of messages that are handled: %+v", x.name, own.handlings)
	}
	if got := x.unhandled(); got != "0" {
		x.t.Errorf("%s: %s messages are not handled", x.name, got)
	}
	x.soak.counts["runs"] += len(runs)
	x.soak.counts["handled more than once"] += len(handled) - len(own.order)
}

// unhandled is how many messages wait for the handler.
func (x *side) unhandled() string { return x.must("inbox", "list", "--unhandled", "--jq", "length") }

// messagesOf returns the messages of some runs; those of one that follow each
// other count once.
func messagesOf(runs []run) (ids []string) {
	for _, r := range runs {
		if len(ids) == 0 || ids[len(ids)-1] != r.id {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// difference tells where two lists begin to differ.
func difference(got, want []string) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	at := func(list []string) string { return strings.Join(list[min(n, len(list)):min(n+3, len(list))], " ") }
	return fmt.Sprintf("number %d of %d is %q, want %q of %d", n, len(got), at(got), at(want), len(want))
}

// read returns the text and the message that a handler has read.
func (h *handler) read(r run) (text, id string) {
	if !h.json {
		return r.rest, r.id
	}
	var e event
	if err := json.Unmarshal([]byte(r.rest), &e); err != nil {
		return err.Error(), ""
	}
	return e.Untrusted.Body.Message, e.MessageID
}

// checkAttempts: the attempts at a message count up, one ends it, and none comes
// after that.
func (x *side) checkAttempts(runs []run) {
	x.t.Helper()
	last := map[string]int{}
	for _, r := range runs {
		if r.attempt <= last[r.id] {
			x.t.Errorf("%s: attempt %d at %s came after attempt %d", x.name, r.attempt, r.id, last[r.id])
		}
		last[r.id] = r.attempt
	}
	marked := map[string]bool{}
	for _, e := range x.handler.said {
		x.soak.counts[e.Event]++
		if e.Event != "handled" {
			continue
		}
		if marked[e.MessageID] || e.Attempt != last[e.MessageID] {
			x.t.Errorf("%s: %s was handled with attempt %d of %d", x.name, e.MessageID, e.Attempt, last[e.MessageID])
		}
		marked[e.MessageID] = true
	}
	// Of others the listener that ran the last attempt was killed before it said so.
	if missing := len(last) - len(marked); missing > 0 && !x.killed {
		x.t.Errorf("%s: the listeners have not said of %d messages that they are handled", x.name, missing)
	}
}

// quarantineMost is how many packets are kept in quarantine, the newest.
const quarantineMost = 100

// checkLog holds the audit log of a side against what must have happened to it.
func (x *side) checkLog(own, peer state) {
	x.t.Helper()
	x.checkKeyRows(own)
	x.checkPacketRows(own, peer)
	if got := len(rowsOf(own, audit.ContactAdmitted)); got != 1 {
		x.t.Errorf("%s: %d rows say that the peer was admitted, want 1", x.name, got)
	}
	if got, want := len(rowsOf(own, audit.MessageQuarantined)), len(own.quarantine); got < want || got > want && want < quarantineMost {
		x.t.Errorf("%s: %d rows tell of %d packets in quarantine", x.name, got, want)
	}
	for _, a := range own.audits {
		if !a.Event.Known() {
			x.t.Errorf("%s: the audit log has %q", x.name, a.Event)
		}
	}
	shown := x.must("audit", "--json")
	var entries []json.RawMessage
	if err := json.Unmarshal([]byte(shown), &entries); err != nil || len(entries) != len(own.audits) {
		x.t.Errorf("%s: ace audit shows %d rows of %d: %v", x.name, len(entries), len(own.audits), err)
	}
	if found := written.FindString(shown + fmt.Sprintf("%+v", own.audits)); found != "" {
		x.t.Errorf("%s: the audit log has %q, which somebody has written", x.name, found)
	}
	x.soak.counts["rows of the audit log"] += len(own.audits)
}

// written is what a message says.
var written = regexp.MustCompile(`(alice|bob) [0-9]+`)

func rowsOf(s state, events ...audit.Event) (rows []store.Audit) {
	for _, a := range s.audits {
		if slices.Contains(events, a.Event) {
			rows = append(rows, a)
		}
	}
	return rows
}

// checkKeyRows: each change of keys has its row, and so have the permits that it
// made void, the registration of the new log, and its pin at the peer, whose
// receipt was awaited before the next change.
func (x *side) checkKeyRows(own state) {
	x.t.Helper()
	var want, got []change
	want = append(want, x.changes...)
	for _, a := range rowsOf(own, audit.KeyDelegated, audit.KeyRotated) {
		got = append(got, change{rotated: a.Event == audit.KeyRotated, seq: a.KELSeq})
	}
	if !slices.Equal(got, want) {
		x.t.Errorf("%s: the audit log has the changes of keys %v, want %v", x.name, got, want)
	}
	void := slices.DeleteFunc(rowsOf(own, audit.PermitVoided), func(a store.Audit) bool { return a.Peer != "" })
	if len(void) != len(want) {
		x.t.Errorf("%s: %d rows say that issued permits are void, want %d", x.name, len(void), len(want))
	}
	registered := rowsOf(own, audit.RelayRegistered)
	for _, c := range want {
		if !slices.ContainsFunc(registered, func(a store.Audit) bool { return a.KELSeq == c.seq }) {
			x.t.Errorf("%s: no row says that the log up to %d was registered", x.name, c.seq)
		}
	}
	pins := rowsOf(own, audit.PinAdopted, audit.PinExtended, audit.PinRecovered, audit.PinConflict)
	for _, c := range x.peer.changes {
		if !slices.ContainsFunc(pins, func(a store.Audit) bool {
			return a.Event == audit.PinExtended && a.Peer == x.peer.id && a.KELSeq == c.seq
		}) {
			x.t.Errorf("%s: no row says that the log of %s up to %d was pinned", x.name, x.peer.name, c.seq)
		}
	}
	if len(pins) == 0 || pins[0].Event != audit.PinAdopted || len(pins) > 1+len(x.peer.changes) {
		x.t.Errorf("%s: the rows about pins are %+v, for %d changes of the peer's log", x.name, pins, len(x.peer.changes))
	}
}

// checkPacketRows: a packet that the relay of a peer has taken was taken in or has
// a row, and a message that was rejected has one where it was.
func (x *side) checkPacketRows(own, peer state) {
	x.t.Helper()
	rows, rejected := map[string]int{}, map[string]bool{}
	for _, a := range rowsOf(own, audit.MessageDuplicate, audit.MessageRejected, audit.MessageDropped, audit.MessageQuarantined) {
		if a.Peer == x.peer.id {
			rows[a.MessageID]++
			rejected[a.MessageID] = rejected[a.MessageID] || a.Event == audit.MessageRejected
			x.soak.counts["row "+string(a.Event)]++
		}
	}
	for _, m := range x.peer.queued {
		relayed := 0
		for _, a := range peer.attempts[m.id] {
			if a.Code == "" {
				relayed++
			}
		}
		if relayed > rows[m.id]+1 {
			x.t.Errorf("%s: %d packets of %s were relayed, and %d rows tell of those that were not taken in", x.name, relayed, m.id, rows[m.id])
		}
	}
	for _, a := range rowsOf(peer, audit.ReceiptUnknownPrekey) {
		if !rejected[a.MessageID] {
			x.t.Errorf("%s has a receipt that %s has rejected %s, which has no row of it", x.peer.name, x.name, a.MessageID)
		}
	}
}

// traced is how many messages of a side are looked at with ace trace.
const traced = 10

// checkTraces looks at some messages as their sender and as their recipient.
func (x *side) checkTraces(own state) {
	x.t.Helper()
	step := max(1, len(x.queued)/traced)
	for i := 0; i < len(x.queued); i += step {
		id := x.queued[i].id
		x.traceSent(id, own)
		x.peer.traceReceived(id)
	}
}

// trace is what ace trace tells, the members that the tests look at.
type trace struct {
	Direction, State string
	Read             bool
	Events           []struct {
		Event   string
		Code    *string
		Attempt int
		Count   int
	}
}

func (x *side) trace(id string) (t trace) {
	x.t.Helper()
	out := x.must("trace", id, "--json")
	if err := json.Unmarshal([]byte(out), &t); err != nil {
		x.t.Errorf("ace trace %s: %q: %v", id, out, err)
	}
	return t
}

// traceSent: the trace of a message has all attempts, one of which was relayed,
// and ends with the receipt.
func (x *side) traceSent(id string, own state) {
	x.t.Helper()
	t := x.trace(id)
	attempts, relayed, delivered := 0, 0, 0
	for _, e := range t.Events {
		switch e.Event {
		case "attempt":
			attempts++
			if e.Code == nil {
				relayed++
			}
		case "attempts_omitted":
			attempts += e.Count
		case store.Delivered:
			delivered++
		}
	}
	if t.Direction != "out" || t.State != store.Delivered || attempts != own.outbox[id].Attempts || delivered != 1 {
		x.t.Errorf("ace trace %s at %s, which has had %d attempts: %+v", id, x.name, own.outbox[id].Attempts, t)
	}
	x.soak.counts["traced attempts"] += attempts
	x.soak.counts["traced attempts that were relayed"] += relayed
}

// traceReceived: the trace of a message says that it came, and that it is handled.
func (x *side) traceReceived(id string) {
	x.t.Helper()
	t := x.trace(id)
	came := 0
	for _, e := range t.Events {
		if e.Event == "received" {
			came++
		}
	}
	if t.Direction != "in" || t.State != "received" || !t.Read || came != 1 || t.Events[0].Event != "signed" {
		x.t.Errorf("ace trace %s at %s: %+v", id, x.name, t)
	}
}
