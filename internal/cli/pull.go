package cli

import (
	"context"
	"errors"
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
	Fetched         int `json:"fetched"`
	Messages        int `json:"messages"`
	Duplicates      int `json:"duplicates"`
	Receipts        int `json:"receipts"`
	ContactRequests int `json:"contact_requests"`
	// Contacts are those that came about, or were declined.
	Contacts    []contactAnswer `json:"contacts"`
	Dropped     int             `json:"dropped"`
	Rejected    int             `json:"rejected"`
	Quarantined int             `json:"quarantined"`
	Withheld    int             `json:"withheld"` // messages, by the policy
	Relayed     int             `json:"relayed"`
	Held        bool            `json:"held"`
	Retrying    bool            `json:"retrying"`
}

func (r pullAnswer) text(p *page) {
	var news []string
	for _, c := range []struct {
		n    int
		what string
	}{{r.Messages, "message"}, {r.Receipts, "receipt"}, {r.ContactRequests, "contact request"}, {len(r.Contacts), "contact answer"}} {
		if c.n > 0 {
			news = append(news, count(c.n, c.what))
		}
	}
	if news == nil {
		news = []string{"nothing new"}
	}
	p.line("%s", strings.Join(news, ", "))
	for _, c := range r.Contacts {
		p.line("%s", c.news(p))
	}
	if r.ContactRequests > 0 {
		p.line("ace contact requests shows who asks")
	}
	if refused := r.Rejected + r.Dropped + r.Quarantined; refused > 0 {
		p.line("%s not taken: %d rejected, %d dropped, %d set aside", count(refused, "packet"), r.Rejected, r.Dropped, r.Quarantined)
	}
	if r.Withheld > 0 {
		p.line("%s set aside by your policy: ace quarantine list", count(r.Withheld, "message"))
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
	ctx, cancel := a.givenDeadline(ctx)
	defer cancel()
	contacts, withheld := []contactAnswer{}, 0
	r, err := s.Pull(ctx, most, func(e core.Event) {
		a.tellEvent(e)
		if e.Contact != nil {
			contacts = append(contacts, newContactAnswer(*e.Contact))
		}
		if e.Withheld != nil {
			withheld++
		}
	})
	if err != nil {
		return pullEnded(ctx, err)
	}
	relayed, err := s.RetryDue(ctx)
	if err != nil {
		return pullEnded(ctx, err)
	}
	return a.print(pullAnswer{
		Fetched: r.Fetched, Messages: r.Delivered, Duplicates: r.Duplicates, Receipts: r.Receipts,
		ContactRequests: r.ContactRequests, Contacts: contacts, Dropped: r.Dropped, Rejected: r.Rejected, Quarantined: r.Quarantined, Withheld: withheld,
		Relayed: relayed, Held: r.Held, Retrying: r.Retrying,
	})
}

// pullEnded says what became of a pull that --timeout ended.
func pullEnded(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errDeadline) {
		return hintf(errDeadline, "what was fetched is stored, and the rest waits at the relay: run ace pull again")
	}
	return err
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
		a.say("contact %s: %s", e.Contact.ACEID, newContactAnswer(*e.Contact).State)
	case e.Withheld != nil:
		a.say("message %s from %s set aside by the policy", e.Withheld.MessageID, e.Withheld.From)
	case e.Dropped != nil:
		a.say("dropped %s from %s: %s", clean(e.Dropped.MessageID, false), clean(e.Dropped.From, false), e.Dropped.Code)
	}
}
