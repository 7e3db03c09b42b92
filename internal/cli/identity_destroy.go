package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/keystore"
)

func newIdentityDestroyCmd(a *app) *cobra.Command {
	var confirmed string
	var unregister, dry bool
	c := &cobra.Command{
		Use:   "destroy NAME [--unregister]",
		Short: "End an identity for good",
		Long: `Overwrite and remove the keys of an identity, and remove its messages, contacts and
settings. The public log stays, with a note of when it ended: the name stays taken
and tells what was there, and no key of this home signs for that identity again.
What lies elsewhere stays: the next root, backups, and what a disk keeps of old
blocks.

--unregister first removes the identity from its relay, with the messages that
wait there. Without it the relay keeps them until they expire.

The question is answered by typing the name; a script gives --yes and --confirm
NAME.`,
		ValidArgsFunction: a.complete(1, identityValues),
	}
	f := c.Flags()
	f.BoolVar(&unregister, "unregister", false, "unregister at the relay first")
	f.StringVar(&confirmed, "confirm", "", "with --yes: the `NAME` once more")
	f.BoolVar(&dry, "dry-run", false, dryRun)
	return a.leaf(c, 1, 1, []any{destroyedAnswer{}, destroyPlan{}}, func(ctx context.Context, args []string) error {
		id, err := a.openIdentity(args[0])
		if err != nil {
			return err
		}
		if dry {
			return planDestroy(a, id, unregister)
		}
		if err := a.confirmName(ctx, "Destroy the identity "+id.name+" for good?", id.name, confirmed); err != nil {
			return err
		}
		return runIdentityDestroy(ctx, a, id, unregister)
	})
}

// destroyedAnswer says what is left of an identity.
type destroyedAnswer struct {
	Name         string  `json:"name"`
	ACEID        string  `json:"ace_id"`
	KELSeq       int64   `json:"kel_seq"` // no event up to it is ever signed again
	DestroyedAt  int64   `json:"destroyed_at"`
	Unregistered bool    `json:"unregistered"`
	Folder       string  `json:"folder"`
	NextRoot     *string `json:"next_root"` // still there
}

func (r destroyedAnswer) text(p *page) {
	p.line("destroyed %s, which was %s", r.Name, r.ACEID)
	p.line("its public log stays in %s", r.Folder)
	if r.NextRoot != nil {
		p.line("its next root is still in %s", *r.NextRoot)
	}
}

// destroyPlan is --dry-run.
type destroyPlan struct {
	Action     string   `json:"action"`
	Name       string   `json:"name"`
	ACEID      string   `json:"ace_id"`
	Unregister bool     `json:"unregister"`
	Removes    []string `json:"removes"`
}

func planDestroy(a *app, id *identity, unregister bool) error {
	log, err := id.store.Log(a.io.Now())
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(id.store.Dir())
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	plan := destroyPlan{Action: "destroy", Name: id.name, ACEID: log.ACEID(), Unregister: unregister, Removes: []string{}}
	for _, e := range entries {
		if !keystore.Outlives(e.Name()) {
			plan.Removes = append(plan.Removes, e.Name())
		}
	}
	return a.printJSON(plan)
}

func runIdentityDestroy(ctx context.Context, a *app, id *identity, unregister bool) error {
	a.io.catchSignals()
	if unregister {
		if _, err := a.unregister(ctx, id); err != nil {
			return withHint(err, "nothing is destroyed yet; without --unregister the relay is not asked")
		}
	}
	now := a.io.Now()
	// Who listens has the keys in memory and would go on.
	release, err := core.LockReceive(id.storePath(), a.command, now)
	if err != nil {
		return err
	}
	defer release()
	tomb, err := id.store.Destroy(a.command, now)
	if err != nil {
		return err
	}
	answer := destroyedAnswer{
		Name: id.name, ACEID: tomb.ACEID, KELSeq: tomb.Seq, DestroyedAt: tomb.DestroyedAt, Unregistered: unregister, Folder: id.store.Dir(),
	}
	if path := id.settings.NextRoot; path != "" {
		if _, err := os.Stat(path); err == nil {
			answer.NextRoot = &path
		}
	}
	if a.conf.DefaultIdentity == id.name {
		a.warn("the configuration still has %s as its default identity: choose another one with ace identity use NAME", id.name)
	}
	return a.print(answer)
}
