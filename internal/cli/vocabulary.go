package cli

import (
	"maps"
	"slices"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
)

// vocabulary is the profiles that commands know by name.
type vocabulary []*profile.Manifest

// official returns those of the specification, core first.
func official() vocabulary { return profile.Official() }

// vocabulary adds the profiles of third parties that the owner has installed for
// the identity.
func (s settings) vocabulary() (vocabulary, error) {
	known := official()
	for _, id := range slices.Sorted(maps.Keys(s.Manifests)) {
		m, err := profile.ParseManifest([]byte(s.Manifests[id]))
		if err != nil {
			return nil, fault.Wrapf(fault.StorageFailed, err, "%s: manifest %.80q", settingsFile, id)
		}
		known = append(known, m)
	}
	return known, nil
}

// enabled returns the profiles that the identity announces.
func (s settings) enabled() ([]*profile.Manifest, error) {
	known, err := s.vocabulary()
	if err != nil {
		return nil, err
	}
	return known.named(s.Profiles)
}

// profile finds a profile by its ID, or an official one by the short name in it:
// text for ace:text:1.
func (v vocabulary) profile(name string) (*profile.Manifest, bool) {
	for _, m := range v {
		if m.ID == name || m.ID == "ace:"+name+":1" {
			return m, true
		}
	}
	return nil, false
}

// named returns the named profiles, each once. Core is always enabled and cannot
// be named.
func (v vocabulary) named(names []string) ([]*profile.Manifest, error) {
	var found []*profile.Manifest
	for _, name := range names {
		m, ok := v.profile(name)
		if !ok || m.ID == profile.CoreID {
			return nil, hintf(usagef("the profile %q cannot be enabled", name), "text, delegation and commerce can, and those that ace profile install has installed")
		}
		if !slices.Contains(found, m) {
			found = append(found, m)
		}
	}
	return found, nil
}

// messageType finds a message type by its name, or one of an official profile by
// the short name in it: rfq for ace:commerce:rfq:1. The types of core are sent by
// the protocol alone.
func (v vocabulary) messageType(name string) (*profile.Message, bool) {
	for _, m := range v {
		if m.ID == profile.CoreID {
			continue
		}
		for _, msg := range m.Messages {
			if msg.Type == name || shortType(msg.Type) == name {
				return msg, true
			}
		}
	}
	return nil, false
}
