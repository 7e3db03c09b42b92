package profile

import (
	"slices"

	"github.com/ace-toolkit/ace/core/fault"
)

// Set is the profiles installed at an endpoint
// (08#installation-and-announcement), and the rules for their messages. The core
// profile always is. Any number of goroutines may read a Set that nobody
// installs into.
type Set struct {
	manifests []*Manifest         // core first, then in the order of installation
	types     map[string]*Message // by message type
	rules     map[string]Rule     // by message type
}

// NewSet returns the set that holds the core profile alone.
func NewSet() *Set {
	core := official("core")
	s := &Set{types: map[string]*Message{}, rules: map[string]Rule{}}
	s.add(core)
	return s
}

// Install adds a manifest, unless an installed one already defines one of its
// message types (08#installation-and-announcement). Code: invalid_argument.
//
// 08 does not ask that the IDs of installed manifests differ.
func (s *Set) Install(m *Manifest) error {
	for _, msg := range m.Messages {
		if other, ok := s.types[msg.Type]; ok {
			return fault.New(fault.InvalidArgument,
				"manifest %q: message type %q is already defined by %q", m.ID, msg.Type, other.Profile)
		}
	}
	s.add(m)
	return nil
}

func (s *Set) add(m *Manifest) {
	s.manifests = append(s.manifests, m)
	for _, msg := range m.Messages {
		s.types[msg.Type] = msg
	}
}

// Manifests returns the installed manifests, core first and the others in the
// order of installation.
func (s *Set) Manifests() []*Manifest { return slices.Clone(s.manifests) }

// Profile returns the installed manifest with the given ID; of several, the
// one installed first.
func (s *Set) Profile(id string) (*Manifest, bool) {
	i := slices.IndexFunc(s.manifests, func(m *Manifest) bool { return m.ID == id })
	if i < 0 {
		return nil, false
	}
	return s.manifests[i], true
}

// Type returns the installed message type.
func (s *Set) Type(messageType string) (*Message, bool) {
	msg, ok := s.types[messageType]
	return msg, ok
}

// Installed returns the installed message type whose message digest is the
// given schemaDigest (06#receive-pipeline step 7).
func (s *Set) Installed(messageType, digest string) (*Message, bool) {
	msg, ok := s.types[messageType]
	if !ok || msg.Digest != digest {
		return nil, false
	}
	return msg, true
}
