package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/keystore"
)

type initOptions struct {
	name, contact, handle string
	profiles, accept      []string
	listed                bool
	noPublish, ifMissing  bool
	nextRootOut           string
	nextPass              passphraseSource
}

// signingKeyLifetime is that of a new identity's signing key in seconds: half a
// year, after which it has to be delegated anew.
const signingKeyLifetime = 180 * 86400

func newInitCmd(a *app) *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use:   "init [--name NAME] [--relay URL] [flags]",
		Short: "Create an identity and publish it",
		Long: `Create an identity and publish it at its home relay. An identity is never
replaced.

The next root, with which the identity is taken back after everything else was
stolen, is kept apart from the rest: --next-root-out says where. Without it and
without a terminal it is written to ace-recovery in the configuration folder,
and ace status keeps saying so until it has been moved.`,
		Example: `  ace init --relay https://relay.example --handle alice
  ace init --yes --relay dev`,
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", "default", "local `NAME` of the identity")
	o.addTo(f)
	f.BoolVar(&o.noPublish, "no-publish", false, "do not contact the relay")
	f.BoolVar(&o.ifMissing, "if-missing", false, "do nothing when the identity exists")
	return a.leaf(c, 0, 0, []any{initAnswer{}}, func(ctx context.Context, _ []string) error { return runInit(ctx, a, o) })
}

// addTo adds the options that say what a new identity is to be.
func (o *initOptions) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.contact, "contact", descriptor.ContactClosed, "whether strangers may ask for contact: `open` or closed")
	f.BoolVar(&o.listed, "listed", false, "show the card in the relay's directory")
	f.StringVar(&o.handle, "handle", "", "`NAME` at the relay, for good")
	f.StringSliceVar(&o.profiles, "profiles", []string{"text"}, "message `PROFILES` to enable")
	f.StringSliceVar(&o.accept, "accept", nil, "accept contact requests for this `PROFILE` by themselves")
	f.StringVar(&o.nextRootOut, "next-root-out", "", "`FILE` for the next root, best on another medium")
	o.nextPass.addOptions(f, "next-root-passphrase", "the passphrase of the next root")
}

// initAnswer is the answer of ace init.
type initAnswer struct {
	Created bool `json:"created"`
	identityAnswer
	NextRoot  *string          `json:"next_root"`
	Published *publishedAnswer `json:"published"`
}

func (r initAnswer) text(p *page) {
	if !r.Created {
		p.line("identity %s exists: %s", r.Name, r.ACEID)
		return
	}
	p.line("identity %s: %s", r.Name, r.ACEID)
	if r.NextRoot != nil {
		p.line("next root: %s", *r.NextRoot)
	}
	if r.Published != nil {
		r.Published.text(p)
	}
	if r.Relay == nil {
		p.line("no relay yet, so nobody can reach it: set one later with ace --as %s publish --relay URL", r.Name)
	}
}

func runInit(ctx context.Context, a *app, o initOptions) error {
	a.io.catchSignals()
	if err := checkName(o.name); err != nil {
		return err
	}
	if done, err := a.initExists(o); done || err != nil {
		return err
	}
	s, err := a.newSettings(ctx, &o)
	if err != nil {
		return err
	}
	id, pass, nextRoot, err := a.create(ctx, o, s)
	if err != nil {
		return err
	}
	defer clear(pass)
	answer := initAnswer{Created: true, NextRoot: &nextRoot}
	var publishErr error
	if !o.noPublish && s.Relay != "" {
		answer.Published, publishErr = a.publishNew(ctx, id, pass)
	}
	if answer.identityAnswer, err = a.describe(id); err != nil {
		return err
	}
	if err := a.print(answer); err != nil {
		return err
	}
	return withHint(publishErr, "the identity is kept; publish it with ace --as %s publish", id.name)
}

// initExists answers for an identity that is there already.
func (a *app) initExists(o initOptions) (done bool, err error) {
	id, err := a.openIdentity(o.name)
	if errors.Is(err, fault.IdentityUnavailable) && !errors.Is(err, keystore.ErrDestroyed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !o.ifMissing {
		return false, hintf(usagef("the identity %q exists and is never replaced", o.name), "choose another --name, or give --if-missing")
	}
	answer := initAnswer{}
	if answer.identityAnswer, err = a.describe(id); err != nil {
		return false, err
	}
	return true, a.print(answer)
}

// newSettings decides what the new identity is to be, asking where there is
// somebody to ask, before anything is made.
func (a *app) newSettings(ctx context.Context, o *initOptions) (settings, error) {
	s := settings{Contact: o.contact, Listed: o.listed, Handle: o.handle}
	if s.Contact != descriptor.ContactOpen && s.Contact != descriptor.ContactClosed {
		return s, usagef("--contact is open or closed, not %q", o.contact)
	}
	profiles, err := official().named(o.profiles)
	if err != nil {
		return s, err
	}
	s.Accept = map[string]string{}
	for _, m := range profiles {
		s.Profiles = append(s.Profiles, m.ID)
	}
	accepted, err := official().named(o.accept)
	if err != nil {
		return s, err
	}
	for _, m := range accepted {
		s.Accept[m.ID] = m.Digest
	}
	if err := a.chooseRelay(ctx, &s, o.name); err != nil {
		return s, err
	}
	return s, a.checkHandle(ctx, s)
}

// checkHandle asks before a handle is claimed: it is never renamed and never
// given to somebody else (04#card-record).
func (a *app) checkHandle(ctx context.Context, s settings) error {
	if s.Handle == "" {
		return nil
	}
	if !wire.IsHandle(s.Handle) {
		return usagef("%q is no handle: that is 3 to 32 of a-z, 0-9 and single hyphens, a letter first", s.Handle)
	}
	return a.confirm(ctx, "The handle "+handleAddress(s.Handle, s.Relay)+" is for good: claim it?")
}

func (a *app) chooseRelay(ctx context.Context, s *settings, name string) error {
	given := a.flags.relay
	if given == "" {
		given = a.conf.Identities[name].Relay
	}
	if given == "" {
		given = a.conf.Relay
	}
	if given == "" && a.interactive() && !a.flags.yes {
		var err error
		if given, err = a.ask(ctx, "Home relay, as https://HOST (empty for none yet)", ""); err != nil {
			return err
		}
	}
	if given == "" {
		return nil
	}
	s.FollowDev = given == relayDev
	url, err := a.relayURL(given, a.flags.allowLoopback)
	s.Relay, s.Dev = url, err == nil && onLoopback(url)
	return err
}

// create makes the identity and returns where its next root is.
func (a *app) create(ctx context.Context, o initOptions, s settings) (id *identity, pass []byte, nextRoot string, err error) {
	nextRoot, err = a.nextRootPath(ctx, o, &s)
	if err != nil {
		return nil, nil, "", err
	}
	pass, err = a.newPassphrase(ctx, o.name)
	if err != nil {
		return nil, nil, "", err
	}
	next, err := a.nextPassphrase(ctx, o, pass)
	if err != nil {
		return nil, nil, "", err
	}
	text, err := s.encode()
	if err != nil {
		return nil, nil, "", err
	}
	store, err := keystore.Create(keystore.CreateOptions{
		Dir: a.identityDir(o.name), NextRootPath: nextRoot,
		Passphrase: pass, NextPassphrase: next,
		Files:    map[string][]byte{settingsFile: text},
		Lifetime: signingKeyLifetime, Command: a.command,
	}, a.io.Now())
	if err != nil {
		return nil, nil, "", err
	}
	if s.NextRoot != "" && !s.Dev {
		a.warn("the next root is still on this machine: move %s to a safe place", nextRoot)
	}
	return &identity{name: o.name, store: store, settings: s}, pass, nextRoot, nil
}

// nextRootPath says where the next root goes. A place that nobody chose is
// noted in the settings, for the warning of ace status.
func (a *app) nextRootPath(ctx context.Context, o initOptions, s *settings) (string, error) {
	path := o.nextRootOut
	if path == "" && a.interactive() && !a.flags.yes && !s.Dev {
		var err error
		if path, err = a.ask(ctx, "File for the next root, best on another medium", a.recoveryPath(o.name)); err != nil {
			return "", err
		}
	}
	if path == "" || path == a.recoveryPath(o.name) {
		s.NextRoot = a.recoveryPath(o.name)
		return s.NextRoot, a.checkApart("--next-root-out", filepath.Dir(s.NextRoot))
	}
	return a.nextRootFile("--next-root-out", path)
}

// nextRootFile returns the whole path of a file for a next root that an option
// names.
func (a *app) nextRootFile(option, path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fault.Wrap(fault.StorageFailed, err)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", usagef("%s: %v", option, err)
	}
	if _, err := os.Lstat(path); err == nil {
		return "", usagef("%s: %s is there already, and no next root is ever replaced", option, path)
	}
	return path, a.checkApart(option, folder)
}

// checkApart refuses a next root inside the folder of all state, with which it
// would be lost or stolen together (01#rotation-and-recovery).
func (a *app) checkApart(option, folder string) error {
	home, err := filepath.Abs(a.dataDir())
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	if below, err := filepath.Rel(home, folder); err == nil && filepath.IsLocal(below) {
		return usagef("%s: the next root is kept apart from the rest, not in %s", option, home)
	}
	return nil
}

func (a *app) newPassphrase(ctx context.Context, name string) ([]byte, error) {
	pass, err := a.passphrase(ctx, name)
	if err != nil || pass != nil {
		return pass, err
	}
	if a.interactive() && !a.flags.yes && a.configuredSource(name).Source != sourceNone {
		if pass, err = a.askNewPassphrase(ctx, "the identity "+name); err != nil || pass != nil {
			return pass, err
		}
	}
	a.warn("no passphrase: the keys of %s are protected by the mode of their files alone", name)
	return nil, nil
}

// nextPassphrase returns the passphrase of the next root: its own where one is
// given, else that of the identity.
func (a *app) nextPassphrase(ctx context.Context, o initOptions, pass []byte) ([]byte, error) {
	if o.nextPass.given() {
		return o.nextPass.read(ctx, a.io)
	}
	if a.interactive() && !a.flags.yes && !a.flags.passphrase.given() && a.configuredSource(o.name).Source != sourceNone {
		return a.askNewPassphrase(ctx, "the next root")
	}
	return pass, nil
}

func (a *app) publishNew(ctx context.Context, id *identity, pass []byte) (*publishedAnswer, error) {
	s, err := a.openSession(ctx, id, pass)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	answer, err := a.publish(ctx, s, false)
	if handleTaken(err) { // it is never to be had, so it is not asked for again
		return nil, errors.Join(err, a.changeSettings(id, func(s *settings) error {
			s.Handle = ""
			return nil
		}))
	}
	if err != nil {
		return nil, err
	}
	return &answer, nil
}
