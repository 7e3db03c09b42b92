package core

import (
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/profile/delegation"
)

// install installs the enabled profiles with the rules of the official ones, and
// then the given rules. Code: invalid_argument.
func install(profiles []*profile.Manifest, rules []profile.Rule) (*profile.Set, error) {
	set := profile.NewSet()
	for _, m := range profiles {
		if err := set.Install(m); err != nil {
			return nil, err
		}
		if rule := ruleOf(m.ID); rule != nil {
			rules = append([]profile.Rule{rule}, rules...)
		}
	}
	for _, rule := range rules {
		if err := set.Govern(rule); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// ruleOf returns the rule of an official profile, nil for one that has none.
func ruleOf(id string) profile.Rule {
	switch id {
	case profile.CommerceID:
		return commerce.Rule{}
	case profile.DelegationID:
		return delegation.Rule{}
	}
	return nil
}
