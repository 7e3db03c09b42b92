package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

func newContactForgetCmd(a *app) *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:               "forget PEER [--dry-run]",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "End the contact with a peer",
		Long: `End the contact with a peer: the contact, its request, the permits and the name
you gave it are removed, and messages that wait for it are abandoned. Messages
received stay, and so does the pinned key event log. A permit that the peer still
holds admits it again with its next message: ace contact block keeps it out.`,
	}
	c.Flags().BoolVar(&dry, "dry-run", false, dryRun)
	return a.leaf(c, 1, 1, []any{forgottenAnswer{}, contactPlan{}}, func(ctx context.Context, args []string) error {
		return runContactForget(ctx, a, args[0], dry)
	})
}

// contactPlan is what --dry-run says that a command would do to a contact.
type contactPlan struct {
	Action string  `json:"action"`
	ACEID  string  `json:"ace_id"`
	State  *string `json:"state"`   // of the contact, null for a stranger
	Asks   bool    `json:"asks"`    // a contact request of the peer would be discarded
	Queued int     `json:"waiting"` // messages that wait for it
}

// planContact is --dry-run.
func (a *app) planContact(ctx context.Context, s *session, action, peer string) error {
	plan := contactPlan{Action: action, ACEID: peer}
	contacts, err := s.Contacts(ctx)
	if err != nil {
		return err
	}
	for _, c := range contacts {
		if c.ACEID == peer {
			plan.State = orNull(c.State)
		}
	}
	requests, err := s.Requests(ctx)
	if err != nil {
		return err
	}
	plan.Asks = slices.ContainsFunc(requests, func(r core.ContactRequest) bool { return r.From == peer })
	if plan.Queued, err = s.waitingFor(ctx, peer); err != nil {
		return err
	}
	return a.printJSON(plan)
}

// forgottenAnswer is the answer of ace contact forget.
type forgottenAnswer struct {
	ACEID     string `json:"ace_id"`
	Abandoned int    `json:"abandoned"`
}

func (r forgottenAnswer) text(p *page) {
	p.line("%s: forgotten", p.id(r.ACEID))
	if r.Abandoned > 0 {
		p.line("%s abandoned", count(r.Abandoned, "message"))
	}
}

func runContactForget(ctx context.Context, a *app, typed string, dry bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	peer, err := s.requester(ctx, typed)
	if err != nil {
		return err
	}
	if dry {
		return a.planContact(ctx, s, "forget", peer)
	}
	waiting, err := s.waitingFor(ctx, peer)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Forget %s?", clean(typed, false))
	if waiting > 0 {
		question = fmt.Sprintf("Forget %s and abandon %s?", clean(typed, false), count(waiting, "message"))
	}
	if err := a.confirm(ctx, question); err != nil {
		return err
	}
	abandoned, err := s.Forget(ctx, peer)
	if errors.Is(err, fault.NotPermitted) {
		return hintf(err, "a block goes only with ace contact unblock; forget the peer then")
	}
	if err != nil {
		return err
	}
	return a.print(forgottenAnswer{peer, abandoned})
}

// waitingFor counts the messages to a peer that have no outcome.
func (s *session) waitingFor(ctx context.Context, peer string) (n int, err error) {
	entries, err := s.Outbox(ctx)
	for _, e := range entries {
		if e.To == peer && e.SettledAt == 0 {
			n++
		}
	}
	return n, err
}
