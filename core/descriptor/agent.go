package descriptor

import (
	"fmt"
	"slices"

	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	maxRelays   = 4
	maxProfiles = 32
)

// Profile is one enabled profile of a descriptor.
type Profile struct{ ID, Digest string }

// PublishedAgent is a decoded PublishedAgent {kel, descriptor} (04#fields). It
// is immutable.
type PublishedAgent struct {
	document
	ACEID               string
	IssuedAt, ExpiresAt int64
	Relays              []string // 1 to 4 canonical relay URLs
	PrekeyID            string
	Prekey              []byte // X-Wing public key, 1216 bytes
	Profiles            []Profile
	Ext                 wire.Value // null when absent
	Signature           wire.Signature
}

// decode reads the closed objects and the field rules that hold at any time.
// The error is plain.
func decode(v wire.Value, policy wire.URLPolicy) (*PublishedAgent, error) {
	a := &PublishedAgent{}
	object, err := a.open(v, "published agent", "descriptor")
	if err != nil {
		return nil, err
	}
	r := wire.NewReader(object, "descriptor")
	a.ACEID = r.ACEID("aceId")
	a.IssuedAt, a.ExpiresAt = r.Int("issuedAt"), r.Int("expiresAt")
	a.Relays = readRelays(r, policy)
	a.readPrekey(r)
	a.Profiles = readProfiles(r)
	a.Ext, _ = r.Optional("ext")
	a.Signature = r.Signature("signature")
	if r.Has("ext") && a.Ext.Kind() != wire.Object {
		r.FailMember("ext", "is %s, not an object", a.Ext.Kind())
	}
	switch {
	case a.IssuedAt >= a.ExpiresAt:
		r.FailMember("expiresAt", "not after issuedAt")
	case a.ExpiresAt-a.IssuedAt > wire.MaxDescriptorLifetime:
		r.FailMember("expiresAt", "more than %d seconds after issuedAt", wire.MaxDescriptorLifetime)
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	return a, nil
}

func readRelays(r *wire.Reader, policy wire.URLPolicy) []string {
	var relays []string
	for i, item := range r.Array("relays", 1, maxRelays) {
		s, isString := item.AsString()
		if !isString {
			r.FailMember("relays", "element %d is no string", i)
			continue
		}
		if err := wire.CheckRelayURL(s, policy); err != nil {
			r.FailMember("relays", "element %d: %v", i, err)
		}
		if slices.Contains(relays, s) {
			r.FailMember("relays", "element %d is there twice", i)
		}
		relays = append(relays, s)
	}
	return relays
}

// readPrekey reads the prekey and recomputes its ID (04#prekey).
func (a *PublishedAgent) readPrekey(r *wire.Reader) {
	o := r.Object("prekey")
	a.PrekeyID = o.HexDigest("id")
	a.Prekey = o.Base64("publicKey", wire.PrekeyBytes, wire.PrekeyBytes)
	if o.Err() == nil && a.PrekeyID != suite.Hex256(a.Prekey) {
		o.FailMember("id", "not the digest of publicKey")
	}
	_ = o.Close() // the error is r's as well
}

func readProfiles(r *wire.Reader) []Profile {
	var profiles []Profile
	for i, item := range r.Array("profiles", 0, maxProfiles) {
		o := r.Element("profiles", i, item)
		p := Profile{ID: o.Matching("id", "namespaced identifier", wire.IsNamespacedID), Digest: o.HexDigest("digest")}
		_ = o.Close() // the error is r's as well
		if p.ID == profile.CoreID {
			o.FailMember("id", "the core profile is never listed")
		}
		if slices.ContainsFunc(profiles, func(q Profile) bool { return q.ID == p.ID }) {
			o.FailMember("id", "is there twice")
		}
		profiles = append(profiles, p)
	}
	return profiles
}

// checkTimes checks the field rules that depend on the clock (04#fields).
func (a *PublishedAgent) checkTimes(now int64) error {
	if err := checkIssued(a.IssuedAt, now); err != nil {
		return fmt.Errorf("descriptor.%w", err)
	}
	if now >= a.ExpiresAt {
		return fmt.Errorf("descriptor.expiresAt: passed at %d", now)
	}
	return nil
}

// checkExt checks the optional ext (04#extensions).
func (a *PublishedAgent) checkExt(now int64) error {
	if a.Ext.Kind() == wire.Null {
		return nil
	}
	enabled := make([]string, len(a.Profiles))
	for i, p := range a.Profiles {
		enabled[i] = p.ID
	}
	if err := profile.CheckExt(a.Ext, enabled, a.ACEID, now); err != nil {
		return fmt.Errorf("descriptor.%w", err)
	}
	return nil
}
