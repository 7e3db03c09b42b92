package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func newAckCmd(a *app) *cobra.Command {
	var o ackOptions
	c := &cobra.Command{
		Use:               "ack MESSAGE_ID... | --all [--from PEER]",
		ValidArgsFunction: a.complete(-1, receivedValues),
		Short:             "Mark received messages as handled",
		Long: `Mark received messages as handled, which is the same as read: no handler of ace
listen --exec gets them any more, and they make room for others. The mark is
yours alone; the sender and the relay hear nothing of it. ace unack takes it away.
The start of a message ID is enough, at least 8 characters.`,
		Example: "  ace inbox list --unhandled --json | ./handle && ace ack --all",
	}
	o.addFlags(a, c)
	c.Flags().BoolVar(&o.all, "all", false, "every message that has no mark")
	return a.leaf(c, 0, -1, []any{ackAnswer{}, ackAllAnswer{}, targetError{}}, func(ctx context.Context, args []string) error {
		return runAck(ctx, a, args, o)
	})
}

func newUnackCmd(a *app) *cobra.Command {
	var o ackOptions
	c := &cobra.Command{
		Use:               "unack MESSAGE_ID... [--from PEER]",
		ValidArgsFunction: a.complete(-1, receivedValues),
		Short:             "Take the mark away that messages are handled",
		Long: `Take the mark away that messages are handled: they then count as new. A handler
of ace listen --exec gets them again, also those that it has given up, and counts
its attempts from the beginning.`,
	}
	o.addFlags(a, c)
	return a.leaf(c, 1, -1, []any{ackAnswer{}, targetError{}}, func(ctx context.Context, args []string) error {
		return runUnack(ctx, a, args, o)
	})
}

type ackOptions struct {
	all  bool
	from string
}

func (o *ackOptions) addFlags(a *app, c *cobra.Command) {
	c.Flags().StringVar(&o.from, "from", "", "only messages of this `PEER`: two senders may have chosen the same ID")
	a.completeOption(c, "from", peerValues)
}

// ackAnswer is a message with its mark. Handled is what ace inbox list calls read.
type ackAnswer struct {
	MessageID string `json:"message_id"`
	From      string `json:"from"`
	Handled   bool   `json:"handled"`
}

func (r ackAnswer) text(p *page) {
	state := "new"
	if r.Handled {
		state = "handled"
	}
	p.row(p.messageID(r.MessageID), p.id(r.From), state)
}

// ackAllAnswer counts the messages that were marked.
type ackAllAnswer struct {
	Marked int `json:"marked"`
}

func (r ackAllAnswer) text(p *page) { p.line("marked %s", count(r.Marked, "message")) }

func runAck(ctx context.Context, a *app, ids []string, o ackOptions) error {
	if o.all == (len(ids) > 0) {
		return usagef("name messages, or all of them with --all")
	}
	s, from, err := o.open(ctx, a)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.all {
		n, err := s.MarkAllHandled(ctx, from)
		if err != nil {
			return err
		}
		return a.print(ackAllAnswer{int(n)})
	}
	return s.mark(ctx, ids, from, true, s.MarkHandled)
}

func runUnack(ctx context.Context, a *app, ids []string, o ackOptions) error {
	s, from, err := o.open(ctx, a)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.mark(ctx, ids, from, false, s.UnmarkHandled)
}

// open opens the identity and finds the sender that was named.
func (o ackOptions) open(ctx context.Context, a *app) (s *session, from string, err error) {
	if s, err = a.openStore(ctx); err != nil || o.from == "" {
		return s, "", err
	}
	if from, err = s.peer(ctx, o.from); err != nil {
		s.Close()
		return nil, "", err
	}
	return s, from, nil
}

// mark sets or takes away the mark of messages.
func (s *session) mark(ctx context.Context, ids []string, from string, handled bool, set func(ctx context.Context, from, messageID string) error) error {
	return s.app.forEach(ctx, ids, func(id string) error {
		m, err := s.FindMessage(ctx, id, from)
		if err != nil {
			return withHint(err, "ace inbox list shows the messages; --from PEER names a sender")
		}
		if err := set(ctx, m.From, m.MessageID); err != nil {
			return err
		}
		return s.app.print(ackAnswer{m.MessageID, m.From, handled})
	})
}
