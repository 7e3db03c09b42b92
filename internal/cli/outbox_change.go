package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

func newOutboxRetryCmd(a *app) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:               "retry MESSAGE_ID... | --all",
		ValidArgsFunction: a.complete(-1, sentValues),
		Short:             "Attempt messages now that wait for their next attempt",
		Long: `Attempt messages now, whenever their next attempt would be due. The start of a
message ID is enough, at least 8 characters. A message that has its outcome
stays as it is.`,
	}
	c.Flags().BoolVar(&all, "all", false, "every message without an outcome")
	return a.leaf(c, 0, -1, []any{outgoingAnswer{}, targetError{}}, func(ctx context.Context, args []string) error {
		return runOutboxRetry(ctx, a, args, all)
	})
}

func newOutboxAbandonCmd(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:               "abandon MESSAGE_ID... [--dry-run]",
		ValidArgsFunction: a.complete(-1, sentValues),
		Short:             "Stop attempting messages",
		Long: `Stop attempting messages for good. A relay may have taken one already: whether
it arrives is then unknown, unless its receipt comes. A thread that it kept busy
is free again. One that waits for your approval is denied.`,
	}
	c.Flags().BoolVar(&dry, "dry-run", false, dryRun)
	return a.leaf(c, 1, -1, []any{outgoingAnswer{}, abandonPlan{}, targetError{}}, func(ctx context.Context, args []string) error {
		return runOutboxAbandon(ctx, a, args, dry)
	})
}

// abandonPlan is --dry-run.
type abandonPlan struct {
	Action    string `json:"action"` // abandon, deny for a message that waits for its owner, or none
	MessageID string `json:"message_id"`
	To        string `json:"to"`
	State     string `json:"state"` // relayed: it may still arrive
}

func newAbandonPlan(out core.Outgoing) abandonPlan {
	plan := abandonPlan{"abandon", out.MessageID, out.To, out.State}
	switch {
	case out.SettledAt != 0:
		plan.Action = "none"
	case out.State == core.StatePendingApproval:
		plan.Action = "deny"
	}
	return plan
}

func newOutboxPruneCmd(a *app) *cobra.Command {
	var age time.Duration
	c := &cobra.Command{
		Use:   "prune [--older-than D]",
		Short: "Remove messages that ended long ago",
		Long: `Remove messages whose outcome is at least seven days old, or as old as
--older-than says. Upkeep removes them after 30 days by itself. A message without
an outcome is never removed: ace outbox abandon gives it one.`,
	}
	durationVar(c.Flags(), &age, "older-than", wire.OfflineWindowSeconds*time.Second, "how `LONG` ago the outcome was, at least 7d")
	return a.leaf(c, 0, 0, []any{prunedAnswer{}}, func(ctx context.Context, _ []string) error {
		return runOutboxPrune(ctx, a, age)
	})
}

// prunedAnswer says how many messages were removed.
type prunedAnswer struct {
	Removed int64 `json:"removed"`
}

func (r prunedAnswer) text(p *page) { p.line("removed %s", count(int(r.Removed), "message")) }

func runOutboxPrune(ctx context.Context, a *app, age time.Duration) error {
	if age < wire.OfflineWindowSeconds*time.Second {
		return usagef("--older-than is at least %dd", wire.OfflineWindowSeconds/86400)
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	removed, err := s.PruneOutbox(ctx, int64(age/time.Second))
	if err != nil {
		return err
	}
	return a.print(prunedAnswer{removed})
}

func runOutboxRetry(ctx context.Context, a *app, ids []string, all bool) error {
	if all == (len(ids) > 0) {
		return usagef("name messages, or all of them with --all")
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	if all {
		if ids, err = s.unsettled(ctx); err != nil {
			return err
		}
	}
	return a.forEach(ctx, ids, func(id string) error {
		out, err := s.outgoing(ctx, id)
		if err != nil {
			return err
		}
		if out.State == core.StatePendingApproval {
			return hintf(fault.New(fault.NotPermitted, "message %s waits for your approval", out.MessageID), "ace outbox approve %s lets it go", out.MessageID)
		}
		if out.SettledAt == 0 {
			if out, err = s.attempt(ctx, out, s.Attempt); err != nil {
				return hintf(err, "the message stays queued: ace outbox show %s", out.MessageID)
			}
		}
		return a.print(newOutgoingAnswer(out))
	})
}

// unsettled returns the IDs of the messages without an outcome, oldest first.
func (s *session) unsettled(ctx context.Context) (ids []string, err error) {
	entries, err := s.Outbox(ctx)
	for _, e := range entries {
		if e.SettledAt == 0 && e.State != core.StatePendingApproval {
			ids = append(ids, e.MessageID)
		}
	}
	return ids, err
}

func runOutboxAbandon(ctx context.Context, a *app, ids []string, dry bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return a.forEach(ctx, ids, func(id string) error {
		out, err := s.outgoing(ctx, id)
		if err != nil {
			return err
		}
		if dry {
			return a.printJSON(newAbandonPlan(out))
		}
		if out.SettledAt != 0 {
			return a.print(newOutgoingAnswer(out))
		}
		if err := a.confirm(ctx, "Stop attempting "+out.MessageID+" ("+abandonRisk(out)+")?"); err != nil {
			return err
		}
		if out, err = s.Abandon(ctx, out.MessageID); err != nil {
			return err
		}
		return a.print(newOutgoingAnswer(out))
	})
}

// abandonRisk says what is known of a message that is about to be abandoned.
func abandonRisk(out core.Outgoing) string {
	if out.State == core.StatePendingApproval {
		return "it waits for your approval"
	}
	if out.State == core.StateRelayed {
		return "a relay has it: it may still arrive"
	}
	return "no relay has taken it"
}
