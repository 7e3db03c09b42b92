package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
)

type auditOptions struct {
	since, event, peer, message string
	limit                       int
	follow, failEmpty           bool
}

func newAuditCmd(a *app) *cobra.Command {
	var o auditOptions
	c := &cobra.Command{
		Use:   "audit [--since TIME] [--event PATTERN] [--peer PEER] [--message ID] [--limit N] [--follow]",
		Short: "Show what was decided and refused, newest last",
		Long: `Show the audit log, newest last: what was decided about peers, permits and keys, and
what became of packets that were not taken in. ace help audit-events lists the
events. A message that was taken in has no entry: ace inbox has it. There is no
content in the log, and no name or note.

The peer of a packet that was dropped is who it states to be from, which anybody
can write. The log is kept for 90 days and to 100,000 entries, or as the table
[audit] of the configuration says; beyond that the oldest about packets go first.

With --follow, later entries are shown as they come, until a signal ends it. With
--json each is one line then.`,
		Example: `  ace audit --since 1d --event 'pin.*'
  ace audit --peer bob --event 'permit.*' --json
  ace audit --follow`,
	}
	f := c.Flags()
	f.StringVar(&o.since, "since", "", "only entries since this `TIME`: 2h, 7d, or an RFC 3339 time")
	f.StringVar(&o.event, "event", "", "only this event, or those that a `PATTERN` fits, as in 'pin.*'")
	f.StringVar(&o.peer, "peer", "", "only entries about this `PEER`")
	f.StringVar(&o.message, "message", "", "only entries about the message with this `ID`, or the start of it")
	f.IntVar(&o.limit, "limit", 0, "only the newest `N`, 0 for all")
	f.BoolVar(&o.follow, "follow", false, "go on with the entries that come")
	f.BoolVar(&o.failEmpty, "fail-empty", false, "exit with 3 when there is none")
	a.completeOption(c, "peer", peerValues)
	a.completeOption(c, "event", eventValues)
	return a.leaf(c, 0, 0, []any{auditList{}, auditEntry{}, errorEvent{}}, func(ctx context.Context, _ []string) error {
		return runAudit(ctx, a, o)
	})
}

func eventValues(*app) (list []offered) {
	for _, d := range audit.Events() {
		list = append(list, offered{string(d.Event), d.Meaning})
	}
	return list
}

// auditEntry is one entry of the log. Members that do not apply are null.
type auditEntry struct {
	Number    int64   `json:"number"` // in the order of the log
	At        int64   `json:"at"`
	Event     string  `json:"event"`
	Code      *string `json:"code"`
	Peer      *string `json:"peer"`
	PeerName  *string `json:"peer_name"`
	MessageID *string `json:"message_id"`
	Relay     *string `json:"relay"`
	KELSeq    *int64  `json:"kel_seq"`
	ExpiresAt *int64  `json:"expires_at"`
	Count     *int64  `json:"count"`
}

func newAuditEntry(e core.AuditEntry) auditEntry {
	return auditEntry{
		Number: e.Seq, At: e.At, Event: string(e.Event), Code: orNull(e.Code), Peer: orNull(e.Peer), PeerName: orNull(e.PeerName),
		MessageID: orNull(e.MessageID), Relay: orNull(e.Relay), KELSeq: timeOrNull(e.KELSeq), ExpiresAt: timeOrNull(e.ExpiresAt), Count: timeOrNull(e.Count),
	}
}

func (r auditEntry) text(p *page) {
	peer, message := "-", "-"
	if r.Peer != nil {
		peer = p.peer(*r.Peer, r.PeerName)
	}
	if r.MessageID != nil {
		message = p.messageID(*r.MessageID)
	}
	p.row(p.time(r.At), r.Event, clean(orDash(r.Code), false), peer, message, r.detail(p))
}

// detail is what else there is to say, as the last column.
func (r auditEntry) detail(p *page) string {
	switch {
	case r.Relay != nil:
		return *r.Relay
	case r.KELSeq != nil:
		return fmt.Sprintf("seq %d", *r.KELSeq)
	case r.ExpiresAt != nil:
		return "ends " + p.time(*r.ExpiresAt)
	case r.Count != nil:
		return p.number(*r.Count)
	}
	return "-"
}

type auditList []auditEntry

func (r auditList) text(p *page) {
	p.head("WHEN", "EVENT", "CODE", "PEER", "MESSAGE", "")
	for _, e := range r {
		e.text(p)
	}
}

func runAudit(ctx context.Context, a *app, o auditOptions) error {
	f, err := o.filter(a)
	if err != nil {
		return err
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.peer != "" {
		if f.Peer, err = s.peer(ctx, o.peer); err != nil {
			return err
		}
	}
	if o.follow {
		return a.followAudit(ctx, s, f)
	}
	entries, err := s.Audit(ctx, f)
	if err != nil {
		return err
	}
	answer := auditList{}
	for _, e := range entries {
		answer = append(answer, newAuditEntry(e))
	}
	return a.printList(answer, len(answer), o.failEmpty)
}

// filter is what the options select, but for the peer.
func (o auditOptions) filter(a *app) (f core.AuditFilter, err error) {
	f.MessageID, f.Limit = o.message, o.limit
	if o.limit < 0 {
		return f, usagef("--limit is not negative")
	}
	if o.follow && o.failEmpty {
		return f, usagef("--follow and --fail-empty exclude each other")
	}
	if o.event != "" {
		if f.Events = audit.Match(o.event); len(f.Events) == 0 {
			return f, noEvent(o.event)
		}
	}
	f.Since, err = parseSince(o.since, a.io.Now())
	return f, err
}

func noEvent(pattern string) error {
	var names []string
	for _, d := range audit.Events() {
		names = append(names, string(d.Event))
	}
	err := usagef("no event is, or fits, %q", pattern)
	if near := nearest(pattern, names); near != "" {
		return hintf(err, "did you mean %s?", near)
	}
	return hintf(err, "ace help audit-events lists them; a pattern has * for any characters, as in 'pin.*'")
}

// followInterval is how often --follow looks for entries. Between two looks
// nothing in the store is held.
const followInterval = 500 * time.Millisecond

// followAudit prints entries as they come, until a signal or --timeout ends it.
func (a *app) followAudit(ctx context.Context, s *session, f core.AuditFilter) error {
	ctx, cancel := a.givenDeadline(ctx)
	defer cancel()
	ticker := time.NewTicker(followInterval)
	defer ticker.Stop()
	for {
		entries, err := s.Audit(ctx, f)
		for _, e := range entries {
			f.After = e.Seq
			if err := a.print(newAuditEntry(e)); err != nil {
				return err
			}
		}
		f.Limit = 0
		if err != nil && ctx.Err() == nil {
			return a.streamError(err)
		}
		select {
		case <-ctx.Done():
			return a.followed(ctx)
		case <-ticker.C:
		}
	}
}

// followed ends a stream of which a signal and --timeout are the usual ends.
func (a *app) followed(ctx context.Context) error {
	var s *statusError
	cause := context.Cause(ctx)
	if errors.Is(cause, errDeadline) || errors.As(cause, &s) && s.code == codeInterrupted {
		return errDrained
	}
	return a.streamError(cause)
}

// note notes what happens to an identity beside its store. Not being able to is
// no reason for a command to fail.
func (a *app) note(id *identity, notes ...core.Note) {
	for i := range notes {
		notes[i].At = a.io.Now()
	}
	if err := core.NoteAudit(id.storePath(), notes...); err != nil {
		a.warn("the audit log could not be told: %v", err)
	}
}

func writeAuditEvents(w io.Writer, _ *cobra.Command) {
	fmt.Fprintf(w, "The audit log says what an endpoint has decided, and what became of packets that\nit did not take in. ace audit shows it.\n")
	for _, d := range audit.Events() {
		fmt.Fprintf(w, "\n  %s\n      %s\n", d.Event, d.Meaning)
	}
}
