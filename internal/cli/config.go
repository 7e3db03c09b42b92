package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/internal/span"
	"github.com/ace-toolkit/ace/internal/spelling"
)

// config is the configuration file. What a file does not say stays as a less
// specific file, or the program, has it.
type config struct {
	// DefaultIdentity is the identity to act as without --as.
	DefaultIdentity string `toml:"default_identity"`
	// Relay is the home relay of new identities.
	Relay string `toml:"relay"`
	// Timeout is the default of --timeout, as in "30s".
	Timeout duration `toml:"timeout"`
	// Time is the default of --time.
	Time string `toml:"time"`
	// Color is the default of --color.
	Color string `toml:"color"`
	// UTC shows times in UTC.
	UTC bool `toml:"utc"`
	// Passphrase says where the passphrase comes from.
	Passphrase passphraseSource `toml:"passphrase"`
	// Accept is what contact requests are accepted by themselves: profile ID
	// to profile digest. It is local and never set by anybody else.
	Accept map[string]acceptRule `toml:"accept"`
	// Audit bounds the audit log.
	Audit auditConfig `toml:"audit"`
	// Policy is what identities may send and let in.
	Policy policyConfig `toml:"policy"`
	// Identities are settings for one identity each, by local name.
	Identities map[string]identityConfig `toml:"identities"`
}

// auditConfig says how much of the audit log is kept, 0 being the usual.
type auditConfig struct {
	Age  duration `toml:"age"`
	Rows int64    `toml:"rows"`
}

type acceptRule struct {
	Digest string `toml:"digest"`
}

type identityConfig struct {
	// Relay is the home relay in place of the one given to ace init.
	Relay string `toml:"relay"`
	// Passphrase says where this identity's passphrase comes from.
	Passphrase passphraseSource `toml:"passphrase"`
	// Policy is this identity's, in place of what it says of the one for all.
	Policy policyConfig `toml:"policy"`
}

// duration is a time.Duration written as text.
type duration struct{ time.Duration }

// UnmarshalText reads "45s" or "7d".
func (d *duration) UnmarshalText(text []byte) (err error) {
	d.Duration, err = span.Parse(string(text))
	return err
}

// configLimit bounds a configuration file in bytes.
const configLimit = 1 << 20

// readConfig reads the configuration files, the most specific last, and sets
// the options that neither the command line nor the environment gave.
func (a *app) readConfig(cmd *cobra.Command) error {
	files := []string{"/etc/ace/config.toml", filepath.Join(a.configDir(), "ace", "config.toml")}
	if a.flags.config != "" {
		files = append(files, a.flags.config)
	}
	for _, path := range files {
		err := a.conf.read(path)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist) && path != a.flags.config:
		case cmd.Annotations[toleratesConfig] != "":
			a.confFaults = append(a.confFaults, err)
		default:
			return err
		}
	}
	return a.applyConfig(cmd)
}

// toleratesConfig marks a command that runs whatever the configuration says, to
// say what is wrong with it.
const toleratesConfig = "tolerates_config"

func (a *app) applyConfig(cmd *cobra.Command) error {
	c, given := &a.conf, cmd.Flags().Changed
	a.flags.timeoutGiven = given("timeout")
	if c.Timeout.Duration != 0 && !given("timeout") {
		a.flags.timeout = c.Timeout.Duration
	}
	if c.Time != "" && !given("time") {
		a.flags.timeText = c.Time
	}
	if c.Color != "" && !given("color") {
		a.flags.color = c.Color
	}
	if c.UTC && !given("utc") {
		a.flags.utc = true
	}
	return nil
}

// read takes over what one more file says. An unknown key is an error.
func (c *config) read(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return &statusError{exitUsage, "", fault.Wrap(fault.InvalidArgument, err)}
	}
	if !info.Mode().IsRegular() || info.Size() > configLimit {
		return usagef("%s is no configuration file: not a regular file of at most %d bytes", path, configLimit)
	}
	var file config
	meta, err := toml.DecodeFile(path, &file)
	if err != nil {
		return usagef("%s: %v", path, err)
	}
	if err := file.check(path); err != nil {
		return err
	}
	if err := file.checkPolicies(path, meta.IsDefined); err != nil {
		return err
	}
	c.override(file, meta.IsDefined)
	unknown := meta.Undecoded()
	if len(unknown) == 0 {
		return nil
	}
	err = usagef("%s: unknown key %q", path, unknown[0])
	if near := nearest(unknown[0][len(unknown[0])-1], keysBeside(unknown[0])); near != "" {
		return hintf(err, "did you mean %q?", near)
	}
	return err
}

// override takes over what a more specific file says, key by key. A source of a
// passphrase is one thing: half of it fits no other half.
func (c *config) override(file config, says func(key ...string) bool) {
	if says("default_identity") {
		c.DefaultIdentity = file.DefaultIdentity
	}
	if says("relay") {
		c.Relay = file.Relay
	}
	if says("timeout") {
		c.Timeout = file.Timeout
	}
	if says("time") {
		c.Time = file.Time
	}
	if says("color") {
		c.Color = file.Color
	}
	if says("utc") {
		c.UTC = file.UTC
	}
	if file.Passphrase.Source != "" {
		c.Passphrase = file.Passphrase
	}
	if says("audit", "age") {
		c.Audit.Age = file.Audit.Age
	}
	if says("audit", "rows") {
		c.Audit.Rows = file.Audit.Rows
	}
	for profile, rule := range file.Accept {
		if c.Accept == nil {
			c.Accept = map[string]acceptRule{}
		}
		c.Accept[profile] = rule
	}
	c.Policy = c.Policy.override(file.Policy)
	for name, identity := range file.Identities {
		if c.Identities == nil {
			c.Identities = map[string]identityConfig{}
		}
		c.Identities[name] = c.Identities[name].override(identity)
	}
}

func (i identityConfig) override(file identityConfig) identityConfig {
	if file.Relay != "" {
		i.Relay = file.Relay
	}
	if file.Passphrase.Source != "" {
		i.Passphrase = file.Passphrase
	}
	i.Policy = i.Policy.override(file.Policy)
	return i
}

// check refuses what no use of the configuration would take.
func (c *config) check(path string) error {
	sources := []passphraseSource{c.Passphrase}
	for _, identity := range c.Identities {
		sources = append(sources, identity.Passphrase)
	}
	for _, s := range sources {
		if err := s.check(); err != nil {
			return usagef("%s: %v", path, err)
		}
	}
	if c.Timeout.Duration < 0 {
		return usagef("%s: timeout is negative", path)
	}
	if c.Audit.Age.Duration < 0 || c.Audit.Rows < 0 {
		return usagef("%s: audit: age and rows are not negative", path)
	}
	return nil
}

// configKeys returns the names that keys of the file can have.
func configKeys() []string {
	return []string{"default_identity", "relay", "timeout", "time", "color", "utc", "passphrase", "accept", "audit", "age", "rows", "identities", "source", "file", "command", "digest",
		"policy", "approval_ttl", "rules", "direction", "type", "peer", "do"}
}

// nearest returns the candidate that was most likely meant by word, "" when none
// is near.
func nearest(word string, candidates []string) string { return spelling.Nearest(word, candidates, 2) }
