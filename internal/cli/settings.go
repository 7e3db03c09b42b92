package cli

import (
	"bytes"
	"path/filepath"
	"strings"

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
