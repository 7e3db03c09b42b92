package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/keystore"
)

type passphraseOptions struct {
	remove   bool
	fresh    passphraseSource
	nextRoot string
	nextPass passphraseSource
}

func newIdentityPassphraseCmd(a *app) *cobra.Command {
	var o passphraseOptions
	c := &cobra.Command{
		Use:   "passphrase [NAME] [--remove] [--next-root FILE]",
		Short: "Change the passphrase of an identity's keys",
		Long: `Seal the keys of an identity under another passphrase, or leave them unsealed with
--remove. The one in use comes from the usual sources (--passphrase-file and so
on), the new one from --new-passphrase-file, -fd or -command, or from the terminal.
Whatever happens on the way, all keys are under the old passphrase or all under
the new one.

The next root keeps its own passphrase, unless its file is named with --next-root:
then it gets the new one too, after the keys. A process that runs has its keys
open and is not disturbed. Backups keep the passphrase they were made with.`,
		Example: `  ace identity passphrase
  ace identity passphrase work --passphrase-file old --new-passphrase-file new`,
		ValidArgsFunction: a.complete(1, identityValues),
	}
	f := c.Flags()
	f.BoolVar(&o.remove, "remove", false, "leave the keys unsealed")
	o.fresh.addOptions(f, "new-passphrase", "the new passphrase")
	f.StringVar(&o.nextRoot, "next-root", "", "`FILE` of the next root, to be sealed anew as well")
	o.nextPass.addOptions(f, "next-root-passphrase", "the passphrase that the next root has now")
	return a.leaf(c, 0, 1, []any{passphraseAnswer{}}, func(ctx context.Context, args []string) error {
		return runIdentityPassphrase(ctx, a, args, o)
	})
}

// passphraseAnswer says how the keys are protected now.
type passphraseAnswer struct {
	Name      string  `json:"name"`
	ACEID     string  `json:"ace_id"`
	Encrypted bool    `json:"encrypted"`
	NextRoot  *string `json:"next_root"` // sealed anew as well
}

func (r passphraseAnswer) text(p *page) {
	what := "the keys of " + r.Name
	if r.NextRoot != nil {
		what += " and the next root in " + *r.NextRoot
	}
	if r.Encrypted {
		p.line("%s are under the new passphrase", what)
		return
	}
	p.line("%s have no passphrase any more", what)
}

func runIdentityPassphrase(ctx context.Context, a *app, args []string, o passphraseOptions) error {
	a.io.catchSignals()
	if o.remove && o.fresh.given() {
		return usagef("--remove excludes a new passphrase")
	}
	id, err := a.named(args)
	if err != nil {
		return err
	}
	now := a.io.Now()
	log, err := id.store.Log(now)
	if err != nil {
		return err
	}
	old, err := a.currentPassphrase(ctx, id)
	if err != nil {
		return err
	}
	defer clear(old)
	next, err := a.passphraseOfNextRoot(ctx, o, old)
	if err != nil {
		return err
	}
	defer clear(next)
	if o.nextRoot != "" { // a file that does not open is said before anything changes
		seed, err := keystore.NextRoot(o.nextRoot, log, next)
		if err != nil {
			return withHint(err, "its passphrase comes from --next-root-passphrase-file, -fd or -command")
		}
		seed.Destroy()
	}
	fresh, err := a.freshPassphrase(ctx, id.name, o)
	if err != nil {
		return err
	}
	defer clear(fresh)
	if err := id.store.ChangePassphrase(old, fresh, a.command, now); err != nil {
		return a.wrongPassphrase(id, err, old)
	}
	a.note(id, core.Note{Event: audit.PassphraseChanged})
	answer := passphraseAnswer{Name: id.name, ACEID: log.ACEID(), Encrypted: fresh != nil}
	if o.nextRoot != "" {
		path, err := filepath.Abs(o.nextRoot)
		if err == nil {
			err = keystore.ChangeNextRootPassphrase(path, log, next, fresh)
		}
		if err != nil {
			return withHint(err, "the keys are under the new passphrase already; the next root still has its old one")
		}
		answer.NextRoot = &path
	}
	if fresh == nil {
		a.warn("no passphrase: the keys of %s are protected by the mode of their files alone", id.name)
	}
	return a.print(answer)
}

// currentPassphrase returns the passphrase that the keys of an identity have
// now, nil for none.
func (a *app) currentPassphrase(ctx context.Context, id *identity) ([]byte, error) {
	encrypted, err := id.store.Encrypted()
	if err != nil || !encrypted {
		return nil, err
	}
	return a.unlockPassphrase(ctx, id.name)
}

// passphraseOfNextRoot returns the passphrase that the next root has now: its
// own where one is given, else that of the identity.
func (a *app) passphraseOfNextRoot(ctx context.Context, o passphraseOptions, old []byte) ([]byte, error) {
	switch {
	case o.nextPass.given() && o.nextRoot == "":
		return nil, usagef("a passphrase of the next root is given and no --next-root")
	case o.nextPass.given():
		return o.nextPass.read(ctx, a.io)
	case o.nextRoot != "" && a.interactive():
		pass, err := a.askPassphrase(ctx, "Passphrase that the next root has now (empty for none)")
		if len(pass) == 0 {
			pass = nil
		}
		return pass, err
	}
	return append([]byte(nil), old...), nil
}

// freshPassphrase returns the passphrase to be used from now on, nil for none.
func (a *app) freshPassphrase(ctx context.Context, name string, o passphraseOptions) ([]byte, error) {
	switch {
	case o.remove:
		return nil, nil
	case o.fresh.given():
		return o.fresh.read(ctx, a.io)
	case !a.interactive():
		return nil, hintf(declined("no new passphrase", ""), "use --new-passphrase-file, --new-passphrase-fd or --new-passphrase-command, or --remove")
	}
	pass, err := a.askNewPassphrase(ctx, "the identity "+name)
	if err == nil && pass == nil {
		err = declined("no new passphrase", "--remove leaves the keys without one")
	}
	return pass, err
}
