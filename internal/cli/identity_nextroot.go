package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/keystore"
)

// nextRoots says where next roots come from and go to.
type nextRoots struct {
	file, out     string
	pass, outPass passphraseSource
}

func (n *nextRoots) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&n.file, "next-root", "", "`FILE` with the next root that the log commits to")
	f.StringVar(&n.out, "new-next-root-out", "", "`FILE` for the new next root, best on another medium")
	n.pass.addOptions(f, "next-root-passphrase", "the passphrase of the next root")
	n.outPass.addOptions(f, "new-next-root-passphrase", "the passphrase of the new next root")
}

// open opens the next root, and returns the passphrase that did.
func (n *nextRoots) open(ctx context.Context, a *app, log *kel.State, pass []byte) (*openedNextRoot, error) {
	_, encrypted, err := keystore.NextRootInfo(n.file)
	if errors.Is(err, fault.IdentityUnavailable) {
		return nil, hintf(err, "name the file of the next root with --next-root")
	}
	if err != nil {
		return nil, err
	}
	o := &openedNextRoot{}
	switch {
	case !encrypted:
	case n.pass.given():
		o.pass, err = n.pass.read(ctx, a.io)
	case a.interactive():
		o.pass, err = a.askPassphrase(ctx, "Passphrase of the next root")
	default:
		o.pass = pass
	}
	if err != nil {
		return nil, err
	}
	if o.seed, err = keystore.NextRoot(n.file, log, o.pass); err != nil && encrypted {
		return nil, withHint(err, "its passphrase is that of --next-root-passphrase-file, -fd or -command, else that of the identity")
	}
	return o, withHint(err, "name the next root that was written last with --next-root")
}

// path returns where the new next root goes, and notes in the settings a place
// that nobody chose.
func (n *nextRoots) path(ctx context.Context, a *app, id *identity, s *settings, ask bool) (string, error) {
	byDefault, path := a.recoveryPath(id.name), n.out
	if path == "" && ask && a.interactive() && !a.flags.yes && !s.Dev {
		var err error
		if path, err = a.ask(ctx, "File for the new next root, best on another medium", byDefault); err != nil {
			return "", err
		}
	}
	if s.NextRoot = ""; path == "" || path == byDefault {
		s.NextRoot = byDefault
	}
	if path == "" {
		path = byDefault
	}
	return a.nextRootOut(path, byDefault)
}

// nextRootOut checks a path for a next root. The folder of the one by default
// need not be there.
func (a *app) nextRootOut(path, byDefault string) (string, error) {
	if path == byDefault {
		return path, a.checkApart("--new-next-root-out", filepath.Dir(path))
	}
	return a.nextRootFile("--new-next-root-out", path)
}

// newPass returns the passphrase of the new next root: its own where one is
// given, else that of the last one, else that of the identity.
func (n *nextRoots) newPass(ctx context.Context, a *app, last, pass []byte, name string) ([]byte, error) {
	switch {
	case n.outPass.given():
		return n.outPass.read(ctx, a.io)
	case a.interactive() && !a.flags.yes && !a.flags.passphrase.given() && a.configuredSource(name).Source != sourceNone:
		return a.askNewPassphrase(ctx, "the new next root")
	case last != nil:
		return last, nil
	}
	return pass, nil
}

// warnOfRoots says what became of the files of next roots.
func (n *nextRoots) warnOfRoots(a *app, s settings) {
	if s.NextRoot != "" && !s.Dev {
		a.warn("the new next root is on this machine: move %s to a safe place", s.NextRoot)
	}
	if _, err := os.Lstat(n.file); err == nil {
		a.warn("%s holds the root now and is no next root any more: erase it", n.file)
	}
}

// openedNextRoot is a next root and the passphrase that opened it.
type openedNextRoot struct {
	seed *suite.Seed
	pass []byte
}

// preparedRotation holds what has to be cleared.
type preparedRotation struct{ keystore.Rotation }

func (p preparedRotation) destroy() {
	p.NextRoot.Destroy()
	clear(p.NextPassphrase)
}

// settingsWith returns the file of the settings as they are now, but for the place
// of the next root. The lock of the identity is held.
func (r *renewal) settingsWith(nextRoot string) (map[string][]byte, error) {
	s, err := readSettings(r.id.store.Dir())
	if err != nil {
		return nil, err
	}
	s.NextRoot = nextRoot
	text, err := s.encode()
	return map[string][]byte{settingsFile: text}, err
}

// prepare opens the next root of the given log and decides about the new one.
// The settings returned differ in where it is.
func (r *renewal) prepare(ctx context.Context, next *nextRoots, log *kel.State, dryRun bool) (p preparedRotation, s settings, err error) {
	s = r.id.settings
	if next.file == "" {
		next.file = s.NextRoot
	}
	if next.file == "" {
		return p, s, usagef("the next root of %s is not on this machine: name its file with --next-root", r.id.name)
	}
	opened, err := next.open(ctx, r.a, log, r.pass)
	if err != nil {
		return p, s, err
	}
	p.NextRoot = opened.seed
	path, err := next.path(ctx, r.a, r.id, &s, !dryRun)
	if err == nil && !dryRun {
		p.NextPassphrase, err = next.newPass(ctx, r.a, opened.pass, r.pass, r.id.name)
	}
	if err != nil {
		p.destroy()
		return p, s, err
	}
	r.plan.NextRoot = &path
	p.Renewal = r.renewal()
	p.Files = func() (map[string][]byte, error) { return r.settingsWith(s.NextRoot) }
	p.NextRootPath = path
	return p, s, nil
}
