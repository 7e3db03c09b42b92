package cli

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

func newQuarantineCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "quarantine", Short: "Look into packets that could not be processed"},
		newQuarantineListCmd(a), newQuarantineShowCmd(a), newQuarantineDropCmd(a))
}

func newQuarantineListCmd(a *app) *cobra.Command {
	var failEmpty bool
	c := &cobra.Command{
		Use:   "list [--fail-empty]",
		Short: "List the packets that were given up",
		Long: `List the packets that were given up. A packet that cannot be processed for now is
fetched again; after three times without success it is kept here, so that those
behind it get through. The newest 100 are kept.`,
	}
	c.Flags().BoolVar(&failEmpty, "fail-empty", false, "exit with 3 when there is none")
	return a.leaf(c, 0, 0, []any{quarantineList{}}, func(ctx context.Context, _ []string) error {
		return runQuarantineList(ctx, a, failEmpty)
	})
}

func newQuarantineShowCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "show NUMBER", Short: "Show a packet that was given up", Long: "Show a packet that was given up, as it came: encrypted, and with nothing about it\nchecked."}
	return a.leaf(c, 1, 1, []any{quarantineDetail{}}, func(ctx context.Context, args []string) error {
		return runQuarantineShow(ctx, a, args[0])
	})
}

func newQuarantineDropCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "drop NUMBER", Short: "Remove a packet that was given up", Long: "Remove a packet that was given up. The relay has no other copy."}
	return a.leaf(c, 1, 1, []any{quarantineLine{}}, func(ctx context.Context, args []string) error {
		return runQuarantineDrop(ctx, a, args[0])
	})
}

// quarantineLine is one packet that was given up. What the packet states is
// null where it does not decode.
type quarantineLine struct {
	Number    int64            `json:"number"`
	StreamID  string           `json:"stream_id"`
	Code      string           `json:"code"`
	At        int64            `json:"at"`
	Bytes     int              `json:"bytes"`
	Untrusted quarantineStated `json:"untrusted"`
}

type quarantineStated struct {
	MessageID *string `json:"message_id"`
	From      *string `json:"from"`
	SentAt    *int64  `json:"sent_at"`
}

func newQuarantineLine(q core.Quarantined) quarantineLine {
	return quarantineLine{
		Number: q.ID, StreamID: q.StreamID, Code: q.Code, At: q.At, Bytes: len(q.Packet),
		Untrusted: quarantineStated{orNull(q.MessageID), orNull(q.From), timeOrNull(q.Timestamp)},
	}
}

func (r quarantineLine) text(p *page) {
	p.line("%s: gone from quarantine", p.number(r.Number))
}

type quarantineList []quarantineLine

func (r quarantineList) text(p *page) {
	p.head("NUMBER", "GIVEN UP", "CODE", "BYTES", "MESSAGE (unverified)", "FROM (unverified)")
	for _, q := range r {
		p.row(p.number(q.Number), p.time(q.At), q.Code, strconv.Itoa(q.Bytes), orDash(q.Untrusted.MessageID), p.id(orDash(q.Untrusted.From)))
	}
}

// quarantineDetail adds the packet itself.
type quarantineDetail struct {
	quarantineLine
	Packet json.RawMessage `json:"packet"`
}

func (r quarantineDetail) text(p *page) {
	p.row("number", p.number(r.Number))
	p.row("given up", p.time(r.At))
	p.row("code", r.Code)
	p.row("stream", clean(r.StreamID, false))
	p.row("message (unverified)", orDash(r.Untrusted.MessageID))
	p.row("from (unverified)", orDash(r.Untrusted.From))
	if r.Untrusted.SentAt != nil {
		p.row("signed (unverified)", p.time(*r.Untrusted.SentAt))
	}
	p.row("packet", string(cleanJSON(r.Packet)))
}

func runQuarantineList(ctx context.Context, a *app, failEmpty bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	kept, err := s.Quarantine(ctx)
	if err != nil {
		return err
	}
	answer := quarantineList{}
	for _, q := range kept {
		answer = append(answer, newQuarantineLine(q))
	}
	return a.printList(answer, len(answer), failEmpty)
}

// quarantined finds a packet by the number that a list shows.
func (s *session) quarantined(ctx context.Context, typed string) (core.Quarantined, error) {
	number, err := strconv.ParseInt(typed, 10, 64)
	if err != nil {
		return core.Quarantined{}, usagef("%q is no number of a packet in quarantine: ace quarantine list shows them", typed)
	}
	kept, err := s.Quarantine(ctx)
	if err != nil {
		return core.Quarantined{}, err
	}
	for _, q := range kept {
		if q.ID == number {
			return q, nil
		}
	}
	return core.Quarantined{}, hintf(fault.New(fault.InvalidArgument, "nothing in quarantine has the number %d", number), "ace quarantine list shows what there is")
}

func runQuarantineShow(ctx context.Context, a *app, typed string) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	q, err := s.quarantined(ctx, typed)
	if err != nil {
		return err
	}
	return a.print(quarantineDetail{newQuarantineLine(q), q.Packet})
}

func runQuarantineDrop(ctx context.Context, a *app, typed string) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	q, err := s.quarantined(ctx, typed)
	if err != nil {
		return err
	}
	if err := a.confirm(ctx, "Remove the packet "+typed+"? There is no other copy."); err != nil {
		return err
	}
	if err := s.DropQuarantined(ctx, q.ID); err != nil {
		return err
	}
	return a.print(newQuarantineLine(q))
}
