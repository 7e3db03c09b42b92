package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
)

func newPullCmd(a *app) *cobra.Command {
	var most int
	c := &cobra.Command{
		Use:   "pull [--max N]",
		Short: "Fetch what waits at the relay, then end",
		Long: `Fetch what waits at the relay, answer it with receipts, and make the attempts
that are due of your own messages. Then end: for cron.`,
	}
	c.Flags().IntVar(&most, "max", 0, "fetch at most `N` entries, 0 for all")
	return a.leaf(c, 0, 0, []any{pullAnswer{}}, func(ctx context.Context, _ []string) error { return runPull(ctx, a, most) })
}

// pullAnswer counts what a drain of the inbox did.
type pullAnswer struct {
	Fetched         int  `json:"fetched"`
	Messages        int  `json:"messages"`
	Duplicates      int  `json:"duplicates"`
	Receipts        int  `json:"receipts"`
	ContactRequests int  `json:"contact_requests"`
	ContactAnswers  int  `json:"contact_answers"`
	Dropped         int  `json:"dropped"`
	Rejected        int  `json:"rejected"`
	Quarantined     int  `json:"quarantined"`
	Relayed         int  `json:"relayed"`
	Held            bool `json:"held"`
	Retrying        bool `json:"retrying"`
}

func (r pullAnswer) text(p *page) {
	var news []string
	for _, c := range []struct {
		n    int
		what string
	}{{r.Messages, "message"}, {r.Receipts, "receipt"}, {r.ContactRequests, "contact request"}, {r.ContactAnswers, "contact answer"}} {
		if c.n > 0 {
			news = append(news, count(c.n, c.what))
		}
	}
	if news == nil {
		news = []string{"nothing new"}
	}
	p.line("%s", strings.Join(news, ", "))
	if refused := r.Rejected + r.Dropped + r.Quarantined; refused > 0 {
		p.line("%s not taken: %d rejected, %d dropped, %d set aside", count(refused, "packet"), r.Rejected, r.Dropped, r.Quarantined)
	}
	if r.Relayed > 0 {
		p.line("%s relayed", count(r.Relayed, "queued message"))
	}
	if r.Held {
		p.line("stopped: no room for more messages")
	}
	if r.Retrying {
		p.line("stopped at a packet that has to be fetched again")
	}
}

func runPull(ctx context.Context, a *app, most int) error {
	if most < 0 {
		return usagef("--max is not negative")
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	answers := 0
	r, err := s.Pull(ctx, most, func(e core.Event) {
		a.tellEvent(e)
		if e.Contact != nil {
			answers++
		}
	})
	if err != nil {
		return err
	}
	relayed, err := s.RetryDue(ctx)
	if err != nil {
		return err
	}
	return a.print(pullAnswer{
		Fetched: r.Fetched, Messages: r.Delivered, Duplicates: r.Duplicates, Receipts: r.Receipts,
		ContactRequests: r.ContactRequests, ContactAnswers: answers, Dropped: r.Dropped, Rejected: r.Rejected, Quarantined: r.Quarantined,
		Relayed: relayed, Held: r.Held, Retrying: r.Retrying,
	})
}

// tellEvent tells on standard error, with --verbose, what was received.
func (a *app) tellEvent(e core.Event) {
	if a.flags.verbose == 0 {
		return
	}
	switch {
	case e.Message != nil:
		a.say("message %s from %s", e.Message.MessageID, e.Message.From)
	case e.Receipt != nil:
		a.say("receipt for %s: %s", e.Receipt.MessageID, e.Receipt.Outcome)
	case e.Request != nil:
		a.say("contact request from %s", e.Request.From)
	case e.Contact != nil:
		a.say("contact %s: %s", e.Contact.ACEID, e.Contact.State)
	case e.Dropped != nil:
		a.say("dropped %s from %s: %s", clean(e.Dropped.MessageID, false), clean(e.Dropped.From, false), e.Dropped.Code)
	}
}
