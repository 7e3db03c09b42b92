package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/relaysvc/relayadmin"
	"github.com/ace-toolkit/ace/relaysvc/relayconf"
)

func newRelayQuotaCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "quota", Short: "Bound the queue of one identity"}, newRelayQuotaShowCmd(a), newRelayQuotaSetCmd(a))
}

// relayQuota is the bound of a queue and what is in it. Null: as for every
// identity.
type relayQuota struct {
	ACEID       string `json:"ace_id"`
	Entries     int64  `json:"entries"`
	Bytes       int64  `json:"bytes"`
	EntriesMost *int64 `json:"entries_most"`
	BytesMost   *int64 `json:"bytes_most"`
}

func (q relayQuota) text(p *page) {
	p.row("ace id", q.ACEID)
	p.row("packets", p.number(q.Entries), "of", p.numberOr(q.EntriesMost, "as configured"))
	p.row("bytes", p.number(q.Bytes), "of", p.numberOr(q.BytesMost, "as configured"))
}

func newRelayQuotaShowCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "show ACE_ID", Short: "Show the bounds of an identity's queue and what is in it"}
	return a.identityLeaf(c, []any{relayQuota{}}, func(ctx context.Context, r *relayadmin.Client, aceID string) error {
		return printQuota(ctx, a, r, aceID)
	})
}

func printQuota(ctx context.Context, a *app, r *relayadmin.Client, aceID string) error {
	i, err := r.Identity(ctx, aceID)
	if err != nil {
		return err
	}
	q := relayQuota{ACEID: i.ACEID, Entries: i.Entries, Bytes: i.Bytes}
	if i.Quota != nil {
		q.EntriesMost, q.BytesMost = &i.Quota.Entries, &i.Quota.Bytes
	}
	return a.print(q)
}

func newRelayQuotaSetCmd(a *app) *cobra.Command {
	var quota relayadmin.Quota
	var size string
	var unset bool
	c := &cobra.Command{
		Use:   "set ACE_ID (--entries N --bytes SIZE | --default)",
		Short: "Bound an identity's queue in place of the relay's own bounds",
		Long: `Bound an identity's queue in place of the relay's own bounds. What is queued
stays, also where it is more than that. A SIZE is a number of bytes, or one with
a unit: KiB, MiB, GiB and TiB, or kB, MB, GB and TB.`,
		Example: "  ace relay quota set ACE_ID --entries 20000 --bytes 128MiB",
	}
	f := c.Flags()
	f.Int64Var(&quota.Entries, "entries", 0, "most packets `N` in the queue")
	f.StringVar(&size, "bytes", "", "most bytes in the queue, a `SIZE` such as 64MiB")
	f.BoolVar(&unset, "default", false, "give it the relay's own bounds again")
	return a.identityLeaf(c, []any{relayQuota{}}, func(ctx context.Context, r *relayadmin.Client, aceID string) error {
		both := f.Changed("entries") && f.Changed("bytes")
		if unset == (f.Changed("entries") || f.Changed("bytes")) || !unset && !both {
			return usagef("give --entries and --bytes, or --default")
		}
		if both && (quota.Entries < 1 || size == "0") {
			return hintf(usagef("--entries and --bytes are at least 1"), "ace relay id suspend lets nothing in")
		}
		if both {
			var err error
			if quota.Bytes, err = relayconf.ParseBytes(size); err != nil {
				return usagef("--bytes: %v", err)
			}
		}
		next := &quota
		if unset {
			next = nil
		}
		if err := r.SetQuota(ctx, aceID, next); err != nil {
			return err
		}
		return printQuota(ctx, a, r, aceID)
	})
}
