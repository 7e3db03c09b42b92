package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
)

func newMaintainCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "maintain",
		Short: "Do what is due to stay in reach, then end",
		Long: `Do what is due to stay in reach, then end: publish what has changed or is about to
end, register blocks that the relay has not confirmed, send fresh permits after a
new signing key, attempt queued messages, and remove what has ended. A step that
fails keeps no other from being made; the next run tries it again.

ace listen does the same at its start and at least every hour. Without it, run
this from cron once an hour, beside ace pull.`,
	}
	return a.leaf(c, 0, 0, []any{maintainAnswer{}}, func(ctx context.Context, _ []string) error { return runMaintain(ctx, a) })
}

// maintainAnswer says what one pass of upkeep did.
type maintainAnswer struct {
	Published           bool    `json:"published"`  // a descriptor or a card record
	Registered          *string `json:"registered"` // null when no registration was needed
	Descriptor          bool    `json:"descriptor"`
	Card                bool    `json:"card"`
	DescriptorExpiresAt *int64  `json:"descriptor_expires_at"`
	KeyExpiresAt        *int64  `json:"key_expires_at"` // null for never
	BlocksSynced        int     `json:"blocks_synced"`
	PermitsSent         int     `json:"permits_sent"`
	Retried             int     `json:"retried"` // queued messages that a relay took
	Pruned              int64   `json:"pruned"`
	// Withdrawn says that ace unpublish keeps all from being done at the relay.
	Withdrawn bool          `json:"withdrawn"`
	Errors    []upkeepError `json:"errors"`
}

// upkeepError is a step that failed. Peer is whom it was about, or null.
type upkeepError struct {
	Step  string  `json:"step"`
	Peer  *string `json:"peer"`
	Error report  `json:"error"`
}

func (a *app) newMaintainAnswer(u core.UpkeepReport) maintainAnswer {
	r := maintainAnswer{
		Published: u.Published.Descriptor || u.Published.Card, Registered: orNull(u.Published.Registered),
		Descriptor: u.Published.Descriptor, Card: u.Published.Card, DescriptorExpiresAt: timeOrNull(u.Published.DescriptorExpires), KeyExpiresAt: timeOrNull(u.KeyEnds),
		BlocksSynced: u.Blocks, PermitsSent: u.Permits, Retried: u.Relayed, Pruned: u.Pruned, Withdrawn: u.Withdrawn, Errors: []upkeepError{},
	}
	for _, f := range u.Failures {
		r.Errors = append(r.Errors, upkeepError{f.Step, orNull(f.Peer), newReport(f.Err, a.command)})
	}
	return r
}

// news tells in words what was done, nothing when there was nothing to do.
func (r maintainAnswer) news() (news []string) {
	if r.Withdrawn {
		news = append(news, "left the relay alone: the identity is unregistered until ace publish")
	}
	if r.Registered != nil {
		news = append(news, "registered at the relay ("+*r.Registered+")")
	}
	if r.Descriptor {
		news = append(news, "published the descriptor")
	}
	if r.Card {
		news = append(news, "published the card")
	}
	for _, c := range []struct {
		n         int
		what, did string
	}{
		{r.BlocksSynced, "block decision", "registered at the relay"}, {r.PermitsSent, "fresh permit", "sent"},
		{r.Retried, "queued message", "relayed"},
	} {
		if c.n > 0 {
			news = append(news, count(c.n, c.what)+" "+c.did)
		}
	}
	return news
}

func (r maintainAnswer) text(p *page) {
	news := r.news()
	for _, line := range news {
		p.line("%s", line)
	}
	if news == nil && len(r.Errors) == 0 {
		p.line("nothing was due")
	}
	last := ""
	for _, e := range r.Errors {
		p.line("%s", e.line(p))
		if e.Error.Hint != "" && e.Error.Hint != last {
			p.line("  hint: %s", e.Error.Hint)
		}
		last = e.Error.Hint
	}
}

// line tells people of a step that failed.
func (e upkeepError) line(p *page) string {
	about := ""
	if e.Peer != nil {
		about = " for " + p.id(*e.Peer)
	}
	return fmt.Sprintf("failed: %s%s: %s (%s)", e.Step, about, e.Error.Message, e.Error.Code)
}

func runMaintain(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.givenDeadline(ctx)
	defer cancel()
	u, err := s.Upkeep(ctx)
	if err != nil {
		if errors.Is(context.Cause(ctx), errDeadline) {
			return hintf(errDeadline, "what was done stands: run ace maintain again for the rest")
		}
		return err
	}
	if err := a.print(a.newMaintainAnswer(u)); err != nil {
		return err
	}
	worst := exitOK
	for _, f := range u.Failures {
		if status := exitOf(f.Err); worse(status, worst) {
			worst = status
		}
	}
	if worst == exitOK {
		return nil
	}
	return &reported{worst}
}
