package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func newUnpublishCmd(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "unpublish",
		Short: "Unregister at the home relay",
		Long: `Unregister the identity at its home relay. The relay deletes what waits there for
the identity, its descriptor, its card and its blocks: nobody can reach it until
ace publish registers it again. Nothing else does: pull, listen, connect and block
fail until then, and maintain leaves the relay alone. The handle stays bound to the
identity for good. Nothing on this machine is removed.`,
	}
	c.Flags().BoolVar(&dry, "dry-run", false, dryRun)
	return a.leaf(c, 0, 0, []any{unpublishedAnswer{}, unpublishPlan{}}, func(ctx context.Context, _ []string) error {
		id, err := a.identity()
		if err != nil {
			return err
		}
		relay, err := a.homeRelay(id)
		if err != nil {
			return err
		}
		if dry {
			return a.printJSON(unpublishPlan{"unpublish", id.name, orNull(relay)})
		}
		if err := a.confirm(ctx, "Unregister "+id.name+" at "+relay+"? The relay deletes all that waits there for it."); err != nil {
			return withHint(err, "give --yes")
		}
		answer, err := a.unregister(ctx, id)
		if err != nil {
			return err
		}
		return a.print(answer)
	})
}

// unpublishPlan is --dry-run.
type unpublishPlan struct {
	Action string  `json:"action"`
	Name   string  `json:"name"`
	Relay  *string `json:"relay"`
}

// unpublishedAnswer says what a relay was asked to forget.
type unpublishedAnswer struct {
	ACEID string `json:"ace_id"`
	Relay string `json:"relay"`
	// WasRegistered is false when the relay did not know the identity.
	WasRegistered bool `json:"was_registered"`
}

func (r unpublishedAnswer) text(p *page) {
	if !r.WasRegistered {
		p.line("it was not registered at %s", r.Relay)
		return
	}
	p.line("unregistered at %s", r.Relay)
}

func (a *app) unregister(ctx context.Context, id *identity) (unpublishedAnswer, error) {
	s, err := a.openAs(ctx, id)
	if err != nil {
		return unpublishedAnswer{}, err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	was, err := s.Unregister(ctx)
	return unpublishedAnswer{s.ACEID(), s.relay, was}, err
}
