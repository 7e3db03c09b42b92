package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/keystore"
)

func newIdentityDelegateCmd(a *app) *cobra.Command {
	var o renewOptions
	c := &cobra.Command{
		Use:   "delegate [--not-after TIME] [flags]",
		Short: "Replace the signing key",
		Long: `Replace the signing key: the root delegates to a new one, which is kept and then
published. Whoever has seen that takes no signature of the old key any more, and
every permit issued under it is void: admitted peers are sent fresh ones at the
next upkeep. Two closed peers must not do this at the same time.

A running ace listen goes on with the new key. What else runs ends with
identity_unavailable and signs nothing more.`,
		Example: `  ace identity delegate --dry-run
  ace identity delegate --not-after 90d`,
	}
	o.add(c)
	return a.leaf(c, 0, 0, []any{renewedAnswer{}}, func(ctx context.Context, _ []string) error { return runIdentityDelegate(ctx, a, o) })
}

func runIdentityDelegate(ctx context.Context, a *app, o renewOptions) error {
	r, err := a.beginRenewal(ctx, o)
	if err != nil {
		return err
	}
	defer clear(r.pass)
	r.append(r.log.Seq(), r.log.Budget(), kel.Delegation)
	if o.dryRun {
		return a.print(renewedAnswer{DryRun: true, renewalPlan: r.plan, ToCome: []string{}})
	}
	_, err = r.id.store.Delegate(r.renewal(), a.io.Now())
	if errors.Is(err, fault.InvalidArgument) && r.log.Budget().Emergency() {
		return hintf(err, "the last room is kept for an emergency; ace identity recover gives back that of the current root")
	}
	if err != nil {
		return err
	}
	return r.renewed(ctx, o, audit.KeyDelegated, core.PublishOptions{})
}

func (r *renewal) renewal() keystore.Renewal {
	return keystore.Renewal{After: r.log.LastHash(), Passphrase: r.pass, NotAfter: r.plan.KeyExpiresAt, Command: r.a.command}
}
