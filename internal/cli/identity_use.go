package cli

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

func newIdentityUseCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "use NAME",
		Short: "Act as this identity when --as names none",
		Long: `Write default_identity into the configuration file, the one of --config where it
is given. All else in the file stays as it is, comments included.`,
		ValidArgsFunction: a.complete(1, identityValues),
	}
	return a.leaf(c, 1, 1, []any{usedAnswer{}}, func(_ context.Context, args []string) error { return runIdentityUse(a, args[0]) })
}

// usedAnswer says who acts from now on, and where that is written.
type usedAnswer struct {
	Name   string `json:"name"`
	ACEID  string `json:"ace_id"`
	Config string `json:"config"`
}

func (r usedAnswer) text(p *page) { p.line("%s is the default from now on: %s", r.Name, r.ACEID) }

func runIdentityUse(a *app, name string) error {
	id, err := a.openIdentity(name)
	if err != nil {
		return err
	}
	log, err := id.store.Log(a.io.Now())
	if err != nil {
		return err
	}
	path := a.configFile()
	if err := setDefaultIdentity(path, name); err != nil {
		return err
	}
	if as := a.flags.as; as != "" && as != name {
		a.warn("--as or ACE_AS names %s, which counts for more", as)
	}
	return a.print(usedAnswer{name, log.ACEID(), path})
}

// configFile is the most specific configuration file.
func (a *app) configFile() string {
	if a.flags.config != "" {
		return a.flags.config
	}
	return filepath.Join(a.configDir(), "ace", "config.toml")
}

// setDefaultIdentity changes the one key of a configuration file, which is
// replaced atomically. A file that is a link elsewhere is replaced there.
func setDefaultIdentity(path, name string) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	text, err := os.ReadFile(path)
	mode := fs.FileMode(0o600)
	switch info, statErr := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		if err := ownerfile.MakeDir(filepath.Dir(path)); err != nil {
			return err
		}
	case err != nil:
		return fault.Wrap(fault.StorageFailed, err)
	case statErr == nil:
		mode = info.Mode().Perm()
	}
	changed, err := withDefaultIdentity(text, name)
	if err != nil {
		return hintf(usagef("%s: %v", path, err), "write default_identity = %q there yourself", name)
	}
	if err := ownerfile.Write(path, changed); err != nil {
		return err
	}
	return fault.Wrap(fault.StorageFailed, os.Chmod(path, mode))
}

// defaultIdentityLine is a line that sets the key, with what follows the value.
var defaultIdentityLine = regexp.MustCompile(`(?m)^([ \t]*)(?:default_identity|"default_identity"|'default_identity')[ \t]*=[ \t]*(?:"[^"\n]*"|'[^'\n]*')`)

// withDefaultIdentity returns the text of a configuration file with the key set
// and all else as it was. The result is read again to see that it says so: text
// can look like a key and be part of a longer string.
func withDefaultIdentity(text []byte, name string) ([]byte, error) {
	var before config
	if _, err := toml.Decode(string(text), &before); err != nil {
		return nil, err
	}
	line := "default_identity = " + strconv.Quote(name)
	changed := append([]byte(line+"\n"), text...)
	if at := defaultIdentityLine.FindSubmatchIndex(text); at != nil {
		changed = bytes.Join([][]byte{text[:at[3]], []byte(line), text[at[1]:]}, nil)
	}
	var after config
	_, err := toml.Decode(string(changed), &after)
	before.DefaultIdentity = name
	if err != nil || !reflect.DeepEqual(before, after) {
		return nil, errors.New("default_identity stands where it cannot be changed without changing more")
	}
	return changed, nil
}
