package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

func newReadCmd(a *app) *cobra.Command {
	var o readOptions
	c := &cobra.Command{
		Use:               "read MESSAGE_ID... [--from PEER] [--raw] [--mark-read]",
		ValidArgsFunction: a.complete(-1, receivedValues),
		Short:             "Show received messages",
		Long: `Show received messages. The start of a message ID is enough, at least 8
characters. With several, --json answers with one line for each.`,
	}
	c.Flags().StringVar(&o.from, "from", "", "only messages of this `PEER`: two senders may have chosen the same ID")
	a.completeOption(c, "from", peerValues)
	c.Flags().BoolVar(&o.raw, "raw", false, "print the body as JSON and nothing else")
	c.Flags().BoolVar(&o.markRead, "mark-read", false, "mark the messages as read")
	return a.leaf(c, 1, -1, []any{messageAnswer{}, targetError{}}, func(ctx context.Context, args []string) error {
		return runRead(ctx, a, args, o)
	})
}

type readOptions struct {
	from          string
	raw, markRead bool
}

func (r messageAnswer) text(p *page) {
	p.row("message", r.MessageID)
	p.row("from", p.peerFull(r.From, r.PeerName))
	p.row("type", clean(r.Type, false))
	if id := r.Untrusted.ThreadID; id != nil {
		p.row("thread", clean(*id, false))
	}
	p.row("signed", p.time(r.SentAt))
	p.row("received", p.time(r.ReceivedAt))
	p.line("")
	for line := range strings.Lines(clean(r.preview(), true)) {
		p.line("  %s", strings.TrimSuffix(line, "\n")) // no line of the body can pass for one of ours
	}
}

// rawBody prints the body of a message alone.
type rawBody struct{ messageAnswer }

func (r rawBody) text(p *page) { p.line("%s", cleanJSON(r.Untrusted.Body)) }

func runRead(ctx context.Context, a *app, ids []string, o readOptions) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	from := ""
	if o.from != "" {
		if from, err = s.peer(ctx, o.from); err != nil {
			return err
		}
	}
	return a.forEach(ctx, ids, func(id string) error {
		m, err := s.Message(ctx, id, from)
		if err != nil {
			return withHint(err, "ace inbox list shows the messages; --from PEER names a sender")
		}
		var answer result = newMessageAnswer(m)
		if o.raw {
			answer = rawBody{newMessageAnswer(m)}
		}
		if err := a.print(answer); err != nil || !o.markRead {
			return err
		}
		return s.MarkHandled(ctx, m.From, m.MessageID)
	})
}
