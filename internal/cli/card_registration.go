package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
)

func newCardRegistrationCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "registration PEER FILE|-",
		Short: "Check a registration file against a peer's claim to it",
		Long: `Check the other half of a peer's claim to an entry in an ERC-8004 agent registry:
that the entry's registration file names the peer among its services. The card of
the peer is looked up for the claims. FILE is what the tokenURI of the entry leads
to; which that is only the chain says, and ace does not read chains.`,
		ValidArgsFunction: a.complete(1, peerValues),
	}
	return a.leaf(c, 2, 2, []any{registrationCheck{}}, func(ctx context.Context, args []string) error {
		return runCardRegistration(ctx, a, args[0], args[1])
	})
}

// registrationLimit bounds a registration file, in bytes.
const registrationLimit = 1 << 20

// registrationCheck says whether a registration file names a peer, and what the
// peer claims. Both together, and the chain, make a claim hold.
type registrationCheck struct {
	ACEID     string                `json:"ace_id"`
	Named     bool                  `json:"named"`
	Untrusted registrationUntrusted `json:"untrusted"`
}

type registrationUntrusted struct {
	ERC8004 []registryAnswer `json:"erc8004"`
}

func (r registrationCheck) text(p *page) {
	p.row("ace id", r.ACEID)
	p.row("named by the file", yesNo(r.Named))
	for _, e := range r.Untrusted.ERC8004 {
		p.row("the card claims", clean(e.AgentRegistry+"="+e.AgentID, false))
	}
	if len(r.Untrusted.ERC8004) == 0 {
		p.row("the card claims", "nothing")
	}
	p.line("whether the file is that of a claimed entry, only its chain says")
}

func runCardRegistration(ctx context.Context, a *app, typed, file string) error {
	text, err := a.readArg(file, registrationLimit, fault.InvalidArgument)
	if err != nil {
		return err
	}
	return a.withPeer(ctx, a.open, (*session).peer, typed, func(ctx context.Context, s *session, id string) error {
		named, err := descriptor.ClaimsACE(text, id)
		if err != nil {
			return fault.Wrap(fault.InvalidArgument, err)
		}
		found, err := s.Lookup(ctx, id)
		if err != nil {
			return err
		}
		answer := registrationCheck{ACEID: id, Named: named, Untrusted: registrationUntrusted{[]registryAnswer{}}}
		if found.Card != nil {
			answer.Untrusted.ERC8004 = describeCard(found.Card).Untrusted.ERC8004
		}
		return a.print(answer)
	})
}
