package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
)

// listPage is how many entries a list asks the relay for at a time.
const listPage = 500

func newRelayIdentityCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "id", Aliases: []string{"identity"}, Short: "Look after the identities that a relay serves"},
		newRelayIdentityListCmd(a), newRelayIdentityShowCmd(a), newRelaySuspendCmd(a), newRelayResumeCmd(a), newRelayPurgeCmd(a))
}

// identityLeaf completes a command about an identity, its first argument: an
// ACE ID, or as much of one as ace relay id list shows on a terminal.
func (a *app) identityLeaf(c *cobra.Command, answers []any, do func(ctx context.Context, r *relayadmin.Client, aceID string) error) *cobra.Command {
	return a.adminLeaf(c, 1, 1, answers, func(ctx context.Context, r *relayadmin.Client, args []string) error {
		aceID, err := wholeID(ctx, r, args[0])
		if err == nil {
			err = do(ctx, r, aceID)
		}
		if fault.CodeOf(err) == fault.UnknownPeer {
			err = withHint(err, "ace relay id list has those that it knows")
		}
		return err
	})
}

// wholeID returns the ACE ID that the relay knows by its start. What is no
// start of one is left for the relay to judge.
func wholeID(ctx context.Context, r *relayadmin.Client, typed string) (string, error) {
	start := strings.TrimSuffix(strings.TrimPrefix(typed, "ace:sha256:"), "…")
	if wire.IsACEID(typed) || len(start) < idPrefix || !isIDPrefix(start) {
		return typed, nil
	}
	// Those with this start are the next ones after it, which is none itself.
	next, err := r.Identities(ctx, "ace:sha256:"+start, 2)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, i := range next {
		ids = append(ids, i.ACEID)
	}
	aceID, err := completeID(typed, ids)
	if errors.Is(err, errNoPrefix) {
		return "", fault.New(fault.UnknownPeer, "no identity whose ACE ID starts so is or was registered at this relay")
	}
	return aceID, err
}

type relayIdentity relayadmin.Identity

func (i relayIdentity) text(p *page) {
	p.row("ace id", i.ACEID)
	p.row("state", i.State)
	p.row("handle", orDash(i.Handle))
	p.row("registered", p.time(i.RegisteredAt))
	p.row("unregistered", p.timeOr(i.RetiredAt))
	p.row("network", i.Network)
	p.row("stored", count(i.StoredBytes, "byte"))
	p.row("queued", packets(i.Entries, i.Bytes))
	p.row("from strangers", p.number(i.Strangers))
	if i.Quota != nil {
		p.row("quota", packets(i.Quota.Entries, i.Quota.Bytes))
	}
}

// packets says how much is in a queue, or may be.
func packets(entries, bytes int64) string {
	return count(entries, "packet") + ", " + count(bytes, "byte")
}

type relayIdentityList []relayadmin.Identity

func (l relayIdentityList) text(p *page) {
	p.head("ACE ID", "STATE", "HANDLE", "QUEUED", "BYTES")
	for _, i := range l {
		p.row(p.id(i.ACEID), i.State, orDash(i.Handle), p.number(i.Entries+i.Strangers), p.number(i.Bytes))
	}
}

func newRelayIdentityListCmd(a *app) *cobra.Command {
	var state string
	c := &cobra.Command{Use: "list [--state STATE]", Short: "List the identities that are or were registered"}
	c.Flags().StringVar(&state, "state", "", "only those in this `STATE`: registered, suspended or unregistered")
	return a.adminLeaf(c, 0, 0, []any{relayIdentityList{}}, func(ctx context.Context, r *relayadmin.Client, _ []string) error {
		switch state {
		case "", relayadmin.StateRegistered, relayadmin.StateSuspended, relayadmin.StateUnregistered:
		default:
			return usagef("--state %q is not registered, suspended or unregistered", state)
		}
		all := relayIdentityList{}
		for after := ""; ; {
			page, err := r.Identities(ctx, after, listPage)
			if err != nil {
				return err
			}
			for _, i := range page {
				if after = i.ACEID; state == "" || i.State == state {
					all = append(all, i)
				}
			}
			if len(page) < listPage {
				return a.print(all)
			}
		}
	})
}

func newRelayIdentityShowCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "show ACE_ID", Short: "Show what the relay keeps of an identity"}
	return a.identityLeaf(c, []any{relayIdentity{}}, func(ctx context.Context, r *relayadmin.Client, aceID string) error {
		i, err := r.Identity(ctx, aceID)
		if err != nil {
			return err
		}
		return a.print(relayIdentity(i))
	})
}

func newRelaySuspendCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "suspend ACE_ID",
		Short: "Let nobody reach an identity over this relay",
		Long: `Let nobody reach an identity over this relay. A send to it is refused as one to
an identity that the relay does not know, and no lookup finds it. What is queued
stays its owner's to fetch. ace relay id resume ends it.`,
	}
	return a.identityLeaf(c, []any{relayDone{}}, func(ctx context.Context, r *relayadmin.Client, aceID string) error {
		if err := r.Suspend(ctx, aceID); err != nil {
			return err
		}
		return a.print(relayDone{"suspended", aceID})
	})
}

func newRelayResumeCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "resume ACE_ID", Short: "End the suspension of an identity"}
	return a.identityLeaf(c, []any{relayDone{}}, func(ctx context.Context, r *relayadmin.Client, aceID string) error {
		if err := r.Resume(ctx, aceID); err != nil {
			return err
		}
		return a.print(relayDone{"resumed", aceID})
	})
}

func newRelayPurgeCmd(a *app) *cobra.Command {
	var confirmed string
	var dry bool
	c := &cobra.Command{
		Use:   "purge ACE_ID",
		Short: "End a registration and delete its queue and documents",
		Long: `End a registration and delete its queue, documents and blocks, as the identity's
own unregister would. Packets that wait there are lost. The handle stays bound.
The identity can register again; suspend it first to keep it out of reach.

The question is answered by typing the ACE ID; a script gives --yes and
--confirm ACE_ID.`,
	}
	c.Flags().StringVar(&confirmed, "confirm", "", "with --yes: the `ACE_ID` once more")
	c.Flags().BoolVar(&dry, "dry-run", false, dryRun)
	return a.identityLeaf(c, []any{relayDone{}, relayPlan{}}, func(ctx context.Context, r *relayadmin.Client, aceID string) error {
		i, err := r.Identity(ctx, aceID)
		if err != nil {
			return err
		}
		if dry {
			return a.printJSON(relayPlan{"purge", i.ACEID, i.Entries + i.Strangers, false})
		}
		question := "Delete the queue of " + strconv.FormatInt(i.Entries+i.Strangers, 10) + " packets and the documents of " + i.ACEID + "?"
		if err := a.confirmName(ctx, question, i.ACEID, confirmed); err != nil {
			return err
		}
		if err := r.Purge(ctx, aceID); err != nil {
			return err
		}
		return a.print(relayDone{"purged", aceID})
	})
}
