package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

func newQuarantineCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "quarantine", Short: "Look into what has come and is not shown"},
		newQuarantineListCmd(a), newQuarantineShowCmd(a), newQuarantineReleaseCmd(a), newQuarantineDropCmd(a))
}

func newQuarantineListCmd(a *app) *cobra.Command {
	var failEmpty bool
	c := &cobra.Command{
		Use:   "list [--fail-empty]",
		Short: "List what has come and is not shown",
		Long: `List what has come and is not shown: messages that your policy denies (ace help
config), and packets that were given up.

A message that your policy denies is delivered for its sender, who learns of no
policy. It is in no inbox and no stream until ace quarantine release puts it there.
Of more than 10,000 the oldest one goes of whom most are from, and ace audit tells.

A packet that cannot be processed for now is fetched again; after three times
without success it is kept here, so that those behind it get through. The newest
100 are kept.`,
	}
	c.Flags().BoolVar(&failEmpty, "fail-empty", false, "exit with 3 when there is none")
	return a.leaf(c, 0, 0, []any{quarantineList{}}, func(ctx context.Context, _ []string) error {
		return runQuarantineList(ctx, a, failEmpty)
	})
}

func newQuarantineShowCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "show NUMBER", Short: "Show one of them", Long: "Show one of them. A packet that was given up is shown as it came: encrypted, and\nwith nothing about it checked."}
	return a.leaf(c, 1, 1, []any{quarantineDetail{}}, func(ctx context.Context, args []string) error {
		return runQuarantineShow(ctx, a, args[0])
	})
}

func newQuarantineReleaseCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "release NUMBER...",
		Short: "Put messages that your policy denied into the inbox",
		Long:  "Put messages that your policy denied into the inbox, as the last ones there. A\npacket that was given up cannot be released: it was never opened.",
	}
	return a.leaf(c, 1, -1, []any{messageAnswer{}, targetError{}}, func(ctx context.Context, args []string) error {
		return runQuarantineRelease(ctx, a, args)
	})
}

func newQuarantineDropCmd(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{Use: "drop NUMBER [--dry-run]", Short: "Remove one of them", Long: "Remove one of them. There is no other copy, here or at the relay."}
	c.Flags().BoolVar(&dry, "dry-run", false, dryRun)
	return a.leaf(c, 1, 1, []any{quarantineLine{}, quarantinePlan{}}, func(ctx context.Context, args []string) error {
		return runQuarantineDrop(ctx, a, args[0], dry)
	})
}

// quarantinePlan is --dry-run.
type quarantinePlan struct {
	Action string `json:"action"`
	Number int64  `json:"number"`
	Kind   string `json:"kind"`
	Bytes  int    `json:"bytes"`
}

// The kinds of what is in quarantine.
const (
	kindPacket  = "packet"  // given up: nothing about it was checked
	kindMessage = "message" // denied by the policy: its sender is known
)

// quarantineLine is one packet that was given up, or one message that the policy
// denies. What only one of them has is null for the other; what a packet states is
// untrusted, and null where it does not decode.
type quarantineLine struct {
	Number    int64   `json:"number"`
	Kind      string  `json:"kind"`
	State     string  `json:"state"`
	StreamID  *string `json:"stream_id"`
	Code      string  `json:"code"`
	At        int64   `json:"at"`
	Bytes     int     `json:"bytes"`
	MessageID *string `json:"message_id"`
	From      *string `json:"from"`
	PeerName  *string `json:"peer_name"`
	Type      *string `json:"type"`
	SentAt    *int64  `json:"sent_at"`
	// Damaged says that the stored body of a message does not open.
	Damaged   bool             `json:"damaged"`
	Untrusted quarantineStated `json:"untrusted"`
}

type quarantineStated struct {
	MessageID *string `json:"message_id"`
	From      *string `json:"from"`
	SentAt    *int64  `json:"sent_at"`
	ThreadID  *string `json:"thread_id"`
	// Body is what a message says, null for a packet and in a list.
	Body json.RawMessage `json:"body"`
}

func newQuarantineLine(q core.Quarantined) quarantineLine {
	return quarantineLine{
		Number: q.ID, Kind: kindPacket, State: core.StateQuarantined, StreamID: &q.StreamID, Code: q.Code, At: q.At, Bytes: len(q.Packet),
		Untrusted: quarantineStated{MessageID: orNull(q.MessageID), From: orNull(q.From), SentAt: timeOrNull(q.Timestamp)},
	}
}

func newWithheldLine(m core.Withheld) quarantineLine {
	return quarantineLine{
		Number: m.Number, Kind: kindMessage, State: core.StateQuarantined, Code: reasonDeniedByPolicy, At: m.ReceivedAt, Bytes: len(m.Body.Canonical()),
		MessageID: &m.MessageID, From: &m.From, PeerName: orNull(m.PeerName), Type: &m.Type, SentAt: &m.SentAt, Damaged: m.Damaged,
		Untrusted: quarantineStated{ThreadID: orNull(m.ThreadID)},
	}
}

func (r quarantineLine) text(p *page) {
	p.line("%s: gone from quarantine", p.number(r.Number))
}

type quarantineList []quarantineLine

func (r quarantineList) text(p *page) {
	p.head("NUMBER", "KIND", "SINCE", "CODE", "BYTES", "MESSAGE", "FROM")
	for _, q := range r {
		if q.Kind == kindMessage {
			p.row(p.number(q.Number), q.Kind, p.time(q.At), q.Code, strconv.Itoa(q.Bytes), p.messageID(*q.MessageID), p.peer(*q.From, q.PeerName))
			continue
		}
		p.row(p.number(q.Number), q.Kind, p.time(q.At), q.Code, strconv.Itoa(q.Bytes), orDash(q.Untrusted.MessageID)+" (unverified)", p.id(orDash(q.Untrusted.From))+" (unverified)")
	}
}

// quarantineDetail adds the packet itself, null for a message.
type quarantineDetail struct {
	quarantineLine
	Packet json.RawMessage `json:"packet"`
}

func (r quarantineDetail) text(p *page) {
	p.row("number", p.number(r.Number))
	p.row("kind", r.Kind)
	p.row("since", p.time(r.At))
	p.row("code", r.Code)
	if r.Kind == kindMessage {
		p.row("message", *r.MessageID)
		p.row("from", p.peerFull(*r.From, r.PeerName))
		p.row("type", clean(*r.Type, false))
		if r.Untrusted.ThreadID != nil {
			p.row("thread", clean(*r.Untrusted.ThreadID, false))
		}
		p.row("signed", p.time(*r.SentAt))
		if r.Damaged {
			p.row("body", damaged)
			return
		}
		p.row("body", string(cleanJSON(r.Untrusted.Body)))
		return
	}
	p.row("stream", clean(orDash(r.StreamID), false))
	p.row("message (unverified)", orDash(r.Untrusted.MessageID))
	p.row("from (unverified)", orDash(r.Untrusted.From))
	if r.Untrusted.SentAt != nil {
		p.row("signed (unverified)", p.time(*r.Untrusted.SentAt))
	}
	p.row("packet", string(cleanJSON(r.Packet)))
}

// quarantined returns all that is in quarantine, by number.
func (s *session) quarantined(ctx context.Context) (all []quarantineDetail, err error) {
	packets, err := s.Quarantine(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range packets {
		all = append(all, quarantineDetail{newQuarantineLine(q), q.Packet})
	}
	messages, err := s.Withheld(ctx)
	for _, m := range messages {
		line := newWithheldLine(m)
		line.Untrusted.Body = m.Body.Canonical()
		all = append(all, quarantineDetail{quarantineLine: line})
	}
	slices.SortFunc(all, func(a, b quarantineDetail) int { return cmp.Compare(a.Number, b.Number) })
	return all, err
}

// inQuarantine finds what has the number that a list shows.
func (s *session) inQuarantine(ctx context.Context, typed string) (quarantineDetail, error) {
	number, err := strconv.ParseInt(typed, 10, 64)
	if err != nil {
		return quarantineDetail{}, usagef("%q is no number of anything in quarantine: ace quarantine list shows them", typed)
	}
	all, err := s.quarantined(ctx)
	if err != nil {
		return quarantineDetail{}, err
	}
	for _, q := range all {
		if q.Number == number {
			return q, nil
		}
	}
	return quarantineDetail{}, hintf(fault.New(fault.InvalidArgument, "nothing in quarantine has the number %d", number), "ace quarantine list shows what there is")
}

func runQuarantineList(ctx context.Context, a *app, failEmpty bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := s.quarantined(ctx)
	if err != nil {
		return err
	}
	answer := quarantineList{}
	for _, q := range all {
		q.Untrusted.Body = nil
		answer = append(answer, q.quarantineLine)
	}
	return a.printList(answer, len(answer), failEmpty)
}

func runQuarantineShow(ctx context.Context, a *app, typed string) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	q, err := s.inQuarantine(ctx, typed)
	if err != nil {
		return err
	}
	return a.print(q)
}

func runQuarantineRelease(ctx context.Context, a *app, numbers []string) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return a.forEach(ctx, numbers, func(typed string) error {
		q, err := s.inQuarantine(ctx, typed)
		if err != nil {
			return err
		}
		if q.Kind != kindMessage {
			return hintf(fault.New(fault.InvalidArgument, "%d is a packet that was given up: it was never opened", q.Number), "ace packet open tries once more: ace quarantine show %d --jq .packet", q.Number)
		}
		m, err := s.Release(ctx, q.Number)
		if err != nil {
			return err
		}
		return a.print(newMessageAnswer(m))
	})
}

func runQuarantineDrop(ctx context.Context, a *app, typed string, dry bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	q, err := s.inQuarantine(ctx, typed)
	if err != nil {
		return err
	}
	if dry {
		return a.printJSON(quarantinePlan{"drop", q.Number, q.Kind, q.Bytes})
	}
	if err := a.confirm(ctx, "Remove the "+q.Kind+" "+typed+"? There is no other copy."); err != nil {
		return err
	}
	drop := s.DropQuarantined
	if q.Kind == kindMessage {
		drop = s.DropWithheld
	}
	if err := drop(ctx, q.Number); err != nil {
		return err
	}
	q.Untrusted.Body = nil
	return a.print(q.quarantineLine)
}
