package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

func newOutboxCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "outbox", Short: "Show what became of your messages"},
		newOutboxListCmd(a), newOutboxShowCmd(a), newOutboxApproveCmd(a), newOutboxDenyCmd(a), newOutboxRetryCmd(a), newOutboxAbandonCmd(a), newOutboxPruneCmd(a))
}

func newOutboxListCmd(a *app) *cobra.Command {
	var state string
	var failEmpty bool
	c := &cobra.Command{Use: "list [--state STATE] [--fail-empty]", Short: "List the messages you have queued", Long: outboxLong}
	c.Flags().StringVar(&state, "state", "", "only messages in this `STATE`, as queued or delivered")
	c.Flags().BoolVar(&failEmpty, "fail-empty", false, "exit with 3 when there is none")
	return a.leaf(c, 0, 0, []any{outgoingList{}}, func(ctx context.Context, _ []string) error {
		return runOutboxList(ctx, a, state, failEmpty)
	})
}

func newOutboxShowCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "show MESSAGE_ID", Short: "Show a message you have queued", Long: "Show a message you have queued. The start of its ID is enough, at least 8\ncharacters.", ValidArgsFunction: a.complete(1, sentValues)}
	return a.leaf(c, 1, 1, []any{outgoingDetail{}}, func(ctx context.Context, args []string) error {
		return runOutboxShow(ctx, a, args[0])
	})
}

const outboxLong = `List the messages you have queued, oldest first. A message is in one of these
states:

  pending_approval  held for you: nothing of it has left
  queued            no relay has taken it yet
  relayed           a relay has taken it; whether it arrives is not known
  delivered         the recipient's signed receipt says so
  rejected          the recipient's signed receipt says so, or you did: see REASON
  expired           its attempts ended without a receipt: the outcome is unknown
  abandoned         the same, because you stopped them

REASON is why a message does not go on, or how it ended here. Messages to one
recipient have their first attempts in the order you queued them.`

// outgoingStates lists the states that --state takes.
func outgoingStates() []string {
	return []string{core.StatePendingApproval, core.StateQueued, core.StateRelayed, core.StateDelivered, core.StateRejected, core.StateExpired, core.StateAbandoned}
}

// outgoingAnswer is one entry of the Outbox.
type outgoingAnswer struct {
	MessageID     string  `json:"message_id"`
	To            string  `json:"to"`
	PeerName      *string `json:"peer_name"`
	ThreadID      *string `json:"thread_id"`
	Type          string  `json:"type"`
	State         string  `json:"state"`
	Attempts      int     `json:"attempts"`
	Relay         *string `json:"relay"`
	QueuedAt      int64   `json:"queued_at"`
	NextAttemptAt *int64  `json:"next_attempt_at"`
	ExpiresAt     *int64  `json:"expires_at"`
	SettledAt     *int64  `json:"settled_at"`
	RemoteCode    *string `json:"remote_code"`
	LastError     *string `json:"last_error"`
	Reason        *string `json:"reason"` // of this host
	RequestID     *string `json:"request_id"`
	HeldAt        *int64  `json:"held_at"`             // null for what was never held for approval
	ApprovalEnds  *int64  `json:"approval_expires_at"` // null unless it is held now
	// Damaged says that the stored message does not open: no attempt can succeed.
	Damaged bool `json:"damaged"`
}

func newOutgoingAnswer(o core.Outgoing) outgoingAnswer {
	if o.State != core.StatePendingApproval {
		o.HeldUntil = 0
	}
	return outgoingAnswer{
		MessageID: o.MessageID, To: o.To, PeerName: orNull(o.PeerName), ThreadID: orNull(o.ThreadID), Type: o.Type,
		State: o.State, Reason: orNull(o.Reason), HeldAt: timeOrNull(o.HeldAt), ApprovalEnds: timeOrNull(o.HeldUntil), Attempts: o.Attempts, Relay: orNull(o.Relay), QueuedAt: o.QueuedAt,
		NextAttemptAt: timeOrNull(o.NextAttemptAt), ExpiresAt: timeOrNull(o.ExpiresAt), SettledAt: timeOrNull(o.SettledAt),
		RemoteCode: orNull(o.RemoteCode), LastError: orNull(o.LastError), RequestID: orNull(o.RequestID), Damaged: o.Damaged,
	}
}

func (r outgoingAnswer) text(p *page) {
	to := p.peer(r.To, r.PeerName)
	switch r.State {
	case core.StateDelivered:
		p.line("delivered %s to %s: the signed receipt is verified", r.MessageID, to)
	case core.StateRejected:
		if r.Reason != nil {
			p.line("rejected %s to %s here: %s; nothing of it left", r.MessageID, to, *r.Reason)
			break
		}
		p.line("rejected %s by %s: %s", r.MessageID, to, clean(orDash(r.RemoteCode), false))
	case core.StatePendingApproval:
		p.line("%s %s to %s: nothing of it has left", r.State, r.MessageID, to)
		p.line("ace outbox approve lets it go, until %s", p.timeOr(r.ApprovalEnds))
	case core.StateQueued, core.StateRelayed:
		p.line("%s %s to %s", r.State, r.MessageID, to)
		if r.Reason != nil {
			p.line("it waits: %s", *r.Reason)
		}
		if r.NextAttemptAt != nil {
			p.line("next attempt %s", p.time(*r.NextAttemptAt))
		}
	default:
		p.line("%s %s to %s", r.State, r.MessageID, to)
	}
	if r.ThreadID != nil {
		p.line("on thread %s", clean(*r.ThreadID, false))
	}
}

type outgoingList []outgoingAnswer

func (r outgoingList) text(p *page) {
	p.head("MESSAGE", "TO", "STATE", "TYPE", "ATTEMPTS", "QUEUED", "NEXT ATTEMPT", "REASON")
	for _, o := range r {
		p.row(p.messageID(o.MessageID), p.peer(o.To, o.PeerName), o.State, clean(o.Type, false), fmt.Sprint(o.Attempts), p.time(o.QueuedAt), p.timeOr(o.NextAttemptAt), clean(o.why(), false))
	}
}

// why is the reason that a list shows: this host's, the code of the peer, or that
// of the last attempt.
func (r outgoingAnswer) why() string {
	for _, reason := range []*string{r.Reason, r.RemoteCode, r.LastError} {
		if reason != nil {
			return *reason
		}
	}
	return "-"
}

func runOutboxList(ctx context.Context, a *app, state string, failEmpty bool) error {
	if state != "" && !slices.Contains(outgoingStates(), state) {
		return usagef("--state is one of %s, not %q", strings.Join(outgoingStates(), ", "), state)
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	entries, err := s.Outbox(ctx)
	if err != nil {
		return err
	}
	answer := outgoingList{}
	for _, e := range entries {
		if state == "" || e.State == state {
			answer = append(answer, newOutgoingAnswer(e))
		}
	}
	return a.printList(answer, len(answer), failEmpty)
}

// outgoingDetail is an entry with the body that you wrote, null for a damaged one.
type outgoingDetail struct {
	outgoingAnswer
	Body json.RawMessage `json:"body"`
}

func (r outgoingDetail) text(p *page) {
	p.row("message", r.MessageID)
	p.row("to", p.peer(r.To, r.PeerName))
	p.row("type", r.Type)
	if r.ThreadID != nil {
		p.row("thread", clean(*r.ThreadID, false))
	}
	p.row("state", r.State)
	switch r.State {
	case core.StateDelivered:
		p.row("receipt", "verified, signed by "+r.To)
	case core.StateRejected:
		if r.Reason == nil {
			p.row("receipt", "verified, rejected with "+clean(orDash(r.RemoteCode), false))
		}
	}
	if r.Reason != nil {
		p.row("reason", *r.Reason)
	}
	if r.HeldAt != nil {
		p.row("held", p.time(*r.HeldAt))
	}
	if r.ApprovalEnds != nil {
		p.row("approval until", p.time(*r.ApprovalEnds))
	} else {
		p.row("queued", p.time(r.QueuedAt))
	}
	p.row("attempts", fmt.Sprint(r.Attempts))
	if r.Relay != nil {
		p.row("relay", *r.Relay)
	}
	if r.NextAttemptAt != nil {
		p.row("next attempt", p.time(*r.NextAttemptAt))
	}
	if r.SettledAt != nil {
		p.row("settled", p.time(*r.SettledAt))
	}
	if r.LastError != nil {
		p.row("last error", clean(*r.LastError, false))
	}
	if r.Damaged {
		p.row("body", damaged)
		return
	}
	p.row("body", string(cleanJSON(r.Body)))
}

// outgoing finds an entry by its message ID or, as lists on a terminal show it,
// by the start of it.
func (s *session) outgoing(ctx context.Context, typed string) (core.Outgoing, error) {
	entries, err := s.Outbox(ctx)
	if err != nil {
		return core.Outgoing{}, err
	}
	entries = slices.DeleteFunc(entries, func(e core.Outgoing) bool { return !strings.HasPrefix(e.MessageID, typed) })
	if len(typed) >= messageIDShown && len(entries) == 1 {
		return entries[0], nil
	}
	entry, err := s.OutboxEntry(ctx, typed)
	if fault.CodeOf(err) == fault.InvalidArgument {
		return entry, hintf(err, "ace outbox list shows the messages")
	}
	return entry, err
}

func runOutboxShow(ctx context.Context, a *app, id string) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	entry, err := s.outgoing(ctx, id)
	if err != nil {
		return err
	}
	return a.print(outgoingDetail{newOutgoingAnswer(entry), entry.Body.Canonical()})
}
