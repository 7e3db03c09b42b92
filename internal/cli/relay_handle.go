package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
)

func newRelayHandleCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "handle", Short: "Look after the handles of a relay"},
		newRelayHandleListCmd(a), newRelayHandleReserveCmd(a), newRelayHandleReleaseCmd(a))
}

type relayHandleList []relayadmin.Handle

func (l relayHandleList) text(p *page) {
	p.head("HANDLE", "STATE", "ACE ID", "SINCE")
	for _, h := range l {
		id := "-"
		if h.ACEID != nil {
			id = p.id(*h.ACEID)
		}
		p.row(h.Handle, h.State, id, p.time(h.At))
	}
}

func newRelayHandleListCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List the handles that are bound or reserved"}
	return a.adminLeaf(c, 0, 0, []any{relayHandleList{}}, func(ctx context.Context, r *relayadmin.Client, _ []string) error {
		all := relayHandleList{}
		for after := ""; ; {
			page, err := r.Handles(ctx, after, listPage)
			if err != nil {
				return err
			}
			if all = append(all, page...); len(page) < listPage {
				return a.print(all)
			}
			after = page[len(page)-1].Handle
		}
	})
}

func newRelayHandleReserveCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "reserve HANDLE...",
		Short: "Keep handles from being claimed",
		Long: `Keep handles from being claimed, and with each all that look like it: without
hyphens, 0 as o and 1 as l. A handle that is bound stays with its identity for
good and cannot be reserved.`,
	}
	return a.adminLeaf(c, 1, -1, []any{relayDone{}}, func(ctx context.Context, r *relayadmin.Client, args []string) error {
		return a.forEach(ctx, args, func(handle string) error {
			err := r.Reserve(ctx, handle)
			if fault.CodeOf(err) == relayapi.HandleTaken {
				return hintf(err, "ace relay handle list shows whose it is; ace relay id suspend takes an identity out of sight")
			}
			if err != nil {
				return err
			}
			return a.print(relayDone{"reserved", handle})
		})
	})
}

func newRelayHandleReleaseCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "release HANDLE...", Short: "Let reserved handles be claimed again"}
	return a.adminLeaf(c, 1, -1, []any{relayDone{}}, func(ctx context.Context, r *relayadmin.Client, args []string) error {
		return a.forEach(ctx, args, func(handle string) error {
			err := r.Release(ctx, handle)
			if fault.CodeOf(err) == fault.UnknownPeer {
				return hintf(err, "ace relay handle list shows what is; a bound handle cannot be released")
			}
			if err != nil {
				return err
			}
			return a.print(relayDone{"released", handle})
		})
	})
}
