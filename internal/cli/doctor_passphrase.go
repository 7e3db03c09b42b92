package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

// examinePassphrase looks where the passphrase comes from, gets it from there, and
// opens the keys, as every command does that needs them.
func (c *checkup) examinePassphrase(ctx context.Context) {
	if c.id == nil {
		return
	}
	encrypted, err := c.id.store.Encrypted()
	if err != nil {
		c.failed(severityProblem, "keys", err)
		return
	}
	source := c.configuredSource(c.name)
	if c.flags.passphrase.given() {
		source = c.flags.passphrase
	}
	var pass []byte
	if encrypted {
		var ok bool
		if pass, ok = c.sealedBy(ctx, source); !ok {
			return
		}
		defer clear(pass)
	} else {
		c.unsealed(source)
	}
	c.openKeys(ctx, pass)
}

// unsealed tells of keys that have no passphrase. Agents start without anybody
// there, so that may be wanted.
func (c *checkup) unsealed(source passphraseSource) {
	switch {
	case source.given() || len(source.Command) > 0:
		c.add(severityWarning, "passphrase", "A passphrase is at hand, and the keys are not sealed: whoever reads the files has them.").
			command(c.ace("identity passphrase %s", shellQuote(c.name)))
	case c.id.settings.Dev:
		c.ok("passphrase", "The keys have no passphrase, and are for development alone.")
	default:
		c.add(severityNotice, "passphrase", "The keys have no passphrase: the mode of their files is all that protects them.").
			command(c.ace("identity passphrase %s", shellQuote(c.name)))
	}
}

// sealedBy gets the passphrase of sealed keys from its source.
func (c *checkup) sealedBy(ctx context.Context, source passphraseSource) (pass []byte, ok bool) {
	env, fromEnv := c.io.Getenv("ACE_PASSPHRASE")
	fromEnv = fromEnv && env != "" && !c.flags.passphrase.given()
	if !fromEnv && !c.readable(source) {
		return nil, false
	}
	pass, err := c.app.passphrase(ctx, c.name)
	if err == nil && pass == nil && c.interactive() {
		pass, err = c.askPassphrase(ctx, "Passphrase of "+c.name)
	}
	switch {
	case err != nil:
		c.failed(severityProblem, "passphrase", err)
	case pass == nil && source.Source == sourceNone:
		c.add(severityProblem, "passphrase", "The configuration says that there is no passphrase, and the keys are sealed under one.").
			advise("name its source in the configuration (ace help config), or take the passphrase away with ace identity passphrase --remove")
	case pass == nil:
		c.add(severityNotice, "passphrase", "Only somebody at a terminal can give the passphrase: ace cannot start by itself, and the keys were not opened.").
			advise("name its source in the configuration, or run ace doctor with --passphrase-file, --passphrase-fd or --passphrase-command")
	case fromEnv:
		c.add(severityNotice, "passphrase", "The passphrase comes from the environment, which other processes of yours can read.").
			advise("name a file or a command in the configuration: ace help config")
	default:
		c.ok("passphrase", "The passphrase comes from %s.", describeSource(source))
	}
	return pass, pass != nil
}

// readable looks at the file or the program of a source before it is used.
func (c *checkup) readable(source passphraseSource) bool {
	if path := source.File; path != "" {
		_, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.add(severityProblem, "passphrase", "The passphrase file %s is not there.", path).advise("put it back, or name another source: ace help config")
			return false
		case err == nil && ownerfile.CheckFile(path) != nil:
			f := c.failed(severityProblem, "passphrase", ownerfile.CheckFile(path))
			f.mode(path, 0o600)
			return false
		}
	}
	if len(source.Command) > 0 {
		if _, err := exec.LookPath(source.Command[0]); err != nil {
			c.add(severityProblem, "passphrase", "The passphrase command %s cannot be run: %v.", source.Command[0], err).
				advise("install it, or name another source: ace help config")
			return false
		}
	}
	return true
}

func describeSource(s passphraseSource) string {
	switch {
	case s.fd >= 0:
		return "a file descriptor"
	case s.shell != "":
		return "the command of --passphrase-command"
	case s.File != "":
		return s.File
	case len(s.Command) > 0:
		return "the command " + s.Command[0]
	}
	return "the terminal"
}

// openKeys opens the identity.
func (c *checkup) openKeys(ctx context.Context, pass []byte) {
	s, err := c.openSession(ctx, c.id, pass)
	switch {
	case errors.Is(err, fault.IdentityUnavailable) && pass != nil:
		c.failed(severityProblem, "keys", err).advise("give the passphrase that the keys have now; where it is lost, ace identity recover takes the identity back with the next root")
	case err != nil && c.condition != nil && c.condition.Damage != "" && errors.Is(err, fault.StorageFailed):
		// The store was found before.
	case err != nil:
		c.failed(severityProblem, "keys", err)
	default:
		c.session = s
		c.ok("keys", "The keys open, and are those of the log.")
	}
}
