package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
)

type rotateOptions struct {
	renewOptions
	next      nextRoots
	emergency bool
}

func newIdentityRotateCmd(a *app) *cobra.Command {
	var o rotateOptions
	c := &cobra.Command{
		Use:   "rotate [--next-root FILE] [--new-next-root-out FILE] [flags]",
		Short: "Replace the root, the next root and the signing key",
		Long: `Make the next root the root, commit to a new next root, and delegate to a new
signing key. The new next root is written to a new file first; the old root is
erased once the new log is kept. Relay, handle, contacts and messages stay.

Every issued permit is void afterwards, as with ace identity delegate. If
somebody else may have the root, use ace identity recover instead.`,
		Example: `  ace identity rotate --dry-run
  ace identity rotate --next-root /media/a/alice.next-root --new-next-root-out /media/b/alice.next-root`,
	}
	o.renewOptions.add(c)
	o.next.add(c)
	c.Flags().BoolVar(&o.emergency, "emergency", false, "use the room of the log that is kept for an emergency")
	return a.leaf(c, 0, 0, []any{renewedAnswer{}}, func(ctx context.Context, _ []string) error { return runIdentityRotate(ctx, a, o) })
}

func runIdentityRotate(ctx context.Context, a *app, o rotateOptions) error {
	r, err := a.beginRenewal(ctx, o.renewOptions)
	if err != nil {
		return err
	}
	defer clear(r.pass)
	if !o.emergency && !r.log.Budget().Routine() {
		return hintf(fault.New(fault.InvalidArgument, "the log has room for %s, which is kept for an emergency", count(r.log.Budget().Appends(), "more event")),
			"if the root may be stolen, use ace identity recover, which gives back the room of the current root; --emergency uses the last room")
	}
	rotation, s, err := r.prepare(ctx, &o.next, r.log, o.dryRun)
	if err != nil {
		return err
	}
	defer rotation.destroy()
	r.append(r.log.Seq(), r.log.Budget(), kel.Rotation, kel.Delegation)
	if o.dryRun {
		return a.print(renewedAnswer{DryRun: true, renewalPlan: r.plan, ToCome: []string{}})
	}
	if err := r.confirm(ctx, "Replace the root of "+r.id.name+"?"); err != nil {
		return err
	}
	if _, err := r.id.store.Rotate(rotation.Rotation, a.io.Now()); err != nil {
		return err
	}
	o.next.warnOfRoots(a, s)
	r.id.settings = s
	return r.renewed(ctx, o.renewOptions, audit.KeyRotated, core.PublishOptions{})
}
