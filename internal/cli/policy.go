package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
)

// policyConfig is the policy in a configuration file: rules of which the first
// that matches decides.
type policyConfig struct {
	// ApprovalTTL is how long a message that is held waits for its owner.
	ApprovalTTL duration `toml:"approval_ttl"`
	// Rules replace those of less specific files, all of them: an order put
	// together from two files would be nobody's.
	Rules []policyRule `toml:"rules"`

	origin string // file and key of the rules
}

type policyRule struct {
	// Direction is out, which is the default, or in.
	Direction string `toml:"direction"`
	// Type is a message type, or a pattern like "ace:commerce:*".
	Type string `toml:"type"`
	// Peer is an ACE ID, a petname or @name@host.
	Peer string `toml:"peer"`
	// Do is allow, ask or deny.
	Do string `toml:"do"`
}

// override returns p with what a more specific place says.
func (p policyConfig) override(by policyConfig) policyConfig {
	if by.ApprovalTTL.Duration != 0 {
		p.ApprovalTTL = by.ApprovalTTL
	}
	if by.Rules != nil {
		p.Rules, p.origin = by.Rules, by.origin
	}
	return p
}

// compile returns the policy that the rules make. known is the vocabulary by which
// types are written short, as for ace send --type.
func (p policyConfig) compile(known vocabulary) policy.Policy {
	made := policy.Policy{ApprovalTTL: int64(p.ApprovalTTL.Duration / time.Second)}
	for _, r := range p.Rules {
		if msg, ok := known.messageType(r.Type); ok {
			r.Type = msg.Type
		}
		made.Rules = append(made.Rules, policy.Rule{Direction: policy.Direction(r.Direction), Type: r.Type, Peer: r.Peer, Do: policy.Action(r.Do)})
	}
	return made
}

// check refuses rules that can never be followed. types are the types that a
// message can have, nil where they are not known.
func (p policyConfig) check(known vocabulary, types []string) error {
	err := p.compile(known).Check(types)
	var bad *policy.BadRule
	if !errors.As(err, &bad) {
		return err
	}
	usage := usagef("%s, rule %d: %s %q: %s", p.origin, bad.Number, bad.Key, bad.Value, bad.Why)
	if near := nearest(bad.Value, bad.Known); near != "" && bad.Value != "" {
		return hintf(usage, "did you mean %q?", near)
	}
	return usage
}

// checkPolicies notes where the policies of a file stand, and refuses what no
// identity could follow.
func (c *config) checkPolicies(path string, says func(key ...string) bool) error {
	check := func(p *policyConfig, key ...string) error {
		at := strings.Join(key, ".")
		if says(append(slices.Clone(key), "approval_ttl")...) && p.ApprovalTTL.Duration < time.Second {
			return usagef("%s: %s.approval_ttl is less than a second", path, at)
		}
		p.origin = fmt.Sprintf("%s: %s.rules", path, at)
		if p.Rules == nil {
			p.origin = ""
		}
		return p.check(official(), nil)
	}
	if err := check(&c.Policy, "policy"); err != nil {
		return err
	}
	for name, identity := range c.Identities {
		if err := check(&identity.Policy, "identities", name, "policy"); err != nil {
			return err
		}
		c.Identities[name] = identity
	}
	return nil
}

// keysBeside returns the keys that can stand where an unknown one does.
func keysBeside(unknown toml.Key) []string {
	parents := slices.Clone(unknown[:len(unknown)-1])
	if len(parents) > 2 && parents[0] == "identities" {
		parents = parents[2:]
	}
	switch strings.Join(parents, ".") {
	case "policy":
		return []string{"approval_ttl", "rules"}
	case "policy.rules":
		return []string{"direction", "type", "peer", "do"}
	}
	return configKeys()
}

// policyOf returns the policy of an identity, with the name of the place it is
// from.
func (a *app) policyOf(id *identity) (policy.Policy, string, error) {
	conf := a.conf.Policy.override(a.conf.Identities[id.name].Policy)
	if len(conf.Rules) == 0 {
		return conf.compile(nil), "", nil
	}
	known, err := id.settings.vocabulary()
	if err != nil {
		return policy.Policy{}, "", err
	}
	return conf.compile(known), conf.origin, conf.check(known, known.messageTypes())
}

// messageTypes returns the types that a message can have: those of core are no
// messages.
func (v vocabulary) messageTypes() []string {
	types := []string{}
	for _, m := range v {
		for _, msg := range m.Messages {
			if m.ID != profile.CoreID {
				types = append(types, msg.Type)
			}
		}
	}
	return types
}

// checkPolicy refuses to go on under rules about somebody whom nobody knows: they
// would let through what they are there to stop.
func (s *session) checkPolicy(ctx context.Context) error {
	return s.policyError(ctx, s.CheckPolicy(ctx))
}

// warnOfPolicy says that a change of names leaves a policy that cannot be followed:
// a listener that runs sets aside or holds what its rules are about, and none starts.
func (s *session) warnOfPolicy(ctx context.Context) {
	if err := s.checkPolicy(ctx); err != nil {
		s.app.warn("%v; nothing goes out or comes in until the rule is corrected", err)
	}
}

// policyError says where the rule stands that an error is about.
func (s *session) policyError(ctx context.Context, err error) error {
	var denied *policy.Denied
	var unknown *policy.UnknownPeer
	switch {
	case errors.As(err, &denied):
		return hintf(err, "rule %d in %s is yours to change", denied.Rule, s.policyOrigin)
	case errors.As(err, &unknown):
		usage := usagef("%s, rule %d: peer %q: nobody is known here by that name", s.policyOrigin, unknown.Rule, unknown.Name)
		if strings.Contains(unknown.Name, "@") {
			return hintf(usage, "ace lookup %s finds out whose it is", unknown.Name)
		}
		if near := nearest(unknown.Name, s.petnames(ctx)); near != "" {
			return hintf(usage, "did you mean %q?", near)
		}
		return hintf(usage, "ace contact name PEER NAME gives a name")
	}
	return err
}

// petnames returns names of peers, for a suggestion.
func (s *session) petnames(ctx context.Context) (names []string) {
	known, err := store.ReadKnown(ctx, s.id.storePath(), knownNames)
	if err != nil {
		return nil // a suggestion is worth no second error
	}
	for _, p := range known.Peers {
		if p[1] != "" {
			names = append(names, p[1])
		}
	}
	return names
}

const knownNames = 1000

// Listen is that of the endpoint, unless the policy cannot be followed.
func (s *session) Listen(ctx context.Context, on func(core.Event)) error {
	if err := s.checkPolicy(ctx); err != nil {
		return err
	}
	return s.Endpoint.Listen(ctx, on)
}

// Poll is that of the endpoint, unless the policy cannot be followed.
func (s *session) Poll(ctx context.Context, seconds int64, on func(core.Event)) error {
	if err := s.checkPolicy(ctx); err != nil {
		return err
	}
	return s.Endpoint.Poll(ctx, seconds, on)
}

// Pull is that of the endpoint, unless the policy cannot be followed.
func (s *session) Pull(ctx context.Context, most int, on func(core.Event)) (core.PullReport, error) {
	if err := s.checkPolicy(ctx); err != nil {
		return core.PullReport{}, err
	}
	return s.Endpoint.Pull(ctx, most, on)
}

// reasonOf returns the reason of this host for an error, "" for none.
func reasonOf(err error) string {
	var denied *policy.Denied
	if errors.As(err, &denied) {
		return reasonDeniedByPolicy
	}
	return ""
}

// reasonDeniedByPolicy is the reason for what the policy neither sends nor shows.
const reasonDeniedByPolicy = "denied_by_policy"
