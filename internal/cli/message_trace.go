package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
)

func newTraceCmd(a *app) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:               "trace MESSAGE_ID [--from PEER]",
		ValidArgsFunction: a.complete(1, tracedValues),
		Short:             "Show what happened to a message, step by step",
		Long: `Show what happened to a message that you have queued or received, step by step, from
what is known here. The start of its ID is enough, at least 8 characters. Of the
attempts to send it the first 3 and the last 13 are kept.

Two senders may have chosen the same ID: each is shown, with --json as a line of
its own. Of a packet that was dropped, the peer is who it states to be from.`,
	}
	c.Flags().StringVar(&from, "from", "", "only what came from this `PEER`")
	a.completeOption(c, "from", peerValues)
	return a.leaf(c, 1, 1, []any{traceAnswer{}}, func(ctx context.Context, args []string) error {
		return runTrace(ctx, a, args[0], from)
	})
}

func tracedValues(a *app) []offered {
	k := a.known()
	return append(labelled(k, k.Sent, "to "), labelled(k, k.Received, "from ")...)
}

// The directions of a message.
const (
	directionOut = "out"
	directionIn  = "in"
)

// traceAnswer is the timeline of one message.
type traceAnswer struct {
	MessageID string       `json:"message_id"`
	Direction string       `json:"direction"` // out or in
	Peer      string       `json:"peer"`
	PeerName  *string      `json:"peer_name"`
	Type      *string      `json:"type"` // null for a packet that was not taken in
	State     string       `json:"state"`
	Read      bool         `json:"read"`
	Events    []traceEvent `json:"events"`
	Next      *string      `json:"next"` // what to look at next, null for nothing
}

// traceEvent is one step. Members that do not apply are null.
type traceEvent struct {
	At              int64   `json:"at"`
	Event           string  `json:"event"`
	Attempt         *int    `json:"attempt"` // number, from 1
	Relay           *string `json:"relay"`
	Status          *int    `json:"status"` // HTTP
	Code            *string `json:"code"`
	RemoteCode      *string `json:"remote_code"`
	Prekey          *string `json:"prekey"`
	PrekeyKind      *string `json:"prekey_kind"` // peer or published
	PermitExpiresAt *int64  `json:"permit_expires_at"`
	NextAttemptAt   *int64  `json:"next_attempt_at"`
	Count           *int    `json:"count"`
	Reason          *string `json:"reason"` // how a handler's attempt failed
}

func newTraceAnswer(t core.Trace) traceAnswer {
	r := traceAnswer{
		MessageID: t.MessageID, Direction: directionIn, Peer: t.Peer, PeerName: orNull(t.PeerName), Type: orNull(t.Type),
		State: t.State, Read: t.Handled, Events: []traceEvent{},
	}
	if t.Outgoing {
		r.Direction = directionOut
	}
	for _, e := range t.Events {
		r.Events = append(r.Events, newTraceEvent(e))
	}
	r.Next = orNull(r.next())
	return r
}

func newTraceEvent(e core.TraceEvent) traceEvent {
	r := traceEvent{
		At: e.At, Event: e.Event, Attempt: numberOrNull(e.Attempt), Relay: orNull(e.Relay), Status: numberOrNull(e.Status), Code: orNull(e.Code),
		RemoteCode: orNull(e.RemoteCode), Prekey: orNull(e.Prekey), PermitExpiresAt: timeOrNull(e.PermitExpiresAt),
		NextAttemptAt: timeOrNull(e.NextAttemptAt), Count: numberOrNull(e.Count), Reason: orNull(e.Reason),
	}
	switch {
	case e.Prekey == "":
	case e.PeerPrekey:
		r.PrekeyKind = orNull("peer")
	default:
		r.PrekeyKind = orNull("published")
	}
	return r
}

// numberOrNull is nil for 0: the JSON null of a number that is not set.
func numberOrNull(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

func (r traceAnswer) text(p *page) {
	p.row("message", r.MessageID)
	if r.Direction == directionOut {
		p.row("to", p.peerFull(r.Peer, r.PeerName))
	} else {
		p.row("from", p.peerFull(r.Peer, r.PeerName))
	}
	if r.Type != nil {
		p.row("type", clean(*r.Type, false))
	}
	state := r.State
	if r.Read {
		state += ", read"
	}
	p.row("state", state)
	for _, e := range r.Events {
		p.row(p.time(e.At), e.sentence(p))
	}
	if r.Next != nil {
		p.row("next", *r.Next)
	}
}

// sentence tells a step.
func (e traceEvent) sentence(p *page) string {
	code := clean(orDash(e.Code), false)
	switch e.Event {
	case core.TraceAttempt:
		return e.attempt(p)
	case core.TraceHeld:
		return "held for your approval"
	case delivery.ReasonDenied:
		return "denied by you: nothing of it has left"
	case delivery.ReasonApprovalExpired:
		return "rejected, as you did not decide in time: nothing of it has left"
	case core.TraceOmitted:
		return count(*e.Count, "attempt") + " of which nothing is kept"
	case core.StateDelivered:
		return "delivered: its signed receipt is verified"
	case core.StateRejected:
		return "rejected with " + code + ": its signed receipt is verified"
	case core.StateExpired:
		return "expired: attempts have ended without a receipt, and the outcome is unknown"
	case core.StateAbandoned:
		return "abandoned by you"
	case core.TraceSigned:
		return "signed, by the clock of its sender"
	case core.TraceHandling:
		return fmt.Sprintf("handed on, attempt %d: under way, or cut off", *e.Attempt)
	case core.TraceHandlerFailed:
		return fmt.Sprintf("handed on, attempt %d: %s; again %s", *e.Attempt, clean(orDash(e.Reason), false), p.timeOr(e.NextAttemptAt))
	case core.TraceHandlerGivenUp:
		return fmt.Sprintf("handed on, attempt %d: %s; given up", *e.Attempt, clean(orDash(e.Reason), false))
	}
	switch audit.Event(e.Event) {
	case audit.ReceiptUnknownPrekey:
		return "a receipt says that the prekey is not known any more: the next attempt uses the published one"
	case audit.ReceiptUnsent:
		return "no receipt can be sent: " + code
	case audit.MessageRetried:
		return "to be fetched again: " + code
	case audit.MessageWithheld:
		return "set aside by your policy"
	case audit.QuarantineReleased:
		return "released into the inbox by you"
	case audit.MessageDuplicate:
		return "came again, and was ignored"
	case audit.MessageDropped, audit.MessageRejected, audit.MessageQuarantined:
		return strings.TrimPrefix(e.Event, "message.") + ": " + code
	}
	return e.Event
}

// attempt tells what an attempt came to.
func (e traceEvent) attempt(p *page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "attempt %d", *e.Attempt)
	if e.Code == nil {
		fmt.Fprintf(&b, ": relayed by %s", orDash(e.Relay))
	} else {
		fmt.Fprintf(&b, " failed: %s", clean(*e.Code, false))
	}
	if e.Code != nil && e.Relay != nil {
		fmt.Fprintf(&b, " at %s", *e.Relay)
	}
	if e.Status != nil {
		fmt.Fprintf(&b, " (HTTP %d", *e.Status)
		if e.RemoteCode != nil {
			fmt.Fprintf(&b, " %s", clean(*e.RemoteCode, false))
		}
		b.WriteString(")")
	}
	if e.Prekey != nil {
		fmt.Fprintf(&b, "; %s prekey %.12s", *e.PrekeyKind, *e.Prekey)
	}
	if e.PermitExpiresAt != nil {
		fmt.Fprintf(&b, "; permit until %s", p.time(*e.PermitExpiresAt))
	}
	if e.NextAttemptAt != nil {
		fmt.Fprintf(&b, "; next attempt %s", p.time(*e.NextAttemptAt))
	}
	return b.String()
}

// next is the next step for a message that is not where it should be, "" for one
// that is.
func (r traceAnswer) next() string {
	last := func(event string) *string {
		for i := len(r.Events) - 1; i >= 0; i-- {
			if r.Events[i].Event == event {
				return r.Events[i].Code
			}
		}
		return nil
	}
	switch {
	case r.State == core.StateRejected && r.Direction == directionOut:
		return explainStep(last(core.StateRejected))
	case r.State == core.StateQueued || r.State == core.StateRelayed:
		if code := last(core.TraceAttempt); code != nil {
			return sendStep(*code, r.Peer)
		}
		if r.State == core.StateQueued {
			return "ace outbox retry " + r.MessageID
		}
		return "ace pull"
	case r.State == core.StateExpired || r.State == core.StateAbandoned:
		return "ace why " + r.Peer
	case r.Direction == directionIn && last(string(audit.ReceiptUnsent)) != nil:
		return "ace why " + r.Peer
	case r.State == core.StatePendingApproval:
		return "ace outbox approve " + r.MessageID
	case r.State == core.StateQuarantined:
		return "ace quarantine list"
	case r.State == "dropped" || r.State == "rejected":
		return explainStep(r.Events[len(r.Events)-1].Code)
	}
	return ""
}

// sendStep is the next step after an attempt that failed.
func sendStep(code, peer string) string {
	switch fault.Code(code) {
	case fault.NotPermitted, fault.UnknownPeer, fault.StalePeerBinding, fault.StaleDescriptor, fault.KELConflict:
		return "ace why " + peer
	case fault.IdentityUnavailable, fault.NotRegistered:
		return "ace publish"
	}
	return "ace explain " + code
}

func explainStep(code *string) string {
	if code == nil {
		return ""
	}
	return "ace explain " + clean(*code, false)
}

func runTrace(ctx context.Context, a *app, id, from string) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if from != "" {
		if from, err = s.peer(ctx, from); err != nil {
			return err
		}
	}
	traces, err := s.Trace(ctx, id, from)
	if err != nil {
		return withHint(err, "ace outbox list and ace inbox list show the messages, ace audit --event 'message.*' what was refused")
	}
	for i, t := range traces {
		if i > 0 && !a.flags.json {
			fmt.Fprintln(a.io.Out)
		}
		if err := a.print(newTraceAnswer(t)); err != nil {
			return err
		}
	}
	return nil
}
