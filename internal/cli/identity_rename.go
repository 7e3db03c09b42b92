package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/keystore"
)

func newIdentityRenameCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "rename NAME NEW_NAME",
		Short: "Give an identity another local name",
		Long: `Give an identity another name on this machine. Nobody else sees it: the ACE ID
and the handle stay. The default of the configuration follows. No other process
may be at work with the identity.`,
		ValidArgsFunction: a.complete(1, identityValues),
	}
	return a.leaf(c, 2, 2, []any{renamedAnswer{}}, func(_ context.Context, args []string) error {
		return runIdentityRename(a, args[0], args[1])
	})
}

// renamedAnswer says what became of a name.
type renamedAnswer struct {
	Name    string `json:"name"`
	Before  string `json:"before"`
	ACEID   string `json:"ace_id"`
	Folder  string `json:"folder"`
	Default bool   `json:"default"` // the configuration follows
}

func (r renamedAnswer) text(p *page) { p.line("%s is now %s: %s", r.Before, r.Name, r.ACEID) }

func runIdentityRename(a *app, from, to string) error {
	if err := checkName(to); err != nil {
		return err
	}
	id, err := a.openIdentity(from)
	if err != nil {
		return err
	}
	now := a.io.Now()
	log, err := id.store.Log(now)
	if err != nil {
		return err
	}
	// Who listens has the store open under its old name.
	release, err := core.LockReceive(id.storePath(), a.command, now)
	if err != nil {
		return err
	}
	defer release()
	store, err := keystore.Rename(id.store.Dir(), a.identityDir(to), a.command, now)
	if errors.Is(err, fault.InvalidArgument) {
		return hintf(&statusError{exitUsage, "", err}, "choose another name")
	}
	if err != nil {
		return err
	}
	answer := renamedAnswer{Name: to, Before: from, ACEID: log.ACEID(), Folder: store.Dir(), Default: a.conf.DefaultIdentity == from}
	if answer.Default {
		if err := setDefaultIdentity(a.configFile(), to); err != nil {
			return withHint(err, "the identity is %s already", to)
		}
	}
	if _, ok := a.conf.Identities[from]; ok {
		a.warn("the configuration has a section [identities.%s]: rename it to [identities.%s]", from, to)
	}
	return a.print(answer)
}
