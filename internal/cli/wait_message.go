package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
)

type waitMessageOptions struct {
	from, messageType, thread, since string
	markRead, failEmpty              bool
}

func newWaitMessageCmd(a *app) *cobra.Command {
	var o waitMessageOptions
	c := &cobra.Command{
		Use:   "message [--from PEER] [--type TYPE] [flags]",
		Short: "Wait for a message",
		Long: `Wait for a message that is not marked as read, and print the oldest one. It may
have been in the inbox before; --since leaves out what is older. It stays unread,
and the next wait finds it again, unless --mark-read is given.`,
		Example: "  ace wait message --from bob --timeout 10m --mark-read --json",
	}
	f := c.Flags()
	f.StringVar(&o.from, "from", "", "only a message from this `PEER`")
	f.StringVar(&o.messageType, "type", "", "only a message of this `TYPE`")
	f.StringVar(&o.thread, "thread", "", "only a message of this `THREAD`")
	f.StringVar(&o.since, "since", "", "only a message received since this `TIME`: 2h, 7d, or an RFC 3339 time")
	f.BoolVar(&o.markRead, "mark-read", false, "mark the message as read")
	f.BoolVar(&o.failEmpty, "fail-empty", false, "exit with 3, not 22, when none has come in time")
	a.completeOption(c, "from", peerValues)
	a.completeOption(c, "thread", threadValues)
	return a.leaf(c, 0, 0, []any{messageAnswer{}}, func(ctx context.Context, _ []string) error { return runWaitMessage(ctx, a, o) })
}

func runWaitMessage(ctx context.Context, a *app, o waitMessageOptions) error {
	since, err := parseSince(o.since, a.io.Now())
	if err != nil {
		return err
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	wanted := core.InboxFilter{Type: o.messageType, ThreadID: o.thread, Unhandled: true, Since: since}
	if o.from != "" {
		if wanted.From, err = s.other(ctx, o.from); err != nil {
			return err
		}
	}
	var m core.Message
	err = s.await(ctx, func(ctx context.Context) (found bool, err error) {
		m, found, err = s.NextMessage(ctx, wanted)
		return found, err
	})
	if o.failEmpty && errors.Is(err, errDeadline) {
		return &statusError{exitEmpty, codeEmpty, errors.New("no message has come")}
	}
	if err != nil {
		return whenDeadline(err, "no message has come: wait longer with --timeout")
	}
	if err := a.print(newMessageAnswer(m)); err != nil || !o.markRead {
		return err
	}
	return s.MarkHandled(ctx, m.From, m.MessageID)
}
