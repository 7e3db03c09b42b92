package cli

import (
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

type connectOptions struct {
	profile, note string
	wait          bool
}

func newConnectCmd(a *app) *cobra.Command {
	var o connectOptions
	c := &cobra.Command{
		Use:               "connect PEER [--profile ID] [--note TEXT] [--wait]",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Ask a peer for contact",
		Example:           "  ace connect @bob@relay.example --note \"it is Alice\" --wait",
	}
	f := c.Flags()
	f.StringVar(&o.profile, "profile", profileText, "`ID` of the profile you want to exchange")
	f.StringVar(&o.note, "note", "", "`TEXT` the peer reads beside your request, at most 512 bytes")
	f.BoolVar(&o.wait, "wait", false, "wait for the answer")
	return a.leaf(c, 1, 1, []any{contactAnswer{}}, func(ctx context.Context, args []string) error {
		return runConnect(ctx, a, args[0], o)
	})
}

// check refuses what no peer could be sent, and completes a short profile name.
func (o *connectOptions) check(known vocabulary) error {
	profiles, err := known.named([]string{o.profile})
	if err != nil {
		return err
	}
	o.profile = profiles[0].ID
	if len(o.note) > wire.MaxNoteBytes || !utf8.ValidString(o.note) {
		return usagef("--note is UTF-8 text of at most %d bytes", wire.MaxNoteBytes)
	}
	return nil
}

func runConnect(ctx context.Context, a *app, typed string, o connectOptions) error {
	_, known, err := a.vocabulary()
	if err != nil {
		return err
	}
	if err := o.check(known); err != nil {
		return err
	}
	return a.withPeer(ctx, a.open, (*session).other, typed, func(ctx context.Context, s *session, peer string) error {
		c, err := a.askForContact(ctx, s, peer, o.profile, o.note)
		if err != nil {
			return err
		}
		if o.wait {
			if c, err = s.awaitPermit(ctx, peer); err != nil {
				return stillAsked(err)
			}
		}
		return a.print(newContactAnswer(c))
	})
}

// askForContact sends a contact request and says, when it fails, what helps: a contact
// packet is never sent again by itself (05#contact-requests), and asking again is
// of no use where the peer does not hear it.
func (a *app) askForContact(ctx context.Context, s *session, peer, profile, note string) (core.Contact, error) {
	c, err := s.Connect(ctx, peer, profile, note)
	if err != nil {
		return c, s.notAsked(ctx, peer, profile, err)
	}
	events := len(s.unlocked.Identity.State().Events())
	if c.State == string(admission.Pending) && c.HeldPermit <= s.now() && events > wire.MaxStrangerKELEvents {
		a.warn("your log has %d events, and of a stranger a peer takes at most %d: unless the peer holds you as admitted it drops the request, and only its invitation helps", events, wire.MaxStrangerKELEvents)
	}
	return c, nil
}

func (s *session) notAsked(ctx context.Context, peer, profile string, failed error) error {
	code := fault.CodeOf(failed)
	if code.Category() == fault.Transient && ctx.Err() == nil {
		return hintf(failed, "a contact request is never sent again by itself: run the command again later")
	}
	if code == fault.InvalidArgument && !slices.Contains(s.id.settings.Profiles, profile) {
		return hintf(failed, "enable it here: ace profile install %s && ace publish", profile)
	}
	if code == fault.InvalidArgument {
		return hintf(failed, "the peer does not list it so: ace lookup shows the profiles of a peer")
	}
	if code != fault.NotPermitted {
		return failed
	}
	if s.blocks(ctx, peer) {
		return hintf(failed, "you have blocked the peer yourself: ace contact unblock lifts that")
	}
	return hintf(failed, "ask the peer for an invitation, which ace contact import takes in, or to open contact")
}

// blocks reports whether the identity itself has blocked a peer.
func (s *session) blocks(ctx context.Context, peer string) bool {
	k, err := s.KnownPeer(ctx, peer)
	return err == nil && k.State == stateBlocked
}

// awaitPermit receives until the peer, who has been asked, has given a permit
// to send to it. A refusal takes the peer out of the admission table.
func (s *session) awaitPermit(ctx context.Context, peer string) (core.Contact, error) {
	var found core.Contact
	err := s.await(ctx, func(ctx context.Context) (done bool, err error) {
		found, done, err = s.permitted(ctx, peer)
		if err == nil && found.State == "" {
			err = fault.New(fault.DeliveryRejected, "the peer declined the contact request")
		}
		return done, err
	})
	return found, err
}

// permitted reports whether a permit of the peer is held. The contact is zero
// for a peer that is not in the admission table.
func (s *session) permitted(ctx context.Context, peer string) (core.Contact, bool, error) {
	c, _, err := s.Contact(ctx, peer)
	return c, c.HeldPermit > s.now(), err
}

// stillAsked says what becomes of a request whose answer was not waited for to
// the end.
func stillAsked(err error) error {
	if errors.Is(err, errDeadline) {
		return hintf(err, "the request waits at the peer; ace pull fetches the answer")
	}
	return err
}
