package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// registryEntry is one claim to an entry in an agent registry.
type registryEntry struct {
	Registry string `toml:"registry"`
	ID       string `toml:"id"`
}

// cardRecord returns what the settings make of the card record.
func (s settings) cardRecord() descriptor.CardRecord {
	r := descriptor.CardRecord{
		Handle: s.Handle, Contact: s.Contact, Listed: s.Listed, Pay: s.Pay,
		Card: descriptor.Card{Description: s.Description, Image: s.Image, Tags: s.Tags},
	}
	for _, e := range s.ERC8004 {
		r.ERC8004 = append(r.ERC8004, descriptor.ERC8004{AgentRegistry: e.Registry, AgentID: e.ID})
	}
	return r
}

// ext returns what the settings make of the descriptor's ext, null for nothing. A
// value whose profile is not enabled is left out: no verifier takes it
// (04#extensions).
func (s settings) ext() (wire.Value, error) {
	var members []wire.Member
	if len(s.Settlement) > 0 && slices.Contains(s.Profiles, profile.CommerceID) {
		members = append(members, wire.M(profile.CommerceID, wire.NewObject(wire.M("settlement", settlementValue(s.Settlement)))))
	}
	if len(s.Credentials) > 0 && slices.Contains(s.Profiles, profile.DelegationID) {
		list := make([]wire.Value, len(s.Credentials))
		for i, text := range s.Credentials {
			v, err := wire.Parse([]byte(text), wire.MaxJSONDepth)
			if err != nil {
				return wire.Value{}, fmt.Errorf("%s: credentials: %w", settingsFile, err)
			}
			list[i] = v
		}
		members = append(members, wire.M(profile.DelegationID, wire.NewObject(wire.M("credentials", wire.NewArray(list...)))))
	}
	if len(members) == 0 {
		return wire.Value{}, nil
	}
	return wire.NewObject(members...), nil
}

// settlementValue writes settlement methods as commerce#descriptor-extension has
// them. A method without an asset is left to the verifier to judge.
func settlementValue(methods []string) wire.Value {
	list := make([]wire.Value, len(methods))
	for i, text := range methods {
		method, asset, ok := strings.Cut(text, ":")
		members := []wire.Member{wire.M("method", wire.NewString(method))}
		if ok {
			members = append(members, wire.M("asset", wire.NewString(asset)))
		}
		list[i] = wire.NewObject(members...)
	}
	return wire.NewArray(list...)
}
