package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/wire"
)

type inviteOptions struct {
	out, agent, name string
	expires          time.Duration
	expiresGiven     bool
}

func newContactInviteCmd(a *app) *cobra.Command {
	var o inviteOptions
	c := &cobra.Command{
		Use:               "invite PEER -o FILE [--expires D] [--agent FILE] [--name NAME]",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Admit a peer and write an invitation for it",
		Long: `Admit a peer and write an invitation for it, which lets it ask for contact
although you are closed to strangers. That lifts a block. Give the file to the
peer over a private channel: it is a credential. The peer runs ace contact import
and then ace connect. The invitation can be imported until your descriptor ends,
at most seven days; --expires is about the permit in it.`,
		Example: "  ace contact invite @bob@relay.example -o bob.invitation",
	}
	f := c.Flags()
	f.StringVarP(&o.out, "output", "o", "", "write it to this new `FILE`, - for standard output")
	durationVar(f, &o.expires, "expires", 0, "how `LONG` the permit is valid, as 48h; 30d by default, and at most")
	f.StringVar(&o.agent, "agent", "", "`FILE` with the peer's published agent, for one that no relay knows")
	f.StringVar(&o.name, "name", "", "a `NAME` of your own for the peer")
	return a.leaf(c, 1, 1, []any{inviteAnswer{}}, func(ctx context.Context, args []string) error {
		o.expiresGiven = f.Changed("expires")
		return runContactInvite(ctx, a, args[0], o)
	})
}

func newContactImportCmd(a *app) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:   "import FILE|- [--name NAME]",
		Short: "Take in an invitation",
		Long: `Take in an invitation that a peer made for you: it is verified, and the permit in
it is held. Nobody is admitted by that: ace connect asks for contact with it.`,
	}
	c.Flags().StringVar(&name, "name", "", "a `NAME` of your own for the peer")
	return a.leaf(c, 1, 1, []any{importAnswer{}}, func(ctx context.Context, args []string) error {
		return runContactImport(ctx, a, args[0], name)
	})
}

// inviteAnswer tells of an invitation that was made. Block is the decision that
// lifted a block, or null.
type inviteAnswer struct {
	contactAnswer
	File            *string      `json:"file"` // null: standard output
	PermitExpiresAt int64        `json:"permit_expires_at"`
	Block           *blockAnswer `json:"block"`
}

func (r inviteAnswer) text(p *page) {
	p.line("%s: %s", p.peer(r.ACEID, r.PeerName), r.State)
	if r.File != nil {
		p.line("wrote %s: give it to the peer over a private channel, and to nobody else", *r.File)
	}
	p.line("the permit in it ends %s", p.time(r.PermitExpiresAt))
	if r.Block != nil {
		r.Block.text(p)
	}
}

// lifetime is the life of the permit in seconds, 0 for the longest, which is that
// of one for which nothing was said.
func (o inviteOptions) lifetime() (int64, error) {
	seconds := int64(o.expires / time.Second)
	if o.expiresGiven && seconds < 1 || seconds > wire.MaxPermitLifetime {
		return 0, usagef("--expires is between 1s and %dd", wire.MaxPermitLifetime/86400)
	}
	return seconds, nil
}

func (o inviteOptions) checkOutput() error {
	if o.out == "" {
		return usagef("-o FILE says where the invitation goes")
	}
	if o.out == "-" {
		return nil
	}
	switch _, err := os.Lstat(o.out); {
	case err == nil:
		return usagef("%s exists already", o.out)
	case !errors.Is(err, fs.ErrNotExist):
		return usagef("%v", err)
	}
	if info, err := os.Stat(filepath.Dir(o.out)); err != nil || !info.IsDir() {
		return usagef("%s is no folder", filepath.Dir(o.out))
	}
	return nil
}

func runContactInvite(ctx context.Context, a *app, typed string, o inviteOptions) error {
	if err := o.checkOutput(); err != nil {
		return err
	}
	if o.out == "-" && a.flags.json {
		return usagef("-o - writes the invitation alone to standard output: leave --json out")
	}
	lifetime, err := o.lifetime()
	if err != nil {
		return err
	}
	agent, err := a.readAgent(o.agent)
	if err != nil {
		return err
	}
	return a.withPeer(ctx, a.open, (*session).other, typed, func(ctx context.Context, s *session, peer string) error {
		if o.name != "" { // first: a name that cannot be is no invitation
			if err := s.SetName(ctx, peer, o.name); err != nil {
				return err
			}
		}
		made, err := s.Invite(ctx, peer, core.InviteOptions{Agent: agent, Lifetime: lifetime})
		if err != nil {
			return err
		}
		if o.out == "-" {
			_, err := a.io.Out.Write(append(made.Text, '\n'))
			return err
		}
		if err := ownerfile.Create(o.out, append(made.Text, '\n')); err != nil {
			return hintf(err, "the peer is admitted; invite it again for another file")
		}
		answer := inviteAnswer{contactAnswer: newContactAnswer(made.Contact), File: &o.out, PermitExpiresAt: made.ExpiresAt}
		if made.Unblocked != nil {
			block := newBlockAnswer(*made.Unblocked, nil)
			answer.Block = &block
		}
		return a.print(answer)
	})
}

// readAgent reads a PublishedAgent that was shared out of band, null for no file.
func (a *app) readAgent(file string) (wire.Value, error) {
	if file == "" {
		return wire.Value{}, nil
	}
	text, err := a.readArg(file, wire.MaxPublishedAgentBytes, fault.InvalidAuthorization)
	if err != nil {
		return wire.Value{}, err
	}
	v, err := wire.Parse(text, wire.MaxJSONDepth)
	return v, fault.Wrapf(fault.InvalidAuthorization, err, "%s", file)
}

// importAnswer tells of an invitation that was taken in. State is that of the
// inviter here, null for a stranger.
type importAnswer struct {
	ACEID               string  `json:"ace_id"`
	PeerName            *string `json:"peer_name"`
	State               *string `json:"state"`
	HeldPermitExpiresAt *int64  `json:"held_permit_expires_at"`
}

func (r importAnswer) text(p *page) {
	p.line("%s lets you ask for contact until %s", p.peer(r.ACEID, r.PeerName), p.timeOr(r.HeldPermitExpiresAt))
	p.line("ask with ace connect %s", r.ACEID)
}

func runContactImport(ctx context.Context, a *app, file, name string) error {
	text, err := a.readArg(file, admission.MaxInvitationBytes, fault.InvalidAuthorization)
	if err != nil {
		return err
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	from, err := s.ImportInvitation(ctx, text)
	if err != nil {
		return hintf(err, "ask the peer for a new invitation: it is for one identity, and can be imported for at most seven days")
	}
	if name != "" {
		if err := s.SetName(ctx, from.ACEID, name); err != nil {
			return err
		}
		from.Name = name
	}
	return a.print(importAnswer{from.ACEID, orNull(from.Name), orNull(from.State), timeOrNull(from.HeldPermit)})
}
