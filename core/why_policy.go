package core

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
)

// policyReasons tell what the owner's policy does with messages to or from a peer:
// one for each rule that decides about a type that the identity knows and does not
// allow it. A denial of all types stops all messages.
func (f *facts) policyReasons(tx *store.Tx, d policy.Direction, peer string) (reasons []Reason, err error) {
	types, denied := f.endpoint.messageTypes(), 0
	for _, messageType := range types {
		decision, err := f.endpoint.node.Decide(tx, d, peer, messageType)
		if fault.CodeOf(err) == fault.InvalidArgument {
			return []Reason{{Code: WhyPolicyUnclear, Stops: true}}, nil
		}
		if err != nil {
			return nil, err
		}
		code := WhyPolicyAsks
		switch decision.Do {
		case policy.Allow:
			continue
		case policy.Deny:
			code = WhyPolicyDenies
			denied++
		}
		reasons = addByRule(reasons, code, decision.Rule, messageType)
	}
	for i := range reasons {
		reasons[i].Stops = denied == len(types)
	}
	return reasons, nil
}

func addByRule(reasons []Reason, code ReasonCode, rule int, messageType string) []Reason {
	for i, r := range reasons {
		if r.Rule == rule {
			reasons[i].Types = append(r.Types, messageType)
			return reasons
		}
	}
	return append(reasons, Reason{Code: code, Rule: rule, Types: []string{messageType}})
}

// messageTypes are those that a message can have, in the order of their profiles.
func (e *Endpoint) messageTypes() (types []string) {
	for _, m := range e.profiles.Manifests() {
		for _, msg := range m.Messages {
			if m.ID != profile.CoreID {
				types = append(types, msg.Type)
			}
		}
	}
	return types
}
