package policy_test

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/wire"
)

var (
	bob     = wire.ACEID("bb00000000000000000000000000000000000000000000000000000000000000")
	mallory = wire.ACEID("cc00000000000000000000000000000000000000000000000000000000000000")
)

var errDisk = fault.New(fault.StorageFailed, "disk")

func names(name string) (string, error) {
	switch name {
	case "bob":
		return bob, nil
	case "@mallory@relay.example":
		return mallory, nil
	case "disk":
		return "", errDisk
	case "@@":
		return "", fault.New(fault.InvalidArgument, "no handle")
	}
	return "", nil
}

// TestDecide: the first rule that matches decides, and what none matches is
// allowed (agentlink: policy "ask").
func TestDecide(t *testing.T) {
	p := policy.Policy{Rules: []policy.Rule{
		{Type: "ace:text:1", Peer: "bob", Do: policy.Allow},
		{Type: "ace:commerce:*", Peer: bob, Do: policy.Ask},
		{Direction: policy.Out, Peer: "@mallory@relay.example", Do: policy.Deny},
		{Direction: policy.In, Peer: mallory, Do: policy.Deny},
		{Type: "ace:commerce:rfq:1", Do: policy.Ask},
	}}
	for _, c := range []struct {
		d           policy.Direction
		peer, of    string
		want        policy.Action
		rule        int
		description string
	}{
		{policy.Out, bob, "ace:text:1", policy.Allow, 1, "an exact type and a petname"},
		{policy.Out, bob, "ace:commerce:offer:1", policy.Ask, 2, "a pattern and an ACE ID"},
		{policy.Out, bob, "ace:commerce:rfq:1", policy.Ask, 2, "the first of two"},
		{policy.Out, bob, "ace:delegation:1", policy.Allow, 0, "none"},
		{policy.Out, bob, "ace:commerceful:1", policy.Allow, 0, "not of the profile"},
		{policy.Out, mallory, "ace:text:1", policy.Deny, 3, "a handle"},
		{policy.In, mallory, "ace:text:1", policy.Deny, 4, "what comes"},
		{policy.In, bob, "ace:commerce:rfq:1", policy.Allow, 0, "a rule without direction is about what goes"},
	} {
		got, err := p.Decide(c.d, c.peer, c.of, names)
		if err != nil || got != (policy.Decision{Do: c.want, Rule: c.rule}) {
			t.Errorf("%s: %+v, %v", c.description, got, err)
		}
	}
	if p.TTL() != 86400 || (policy.Policy{ApprovalTTL: 5}).TTL() != 5 {
		t.Errorf("times %d", p.TTL())
	}
}

// A rule about somebody whom nobody knows is none that does not match: what it is
// to stop would pass. Behind a rule that decides, it does not come up.
func TestUnknownPeers(t *testing.T) {
	for _, name := range []string{"bbo", "@nobody@relay.example", "@@"} {
		p := policy.Policy{Rules: []policy.Rule{{Type: "ace:text:1", Peer: "bob", Do: policy.Allow}, {Peer: name, Do: policy.Deny}}}
		var unknown *policy.UnknownPeer
		if _, err := p.Decide(policy.Out, mallory, "ace:text:1", names); !errors.Is(err, fault.InvalidArgument) || !errors.As(err, &unknown) || unknown.Rule != 2 || unknown.Name != name {
			t.Errorf("%s: %v", name, err)
		}
		if err := p.Resolve(names); !errors.As(err, &unknown) {
			t.Errorf("%s resolves: %v", name, err)
		}
		if got, err := p.Decide(policy.Out, bob, "ace:text:1", names); err != nil || got.Rule != 1 {
			t.Errorf("%s: behind a rule that decides: %+v, %v", name, got, err)
		}
		if got, err := p.Decide(policy.In, mallory, "ace:text:1", names); err != nil || got.Do != policy.Allow {
			t.Errorf("%s: the other way: %+v, %v", name, got, err)
		}
	}
	p := policy.Policy{Rules: []policy.Rule{{Peer: "disk", Do: policy.Deny}}}
	if _, err := p.Decide(policy.Out, bob, "x:y", names); !errors.Is(err, fault.StorageFailed) {
		t.Errorf("a store that cannot be read: %v", err)
	}
	p.Rules[0].Peer = "bob"
	if err := p.Resolve(names); err != nil {
		t.Errorf("known: %v", err)
	}
}

func TestCheck(t *testing.T) {
	types := []string{"ace:text:1", "ace:commerce:rfq:1", "ace:commerce:offer:1"}
	for _, c := range []struct {
		rule policy.Rule
		key  string // that is wrong, "" for none
	}{
		{policy.Rule{Do: policy.Allow}, ""},
		{policy.Rule{Do: policy.Ask, Type: "ace:commerce:*", Peer: "bob"}, ""},
		{policy.Rule{Do: policy.Deny, Direction: policy.In, Type: "ace:commerce:offer:1"}, ""},
		{policy.Rule{}, "do"},
		{policy.Rule{Do: "alow"}, "do"},
		{policy.Rule{Do: "Deny"}, "do"},
		{policy.Rule{Do: policy.Ask, Direction: policy.In}, "do"},
		{policy.Rule{Do: policy.Deny, Direction: "inn"}, "direction"},
		{policy.Rule{Do: policy.Deny, Type: "ace:txt:1"}, "type"},
		{policy.Rule{Do: policy.Deny, Type: "ace:comm*"}, "type"},
		{policy.Rule{Do: policy.Deny, Type: "ace:comerce:*"}, "type"},
		{policy.Rule{Do: policy.Deny, Type: "ace:receipt:1"}, "type"},
	} {
		err := policy.Policy{Rules: []policy.Rule{{Do: policy.Allow}, c.rule}}.Check(types)
		var bad *policy.BadRule
		switch is := errors.As(err, &bad); {
		case c.key == "" && err != nil:
			t.Errorf("%+v: %v", c.rule, err)
		case c.key != "" && (!is || bad.Key != c.key || bad.Number != 2 || !errors.Is(err, fault.InvalidArgument)):
			t.Errorf("%+v: %v", c.rule, err)
		}
	}
	unknown := policy.Policy{Rules: []policy.Rule{{Do: policy.Deny, Type: "ace:txt:1"}}}
	if err := unknown.Check(nil); err != nil {
		t.Errorf("where the types are not known: %v", err)
	}
	if err := (policy.Policy{ApprovalTTL: -1}).Check(nil); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a negative time: %v", err)
	}
}
