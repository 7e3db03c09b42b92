package profile

import (
	"fmt"
	"slices"

	"github.com/ace-toolkit/ace/core/wire"
)

const (
	maxExtCredentials = 4
	maxExtSettlements = 10
)

// CheckExt checks a descriptor's ext, size bound included, and the shapes that
// official profiles give to their values (04#extensions). The values of
// third-party profiles are opaque objects. enabled lists the profile IDs of
// the descriptor and aceID is its subject. The error is plain.
func CheckExt(ext wire.Value, enabled []string, aceID string, now int64) error {
	if ext.Kind() != wire.Object {
		return fmt.Errorf("ext: is %s, not an object", ext.Kind())
	}
	for _, m := range ext.Members() {
		if !slices.Contains(enabled, m.Key) {
			return fmt.Errorf("ext: %.40q is not listed in profiles", m.Key)
		}
		if m.Value.Kind() != wire.Object {
			return fmt.Errorf("ext%s: is %s, not an object", step(m.Key), m.Value.Kind())
		}
		if err := checkExtValue(m, aceID, now); err != nil {
			return err
		}
	}
	if n := len(ext.Canonical()); n > wire.MaxExtBytes {
		return fmt.Errorf("ext: %d bytes, more than %d", n, wire.MaxExtBytes)
	}
	return nil
}

func checkExtValue(m wire.Member, aceID string, now int64) error {
	switch m.Key {
	case DelegationID:
		return checkDelegationExt(m.Value, aceID, now)
	case CommerceID:
		return checkCommerceExt(m.Value)
	case CoreID, TextID:
		return fmt.Errorf("ext: %s defines no ext", m.Key)
	}
	return nil
}

// checkDelegationExt checks the shape of delegation#descriptor-extension.
func checkDelegationExt(v wire.Value, aceID string, now int64) error {
	r := wire.NewReader(v, "ext."+DelegationID)
	issuers := map[string]bool{}
	for i, item := range r.Array("credentials", 1, maxExtCredentials) {
		o := r.Element("credentials", i, item)
		c := ReadCredential(o, now)
		if c.Subject != aceID {
			o.FailMember("subject", "is not the descriptor's aceId")
		}
		if issuers[c.Issuer] {
			o.FailMember("issuer", "is there twice")
		}
		issuers[c.Issuer] = true
	}
	return r.Close()
}

// checkCommerceExt checks the shape of commerce#descriptor-extension.
func checkCommerceExt(v wire.Value) error {
	r := wire.NewReader(v, "ext."+CommerceID)
	entries := r.Array("settlement", 1, maxExtSettlements)
	for i, item := range entries {
		o := r.Element("settlement", i, item)
		switch method := o.String("method"); method {
		case "stablecoin":
			o.Matching("asset", "CAIP-19 asset ID", wire.IsCAIP19)
		case "stripe-link":
		default:
			o.FailMember("method", "%.40q is no settlement method", method)
		}
		if slices.ContainsFunc(entries[:i], item.Equal) {
			o.Fail("is there twice")
		}
		_ = o.Close() // the error is r's as well
	}
	return r.Close()
}
