package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
)

func newOutboxApproveCmd(a *app) *cobra.Command {
	var all, noAttempt bool
	c := &cobra.Command{
		Use:               "approve MESSAGE_ID... | --all",
		ValidArgsFunction: a.complete(-1, sentValues),
		Short:             "Let messages go that wait for your approval",
		Long: `Let messages go that wait for your approval (ace help config tells of the policy
that asks for it), and try once to relay them. Each is queued as of now, behind
the others to its recipient, and has to fit its thread as it is now. The start of
a message ID is enough, at least 8 characters.`,
	}
	c.Flags().BoolVar(&all, "all", false, "every message that waits for your approval")
	c.Flags().BoolVar(&noAttempt, "no-attempt", false, "queue only")
	return a.leaf(c, 0, -1, []any{outgoingAnswer{}, targetError{}}, func(ctx context.Context, args []string) error {
		return runOutboxApprove(ctx, a, args, all, noAttempt)
	})
}

func newOutboxDenyCmd(a *app) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:               "deny MESSAGE_ID... | --all",
		ValidArgsFunction: a.complete(-1, sentValues),
		Short:             "Reject messages that wait for your approval",
		Long: `Reject messages that wait for your approval. They end as rejected with the reason
denied_by_owner, and nothing of them ever left. One about which you do not decide
in time ends so too, with the reason approval_expired.`,
	}
	c.Flags().BoolVar(&all, "all", false, "every message that waits for your approval")
	return a.leaf(c, 0, -1, []any{outgoingAnswer{}, targetError{}}, func(ctx context.Context, args []string) error {
		return runOutboxDeny(ctx, a, args, all)
	})
}

func runOutboxApprove(ctx context.Context, a *app, ids []string, all, noAttempt bool) error {
	open := a.open
	if noAttempt {
		open = a.openStore
	}
	s, err := open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	if ids, err = s.held(ctx, ids, all, "Approve all of them?"); err != nil {
		return err
	}
	return a.forEach(ctx, ids, func(id string) error {
		out, err := s.outgoing(ctx, id)
		if err != nil {
			return err
		}
		approved, err := s.Approve(ctx, out.MessageID)
		if err != nil {
			return undecided(err, out)
		}
		return a.attemptAndWait(ctx, s, approved, sendOptions{noAttempt: noAttempt})
	})
}

func runOutboxDeny(ctx context.Context, a *app, ids []string, all bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if ids, err = s.held(ctx, ids, all, "Reject all of them?"); err != nil {
		return err
	}
	return a.forEach(ctx, ids, func(id string) error {
		out, err := s.outgoing(ctx, id)
		if err != nil {
			return err
		}
		denied, err := s.Deny(ctx, out.MessageID)
		if err != nil {
			return undecided(err, out)
		}
		return a.print(newOutgoingAnswer(denied))
	})
}

// undecided says of a message about which there is nothing to decide what has
// become of it.
func undecided(err error, out core.Outgoing) error {
	if out.State == core.StatePendingApproval {
		return err
	}
	return hintf(err, "it is %s: ace outbox show %s", out.State, out.MessageID)
}

// held returns the IDs of the messages to decide about: those named, or with all
// of them those that are held, once the owner has said yes.
func (s *session) held(ctx context.Context, ids []string, all bool, question string) ([]string, error) {
	if all == (len(ids) > 0) {
		return nil, usagef("name messages, or all of them with --all")
	}
	if !all {
		return ids, nil
	}
	entries, err := s.Outbox(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.State == core.StatePendingApproval {
			ids = append(ids, e.MessageID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return ids, s.app.confirm(ctx, count(len(ids), "message")+" waiting for your approval. "+question)
}
