package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
)

func newPermitListCmd(a *app) *cobra.Command {
	var issued, held bool
	c := &cobra.Command{
		Use:   "list [--issued | --held]",
		Short: "List the permits by which you and your peers may write to each other",
		Long: `List the permits by which you and your peers may write to each other. One that
you hold lets you send to the peer, one that you issued lets it send to you. A
permit is void once its issuer has another signing key.`,
	}
	c.Flags().BoolVar(&issued, "issued", false, "only those that you issued")
	c.Flags().BoolVar(&held, "held", false, "only those that you hold")
	return a.leaf(c, 0, 0, []any{permitList{}}, func(ctx context.Context, _ []string) error {
		if issued && held {
			return usagef("--issued and --held leave nothing: without both, all are listed")
		}
		return runPermitList(ctx, a, func(p core.Permit) bool { return !issued && !held || p.Held == held })
	})
}

func newPermitRenewCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:               "renew PEER",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "Send a peer a fresh permit, and ask for one",
		Long: `Send an admitted peer a fresh permit, and ask for one in return, which the next
ace pull fetches. Permits renew themselves with the receipts of messages, and
after a new signing key with ace maintain or ace listen.`,
	}
	return a.leaf(c, 1, 1, []any{contactAnswer{}}, func(ctx context.Context, args []string) error {
		return runPermitRenew(ctx, a, args[0])
	})
}

// keptPermitAnswer tells of a permit that is kept. Direction is "issued" or
// "held".
type keptPermitAnswer struct {
	ACEID     string  `json:"ace_id"`
	PeerName  *string `json:"peer_name"`
	Direction string  `json:"direction"`
	IssuedAt  int64   `json:"issued_at"`
	ExpiresAt int64   `json:"expires_at"`
	Valid     bool    `json:"valid"`
}

type permitList []keptPermitAnswer

func (r permitList) text(p *page) {
	p.head("PEER", "DIRECTION", "STATE", "ISSUED", "EXPIRES")
	for _, k := range r {
		state := "valid"
		switch {
		case k.Valid:
		case k.ExpiresAt <= p.app.io.Now():
			state = "ended"
		default:
			state = "void"
		}
		p.row(p.peer(k.ACEID, k.PeerName), k.Direction, state, p.time(k.IssuedAt), p.time(k.ExpiresAt))
	}
}

func runPermitList(ctx context.Context, a *app, listed func(core.Permit) bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	permits, err := s.Permits(ctx)
	if err != nil {
		return err
	}
	answer := permitList{}
	for _, p := range permits {
		if !listed(p) {
			continue
		}
		direction := "issued"
		if p.Held {
			direction = "held"
		}
		answer = append(answer, keptPermitAnswer{p.ACEID, orNull(p.Name), direction, p.IssuedAt, p.ExpiresAt, p.Valid})
	}
	return a.print(answer)
}

func runPermitRenew(ctx context.Context, a *app, typed string) error {
	return a.withPeer(ctx, a.open, (*session).other, typed, func(ctx context.Context, s *session, peer string) error {
		c, err := s.RenewPermit(ctx, peer)
		if err != nil {
			return err
		}
		return a.print(newContactAnswer(c))
	})
}
