package cli

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/ace-toolkit/ace/keystore"
)

// examineConfig lints the configuration files. They are no secrets, but whoever can
// write to one has commands of their own choice run for a passphrase.
func (c *checkup) examineConfig(context.Context) {
	before := len(c.found)
	for _, err := range c.confFaults {
		if f := c.failed(severityProblem, "config", err); f.Advice == nil {
			f.advise("correct the file; ace help config shows what it takes")
		}
	}
	for _, path := range []string{"/etc/ace/config.toml", filepath.Join(c.configDir(), "ace", "config.toml"), c.flags.config} {
		info, err := os.Stat(path)
		if path != "" && err == nil && info.Mode().Perm()&0o022 != 0 {
			c.add(severityProblem, "config_mode", "Other users can write to %s (mode %04o), and so choose what runs for the passphrase.", path, info.Mode().Perm()).
				command("chmod go-w " + shellQuote(path)).safely(func() error { return os.Chmod(path, info.Mode().Perm()&^0o022) })
		}
	}
	names, err := keystore.List(c.identitiesDir())
	if err == nil {
		c.examineNames(names)
	}
	if len(c.found) == before {
		c.ok("config", "The configuration is in order.")
	}
}

// examineNames compares the identities that the configuration names with those
// that there are.
func (c *checkup) examineNames(names []string) {
	if d := c.conf.DefaultIdentity; d != "" && !slices.Contains(names, d) {
		f := c.add(severityProblem, "config_identity", "The configuration has %q as the identity to act as, and there is none of that name.", d)
		if len(names) == 1 {
			f.command(c.aceWithout("identity use " + names[0]))
		} else {
			f.advise("choose one with ace identity use NAME")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.conf.Identities)) {
		if !slices.Contains(names, name) {
			c.add(severityNotice, "config_identity", "The configuration has settings for %q, and there is no identity of that name.", name).
				advise("remove [identities.%s] from it, if it is not yet to come", name)
		}
	}
}

// examinePolicy looks whether each peer is known whom the policy names, as whoever
// sends or receives does. Names are in the store, which opens with the keys.
func (c *checkup) examinePolicy(ctx context.Context) {
	if c.session == nil || c.session.policyOrigin == "" {
		return
	}
	if err := c.session.checkPolicy(ctx); err != nil {
		c.failed(severityProblem, "policy", err)
		return
	}
	c.ok("policy", "The policy can be followed.")
}

// aceWithout is ace for a command that chooses the identity.
func (c *checkup) aceWithout(line string) string {
	as := *c
	as.name = ""
	return as.ace("%s", line)
}
