package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

func newContactBlockCmd(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:               "block PEER [--dry-run]",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Refuse everything a peer sends",
		Long: `Refuse everything a peer sends: here from now on, and at your relay once that has
registered it. Its contact request is discarded. A peer that was never looked up
is blocked by its whole ACE ID. Only ace contact unblock, or inviting the peer,
lifts a block.`,
	}
	c.Flags().BoolVar(&dry, "dry-run", false, dryRun)
	return a.leaf(c, 1, 1, []any{blockAnswer{}, contactPlan{}}, func(ctx context.Context, args []string) error {
		return runContactBlock(ctx, a, args[0], dry)
	})
}

func newContactUnblockCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:               "unblock PEER",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Lift a block",
		Long: `Lift a block. The peer is a stranger then; a permit of yours that it still holds
admits it again. It also tells the relay when nothing is blocked here, as after
the loss of this store.`,
	}
	return a.leaf(c, 1, 1, []any{blockAnswer{}}, func(ctx context.Context, args []string) error {
		return runContactUnblock(ctx, a, args[0])
	})
}

// blockAnswer is what was decided about a peer. Relay is "confirmed", "unconfirmed"
// (ace maintain registers it then) or "superseded" by a later decision.
type blockAnswer struct {
	ACEID      string  `json:"ace_id"`
	PeerName   *string `json:"peer_name"`
	Blocked    bool    `json:"blocked"`
	Revision   int64   `json:"revision"`
	Relay      string  `json:"relay"`
	RelayError *string `json:"relay_error"`
}

const (
	relayConfirmed   = "confirmed"
	relayUnconfirmed = "unconfirmed"
	relaySuperseded  = "superseded"
)

func newBlockAnswer(d core.BlockDecision, failure error) blockAnswer {
	r := blockAnswer{ACEID: d.ACEID, PeerName: orNull(d.Name), Blocked: d.Blocked, Revision: d.Revision, Relay: relayUnconfirmed}
	switch {
	case d.Confirmed:
		r.Relay = relayConfirmed
	case d.Superseded:
		r.Relay = relaySuperseded
	}
	if failure != nil {
		r.RelayError = orNull(string(fault.CodeOf(failure)))
	}
	return r
}

func (r blockAnswer) text(p *page) {
	what := "no longer blocked"
	if r.Blocked {
		what = "blocked"
	}
	p.line("%s: %s", p.peer(r.ACEID, r.PeerName), what)
	switch r.Relay {
	case relayUnconfirmed:
		p.line("the relay has not confirmed it yet; ace maintain, or ace listen, registers it")
	case relaySuperseded:
		p.line("the relay holds a later decision about this peer; decide again to outrank it")
	}
}

func runContactBlock(ctx context.Context, a *app, typed string, dry bool) error {
	return a.withPeer(ctx, a.openStore, (*session).requester, typed, func(ctx context.Context, s *session, peer string) error {
		if dry {
			return a.planContact(ctx, s, "block", peer)
		}
		question := fmt.Sprintf("Block %s? Nothing it sends reaches you then, receipts for your messages neither", clean(typed, false))
		if err := a.confirm(ctx, question); err != nil {
			return err
		}
		return a.printDecision(s.Block(ctx, peer))
	})
}

func runContactUnblock(ctx context.Context, a *app, typed string) error {
	return a.withPeer(ctx, a.openStore, (*session).peer, typed, func(ctx context.Context, s *session, peer string) error {
		return a.printDecision(s.Unblock(ctx, peer))
	})
}

// printDecision prints a decision that stands, whatever the relay says to it.
func (a *app) printDecision(d core.BlockDecision, err error) error {
	if d.ACEID == "" {
		return err
	}
	if err != nil {
		a.warn("%s", clean(err.Error(), false))
	}
	return a.print(newBlockAnswer(d, err))
}
