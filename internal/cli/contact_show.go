package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

func newContactShowCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:               "show PEER",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Show what is known of a peer",
		Long: `Show what is known here of a peer: the contact with it, the permits, the key
event log that is pinned and what it last published. No relay is asked: ace
lookup does that, and ace why says what keeps messages from getting through.`,
	}
	return a.leaf(c, 1, 1, []any{knownAnswer{}}, func(ctx context.Context, args []string) error {
		return runContactShow(ctx, a, args[0])
	})
}

func newContactNameCmd(a *app) *cobra.Command {
	var remove bool
	c := &cobra.Command{
		Use:               "name PEER NAME | PEER --remove",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Give a peer a name of your own",
		Long: `Give a peer a name of your own, by which commands take it from then on. Nobody
else sees it. One name stands for one peer.`,
		Example: "  ace contact name @bob@relay.example bob",
	}
	c.Flags().BoolVar(&remove, "remove", false, "take the name away")
	return a.leaf(c, 1, 2, []any{namedAnswer{}}, func(ctx context.Context, args []string) error {
		if remove == (len(args) == 2) {
			return usagef("give the peer a NAME, or take it away with --remove")
		}
		return runContactName(ctx, a, args[0], strings.Join(args[1:], ""))
	})
}

// knownAnswer is what the store holds of a peer; null is nothing. State is null
// for a stranger. Only the peer vouches for what is below untrusted.
type knownAnswer struct {
	ACEID                 string            `json:"ace_id"`
	PeerName              *string           `json:"peer_name"`
	State                 *string           `json:"state"`
	Profile               *string           `json:"profile"`
	SinceAt               *int64            `json:"since_at"`
	ExpiresAt             *int64            `json:"expires_at"`
	HeldPermitExpiresAt   *int64            `json:"held_permit_expires_at"`
	IssuedPermitExpiresAt *int64            `json:"issued_permit_expires_at"`
	KELSeq                *int64            `json:"kel_seq"`
	PinnedAt              *int64            `json:"pinned_at"`
	Usable                bool              `json:"usable"`
	Waiting               int               `json:"waiting"`
	Descriptor            *descriptorAnswer `json:"descriptor"`
	Card                  *cardAnswer       `json:"card"`
	Request               *requestAnswer    `json:"request"`
}

func (r knownAnswer) text(p *page) {
	p.row("ace id", r.ACEID)
	p.row("name", clean(orDash(r.PeerName), false))
	if r.State == nil {
		p.row("admission", "none")
	} else {
		p.row("admission", *r.State, "since "+p.timeOr(r.SinceAt))
	}
	if r.Request != nil {
		p.row("asks for contact", clean(r.Request.Profile, false), "until "+p.time(r.Request.ExpiresAt))
		p.row("note (unverified)", r.Request.note(p))
	}
	p.row("you may send until", p.timeOr(r.HeldPermitExpiresAt))
	p.row("it may send until", p.timeOr(r.IssuedPermitExpiresAt))
	if r.Waiting > 0 {
		p.row("waiting for it", count(r.Waiting, "message"))
	}
	if r.KELSeq == nil {
		p.row("key event log", "not pinned")
		return
	}
	p.row("key event log", fmt.Sprintf("pinned to event %d", *r.KELSeq), "verified "+p.timeOr(r.PinnedAt))
	p.row("signing key", map[bool]string{true: "in force", false: "ended"}[r.Usable])
	if r.Descriptor != nil {
		r.Descriptor.text(p)
	} else {
		p.row("descriptor", "none in force: ace lookup asks for one")
	}
	if r.Card != nil {
		r.Card.text(p)
	}
}

func newKnownAnswer(k core.KnownPeer, now int64) knownAnswer {
	r := knownAnswer{
		ACEID: k.ACEID, PeerName: orNull(k.Name), State: orNull(k.State), Profile: orNull(k.Profile),
		SinceAt: timeOrNull(k.Since), ExpiresAt: timeOrNull(k.ExpiresAt),
		HeldPermitExpiresAt: timeOrNull(k.HeldPermit), IssuedPermitExpiresAt: timeOrNull(k.IssuedPermit),
		PinnedAt: timeOrNull(k.PinnedAt), Waiting: k.Outstanding,
	}
	if k.Log != nil {
		seq := k.Log.Seq()
		r.KELSeq, r.Usable = &seq, k.Log.Usable(now)
	}
	if k.Descriptor != nil {
		d := describeDescriptor(k.Descriptor)
		r.Descriptor = &d
	}
	if k.Card != nil {
		c := describeCard(k.Card)
		r.Card = &c
	}
	if k.Request != nil {
		q := newRequestAnswer(*k.Request)
		r.Request = &q
	}
	return r
}

func runContactShow(ctx context.Context, a *app, typed string) error {
	return a.withPeer(ctx, a.openStore, (*session).requester, typed, func(ctx context.Context, s *session, peer string) error {
		known, err := s.KnownPeer(ctx, peer)
		if err != nil {
			return hintf(err, "ace lookup asks the relays")
		}
		return a.print(newKnownAnswer(known, a.io.Now()))
	})
}

// namedAnswer says what a peer is called here, null for nothing.
type namedAnswer struct {
	ACEID    string  `json:"ace_id"`
	PeerName *string `json:"peer_name"`
}

func (r namedAnswer) text(p *page) {
	if r.PeerName == nil {
		p.line("%s has no name here", p.id(r.ACEID))
		return
	}
	p.line("%s is called %s here", p.id(r.ACEID), clean(*r.PeerName, false))
}

func runContactName(ctx context.Context, a *app, typed, name string) error {
	return a.withPeer(ctx, a.openStore, (*session).other, typed, func(ctx context.Context, s *session, peer string) error {
		if err := s.SetName(ctx, peer, name); err != nil {
			if fault.CodeOf(err) == fault.InvalidArgument {
				return withHint(err, "ace contact list shows the names")
			}
			return err
		}
		s.warnOfPolicy(ctx)
		return a.print(namedAnswer{peer, orNull(name)})
	})
}
