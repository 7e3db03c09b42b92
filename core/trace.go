package core

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// Trace is what this store knows of one message that went to a peer or came from
// it: one timeline.
type Trace struct {
	MessageID      string
	Outgoing       bool
	Peer, PeerName string // of a packet that was dropped, who it states to be from
	Type           string // "" for a packet that was not taken in
	State          string // of an outgoing message as in [Outgoing], else received or what became of its packet
	Handled        bool   // the local mark of a received message
	Events         []TraceEvent
}

// The names of trace events. Beside them are those of the audit log.
const (
	TraceQueued   = "queued"
	TraceHeld     = "held"             // for the approval of the owner, before it was queued
	TraceAttempt  = "attempt"          // Attempt, and what it came to
	TraceOmitted  = "attempts_omitted" // Count of them are not kept
	TraceSigned   = "signed"           // the peer's clock says when
	TraceReceived = "received"

	// Of the last attempt of a handler, that of a message which is not handled yet.
	TraceHandling       = "handling" // under way, or cut off with its process
	TraceHandlerFailed  = "handler_failed"
	TraceHandlerGivenUp = "handler_given_up"
)

// TraceEvent is one thing that happened to a message. Beside its own names an
// event has one of the audit log, the state in which an outgoing message ended, or
// the reason why it did not leave.
type TraceEvent struct {
	At         int64
	Event      string
	Attempt    int    // its number, from 1
	Relay      string // that took the packet, or whose failure counts
	Status     int    // HTTP
	Code       string // of a failure, or that the receipt states
	RemoteCode string // that the relay stated
	Prekey     string // that the packet was encrypted to
	PeerPrekey bool   // that was a peer prekey, else the published one
	// PermitExpiresAt is the end of the permit that was presented.
	PermitExpiresAt, NextAttemptAt int64
	Count                          int
	Reason                         string // how a handler's attempt failed
}

// stateReceived is the state of a message that was taken in.
const stateReceived = "received"

// Trace returns what is known of the message with an ID, or with at least 8
// characters that only one ID begins with: more than one result where several
// peers have chosen the same. With from, only what came from that peer. Code:
// invalid_argument.
func (e *Endpoint) Trace(ctx context.Context, id, from string) (traces []Trace, err error) {
	if err := checkMessagePrefix(id); err != nil {
		return nil, err
	}
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	if err := e.node.ExpireDue(ctx, now); err != nil {
		return nil, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		t := &tracer{tx: tx}
		if err := t.gather(id, from); err != nil {
			return err
		}
		traces, err = t.finish(id)
		return err
	})
	return traces, err
}

// tracer collects the traces of one ID.
type tracer struct {
	tx     *store.Tx
	traces []*Trace
}

// tracedMost bounds how many messages of one start of an ID are looked at.
const tracedMost = 16

func (t *tracer) gather(id, from string) error {
	if from == "" {
		sent, err := t.tx.OutboxWithPrefix(id, 2)
		if err != nil {
			return err
		}
		for _, entry := range sent {
			if err := t.addOutgoing(entry); err != nil {
				return err
			}
		}
	}
	received, err := t.tx.MessagesWithPrefix(id, from, tracedMost)
	if err != nil {
		return err
	}
	for _, m := range received {
		trace := &Trace{
			MessageID: m.MessageID, Peer: m.Peer, Type: m.Type, State: stateReceived, Handled: m.Handled,
			Events: []TraceEvent{{At: m.SentAt, Event: TraceSigned}, {At: m.ReceivedAt, Event: TraceReceived}},
		}
		if err := t.addHandling(trace); err != nil {
			return err
		}
		t.traces = append(t.traces, trace)
	}
	return t.addAudits(id, from)
}

// addHandling adds what came of handing the message to a handler, as far as that is
// kept: until it is handled.
func (t *tracer) addHandling(trace *Trace) error {
	h, err := t.tx.Handling(trace.Peer, trace.MessageID)
	if err != nil || h.Attempts == 0 || trace.Handled {
		return err
	}
	event := TraceEvent{At: h.StartedAt, Event: TraceHandling, Attempt: h.Attempts}
	switch {
	case h.GivenUp:
		event.Event, event.Reason = TraceHandlerGivenUp, h.LastError
	case !h.Running:
		event.Event, event.Reason, event.NextAttemptAt = TraceHandlerFailed, h.LastError, h.NextAttemptAt
	}
	trace.Events = append(trace.Events, event)
	return nil
}

func (t *tracer) addOutgoing(e store.OutboxEntry) error {
	trace := &Trace{MessageID: e.MessageID, Outgoing: true, Peer: e.Peer, Type: e.Type, State: stateOf(e)}
	unqueued := e.State == store.PendingApproval || endedHere(e)
	if e.HeldAt != 0 {
		trace.Events = append(trace.Events, TraceEvent{At: e.HeldAt, Event: TraceHeld})
	}
	if !unqueued {
		trace.Events = append(trace.Events, TraceEvent{At: e.CreatedAt, Event: TraceQueued})
	}
	attempts, err := t.tx.Attempts(e.MessageID)
	if err != nil {
		return err
	}
	last, at := 0, e.CreatedAt
	omitted := func(until int) {
		if n := until - last - 1; n > 0 {
			trace.Events = append(trace.Events, TraceEvent{At: at, Event: TraceOmitted, Count: n})
		}
	}
	for _, a := range attempts {
		omitted(a.Number)
		last, at = a.Number, a.At
		trace.Events = append(trace.Events, TraceEvent{
			At: a.At, Event: TraceAttempt, Attempt: a.Number, Relay: a.Relay, Status: a.Status, Code: a.Code, RemoteCode: a.RemoteCode,
			Prekey: a.Prekey, PeerPrekey: a.PrekeyIsPeer, PermitExpiresAt: a.PermitExpiresAt, NextAttemptAt: a.NextAttemptAt,
		})
	}
	omitted(e.Attempts + 1)
	if e.SettledAt != 0 && !unqueued {
		trace.Events = append(trace.Events, TraceEvent{At: e.SettledAt, Event: stateOf(e), Code: e.RemoteCode})
	}
	if endedHere(e) {
		trace.Events = append(trace.Events, TraceEvent{At: e.SettledAt, Event: e.Reason})
	}
	t.traces = append(t.traces, trace)
	return nil
}

// endedHere reports whether an entry was rejected by its owner, and not by a
// receipt: it was held for approval, and nothing of it has left.
func endedHere(e store.OutboxEntry) bool {
	return e.Reason == delivery.ReasonDenied || e.Reason == delivery.ReasonApprovalExpired
}

// addAudits adds what the audit log has about the messages, and those packets
// that only it knows.
func (t *tracer) addAudits(id, from string) error {
	rows, err := t.tx.Audits(store.AuditFilter{MessageID: id, Peer: from})
	if err != nil {
		return err
	}
	for _, r := range rows {
		trace := t.of(r)
		if trace == nil {
			continue
		}
		trace.Events = append(trace.Events, TraceEvent{At: r.At, Event: string(r.Event), Code: r.Code})
		if trace.Type == "" { // no record, so that the log alone says what became of it
			trace.State = stateAfter(trace.State, r.Event)
		}
	}
	return nil
}

// stateAfter returns what has become of a packet that has no record, by an event of
// the audit log: the words are those of the inbox and of quarantine. One that comes
// again, or has no receipt, stays what it was.
func stateAfter(before string, e audit.Event) string {
	switch e {
	case audit.MessageWithheld, audit.MessageQuarantined:
		return StateQuarantined
	case audit.QuarantineDropped:
		return "dropped"
	case audit.MessageDropped, audit.MessageRejected, audit.MessageRetried:
	default:
		if before != "" {
			return before
		}
	}
	_, what, _ := strings.Cut(string(e), ".")
	return what
}

// of returns the trace that a row is about, nil for a message of which too little
// is left.
func (t *tracer) of(r store.Audit) *Trace {
	if slices.Contains(audit.Match("approval.*"), r.Event) {
		return nil // the entry itself says so
	}
	outgoing := r.Event == audit.ReceiptUnknownPrekey
	for _, trace := range t.traces {
		if trace.Outgoing == outgoing && trace.MessageID == r.MessageID && trace.Peer == r.Peer {
			return trace
		}
	}
	if outgoing {
		return nil
	}
	trace := &Trace{MessageID: r.MessageID, Peer: r.Peer}
	t.traces = append(t.traces, trace)
	return trace
}

func (t *tracer) finish(id string) (traces []Trace, err error) {
	for _, trace := range t.traces {
		if trace.MessageID != t.traces[0].MessageID {
			return nil, fault.New(fault.InvalidArgument, "%q stands for several messages: write more characters", id)
		}
		if trace.PeerName, err = t.tx.Name(trace.Peer); err != nil {
			return nil, err
		}
		timed := trace.Events
		if trace.Type != "" { // the record comes first, whatever clock has dated it
			timed = timed[1:]
		}
		slices.SortStableFunc(timed, func(a, b TraceEvent) int { return cmp.Compare(a.At, b.At) })
		traces = append(traces, *trace)
	}
	if len(traces) == 0 {
		return nil, fault.New(fault.InvalidArgument, "no message %.80q was queued or received here", id)
	}
	return traces, nil
}
