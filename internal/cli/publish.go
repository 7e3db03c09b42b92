package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
)

func newPublishCmd(a *app) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "publish [--force]",
		Short: "Register at the home relay and publish descriptor and card",
		Long: `Register at the home relay when need be, and publish the descriptor and the
card when the relay lacks them, they have changed, or the descriptor has lived
half of its life.`,
	}
	c.Flags().BoolVar(&force, "force", false, "publish new ones in any case")
	return a.leaf(c, 0, 0, []any{publishedAnswer{}}, func(ctx context.Context, _ []string) error { return runPublish(ctx, a, force) })
}

// publishedAnswer says what a publication changed.
type publishedAnswer struct {
	ACEID               string  `json:"ace_id"`
	Relay               string  `json:"relay"`
	Registered          *string `json:"registered"` // null when no registration was needed
	Descriptor          bool    `json:"descriptor"`
	Card                bool    `json:"card"`
	DescriptorExpiresAt int64   `json:"descriptor_expires_at"`
	Handle              *string `json:"handle"`
}

func (r publishedAnswer) text(p *page) {
	if r.Registered != nil {
		p.line("registered at %s (%s)", r.Relay, *r.Registered)
	}
	if r.Descriptor {
		p.line("published the descriptor, valid until %s", formatTime(r.DescriptorExpiresAt, p.app.io.Now(), p.app.flags.time, p.app.flags.utc))
	}
	if r.Card {
		p.line("published the card")
	}
	if r.Registered == nil && !r.Descriptor && !r.Card {
		p.line("nothing to publish at %s", r.Relay)
	}
	if r.Handle != nil {
		p.line("reachable as %s", *r.Handle)
	}
}

func runPublish(ctx context.Context, a *app, force bool) error {
	if err := a.adoptRelay(); err != nil {
		return err
	}
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	answer, err := a.publish(ctx, s, force)
	if err != nil {
		return err
	}
	return a.print(answer)
}

// adoptRelay keeps the relay of the command line for an identity that has none.
func (a *app) adoptRelay() error {
	id, err := a.identity()
	if err != nil || id.settings.Relay != "" || a.flags.relay == "" {
		return err
	}
	if err := a.chooseRelay(&id.settings, id.name); err != nil {
		return err
	}
	return id.settings.write(id.store.Dir())
}

func (a *app) publish(ctx context.Context, s *session, force bool) (publishedAnswer, error) {
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	p, err := s.Publish(ctx, core.PublishOptions{Force: force})
	return publishedAnswer{
		ACEID: s.ACEID(), Relay: p.Relay, Registered: orNull(p.Registered), Descriptor: p.Descriptor,
		Card: p.Card, DescriptorExpiresAt: p.DescriptorExpires, Handle: orNull(p.Handle),
	}, err
}
