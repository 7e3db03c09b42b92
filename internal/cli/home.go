package cli

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/keystore"
)

// dataDir returns the folder of all state.
func (a *app) dataDir() string {
	if a.flags.home != "" {
		return a.flags.home
	}
	return filepath.Join(a.baseDir("XDG_DATA_HOME", ".local", "share"), "ace")
}

// configDir returns the folder that holds the configuration of all programs.
func (a *app) configDir() string { return a.baseDir("XDG_CONFIG_HOME", ".config") }

// baseDir returns a folder of the XDG base directory specification, which
// ignores relative values of its variables.
func (a *app) baseDir(variable string, below ...string) string {
	if dir := a.io.env(variable); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(append([]string{a.homeDir()}, below...)...)
}

// homeDir returns the user's home. Where the environment names none, as under a
// service manager, it is that of the user's account; state never goes to
// whatever folder happens to be the current one.
func (a *app) homeDir() string {
	if dir := a.io.env("HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return accountHome()
}

// accountHome returns the home of the user's account, whatever the environment
// says.
func accountHome() string {
	account, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err == nil && filepath.IsAbs(account.HomeDir) {
		return account.HomeDir
	}
	return "/"
}

func (a *app) identitiesDir() string { return filepath.Join(a.dataDir(), "identities") }

func (a *app) identityDir(name string) string { return filepath.Join(a.identitiesDir(), name) }

// checkName refuses a local name that could not be a folder of its own.
func checkName(name string) error {
	ok := name != "" && len(name) <= 64 && name[0] != '.' && name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
	if !ok {
		return usagef("%q is no name for an identity: letters, digits, '-', '_' and '.', at most 64", name)
	}
	return nil
}

// identity is a local identity with its settings.
type identity struct {
	name     string
	store    *keystore.Store
	settings settings
}

// openIdentity finds the named identity.
func (a *app) openIdentity(name string) (*identity, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	store, err := keystore.Open(a.identityDir(name))
	if errors.Is(err, keystore.ErrDestroyed) {
		return nil, hintf(err, "its public log stays in %s; choose another name for another identity", a.identityDir(name))
	}
	if err != nil {
		return nil, err
	}
	// A command may have been killed while it changed the keys.
	if err := store.Settle(a.command, a.io.Now()); err != nil {
		a.warn("the keys of %s are changing, and the files could not be put in their places: %v", name, err)
	}
	s, err := readSettings(store.Dir())
	if err != nil {
		return nil, err
	}
	return &identity{name: name, store: store, settings: s}, nil
}

// identity finds the identity to act as: the one of --as, that of the
// configuration, or the only one.
func (a *app) identity() (*identity, error) {
	name, err := a.identityName()
	if err != nil {
		return nil, err
	}
	return a.openIdentity(name)
}

func (a *app) identityName() (string, error) {
	if a.flags.as != "" {
		return a.flags.as, nil
	}
	if a.conf.DefaultIdentity != "" {
		return a.conf.DefaultIdentity, nil
	}
	names, err := keystore.List(a.identitiesDir())
	switch {
	case err != nil:
		return "", err
	case len(names) == 0:
		return "", hintf(fault.New(fault.IdentityUnavailable, "there is no identity in %s", a.dataDir()), "run ace init")
	case len(names) > 1:
		return "", usagef("which identity? Name one with --as: %s", strings.Join(names, ", "))
	}
	return names[0], nil
}

// recoveryPath returns a free path for the next root of a new identity, apart
// from the folder of the identity.
func (a *app) recoveryPath(name string) string {
	dir := filepath.Join(a.configDir(), "ace-recovery")
	var taken []string
	entries, _ := os.ReadDir(dir) // a folder that is not there has no file
	for _, e := range entries {
		taken = append(taken, e.Name())
	}
	file := name + ".next-root"
	for n := 2; slices.Contains(taken, file); n++ {
		file = name + "-" + strconv.Itoa(n) + ".next-root"
	}
	return filepath.Join(dir, file)
}
