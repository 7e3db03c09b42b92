package cli

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
)

const settingsFile = "settings.toml"

// settings is what ace init decided about an identity, in the identity's
// folder.
type settings struct {
	// Relay is the home relay, a canonical URL, "" for none yet.
	Relay string `toml:"relay"`
	// Dev marks an identity made for development: it may use relays on
	// loopback and no others.
	Dev bool `toml:"dev,omitempty"`
	// FollowDev takes the relay that ace relay serve --dev runs now.
	FollowDev bool `toml:"follow_dev,omitempty"`
	// Contact is open or closed: whether strangers may ask for contact.
	Contact string `toml:"contact"`
	// Listed shows the card in the relay's directory.
	Listed bool `toml:"listed,omitempty"`
	// Handle is the name at the relay, "" for none.
	Handle string `toml:"handle,omitempty"`
	// Description, Image and Tags are the card (04#card).
	Description string   `toml:"description,omitempty"`
	Image       string   `toml:"image,omitempty"`
	Tags        []string `toml:"tags,omitempty"`
	// Pay are the CAIP-10 accounts of the card record.
	Pay []string `toml:"pay,omitempty"`
	// ERC8004 are the entries in agent registries that the card record claims.
	ERC8004 []registryEntry `toml:"erc8004,omitempty"`
	// Settlement are the methods that the descriptor advertises: stripe-link, or
	// stablecoin: and an asset (commerce#descriptor-extension).
	Settlement []string `toml:"settlement,omitempty"`
	// Credentials are those that the descriptor shows, canonical JSON each
	// (delegation#descriptor-extension).
	Credentials []string `toml:"credentials,omitempty"`
	// Profiles are the IDs of the enabled profiles besides core.
	Profiles []string `toml:"profiles"`
	// Manifests are the profiles of third parties that are installed: ID to
	// manifest, as canonical JSON.
	Manifests map[string]string `toml:"manifests,omitempty"`
	// Accept are the profiles whose contact requests are accepted by
	// themselves: profile ID to profile digest.
	Accept map[string]string `toml:"accept,omitempty"`
	// NextRoot is where the next root was put for want of a better place.
	NextRoot string `toml:"next_root,omitempty"`
	// Echo is the ACE ID of the echo agent that has the petname echo.
	Echo string `toml:"echo,omitempty"`
}

func readSettings(dir string) (settings, error) {
	path := filepath.Join(dir, settingsFile)
	var s settings
	text, err := ownerfile.Read(path, configLimit)
	if err != nil {
		return s, err
	}
	meta, err := toml.Decode(string(text), &s)
	if err == nil && len(meta.Undecoded()) > 0 {
		return s, fault.New(fault.StorageFailed, "%s: unknown key %q", path, meta.Undecoded()[0])
	}
	return s, fault.Wrapf(fault.StorageFailed, err, "%s", path)
}

// handleAddress returns a handle as others look it up at its relay: the bare
// handle while there is no relay, and "" without a handle.
func handleAddress(handle, relay string) string {
	if handle == "" || relay == "" {
		return handle
	}
	_, host, _ := strings.Cut(relay, "://")
	return descriptor.HandleAddress{Name: handle, Host: host}.String()
}

// settingsPatience is how long a change waits for another process that is
// changing the same identity.
const settingsPatience = 5 * time.Second

// changeSettings changes the settings of an identity as they are on disk now,
// under the lock of the identity: two commands at once lose nothing of each other.
// An error of change leaves them as they are. Codes: lock_busy, storage_failed.
func (a *app) changeSettings(id *identity, change func(*settings) error) (err error) {
	lock, err := a.lockIdentity(id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	s, err := readSettings(id.store.Dir())
	if err != nil {
		return err
	}
	if err := change(&s); err != nil {
		return err
	}
	if err := s.write(id.store.Dir()); err != nil {
		return err
	}
	id.settings = s
	return nil
}

// lockIdentity takes the lock of an identity, waiting for a while for whoever has
// it: changes are short.
func (a *app) lockIdentity(id *identity) (*ownerfile.Lock, error) {
	for until := time.Now().Add(settingsPatience); ; time.Sleep(20 * time.Millisecond) {
		lock, err := id.store.Lock(a.command, a.io.Now())
		if !errors.Is(err, fault.LockBusy) || time.Now().After(until) {
			return lock, err
		}
	}
}

// write is for settings that nobody else can see yet; see changeSettings.
func (s settings) write(dir string) error {
	text, err := s.encode()
	if err != nil {
		return err
	}
	return ownerfile.Write(filepath.Join(dir, settingsFile), text)
}

// encode returns the text of the file.
func (s settings) encode() ([]byte, error) {
	var b bytes.Buffer
	enc := toml.NewEncoder(&b)
	enc.Indent = ""
	err := enc.Encode(s)
	return b.Bytes(), fault.Wrap(fault.StorageFailed, err)
}
