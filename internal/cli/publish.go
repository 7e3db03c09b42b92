package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/relayapi"
)

func newPublishCmd(a *app) *cobra.Command {
	var force bool
	var handle string
	c := &cobra.Command{
		Use:   "publish [--force] [--handle NAME]",
		Short: "Register at the home relay and publish descriptor and card",
		Long: `Register at the home relay when need be, and publish the descriptor and the
card when the relay lacks them, they have changed, or the descriptor has lived
half of its life.`,
	}
	c.Flags().BoolVar(&force, "force", false, "publish new ones in any case")
	c.Flags().StringVar(&handle, "handle", "", "claim this `NAME` at the relay, for good, where none is yet")
	return a.leaf(c, 0, 0, []any{publishedAnswer{}}, func(ctx context.Context, _ []string) error {
		return runPublish(ctx, a, force, handle)
	})
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

func runPublish(ctx context.Context, a *app, force bool, handle string) error {
	id, err := a.identity()
	if err != nil {
		return err
	}
	before := id.settings
	changed, err := a.adopt(ctx, id, handle)
	if err != nil {
		return err
	}
	s, err := a.openSettled(ctx, id, false)
	if err != nil {
		return err
	}
	defer s.Close()
	answer, err := a.publish(ctx, s, force)
	if err != nil && before.Handle != "" && before.Handle != id.settings.Handle {
		return withHint(err, "a handle is for good: %s cannot be given up once it is claimed", handleAddress(before.Handle, s.relay))
	}
	if err != nil {
		return err
	}
	if changed {
		new := id.settings
		err := a.changeSettings(id, func(s *settings) error {
			s.Relay, s.Dev, s.FollowDev, s.Handle = new.Relay, new.Dev, new.FollowDev, new.Handle
			return nil
		})
		if err != nil {
			return err
		}
	}
	return a.print(answer)
}

// adopt takes the relay of the command line for an identity that has none, and the
// handle. They are kept once they have been published.
func (a *app) adopt(ctx context.Context, id *identity, handle string) (changed bool, err error) {
	s := &id.settings
	if s.Relay == "" && a.flags.relay != "" {
		if err := a.chooseRelay(ctx, s, id.name); err != nil {
			return false, err
		}
		changed = true
	}
	if handle == "" || handle == s.Handle {
		return changed, nil
	}
	s.Handle = handle
	return true, a.checkHandle(ctx, *s)
}

// handleTaken reports whether a relay refused a handle because somebody else has
// it, which is for good.
func handleTaken(err error) bool {
	return remoteIs(err, relayapi.HandleTaken)
}

func (a *app) publish(ctx context.Context, s *session, force bool) (publishedAnswer, error) {
	return a.publishWith(ctx, s, core.PublishOptions{Force: force})
}

func (a *app) publishWith(ctx context.Context, s *session, o core.PublishOptions) (publishedAnswer, error) {
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	p, err := s.Publish(ctx, o)
	if handleTaken(err) {
		err = hintf(err, "choose another one: ace --as %s publish --handle NAME", s.id.name)
	}
	return publishedAnswer{
		ACEID: s.ACEID(), Relay: p.Relay, Registered: orNull(p.Registered), Descriptor: p.Descriptor,
		Card: p.Card, DescriptorExpiresAt: p.DescriptorExpires, Handle: orNull(p.Handle),
	}, err
}
