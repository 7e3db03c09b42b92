// Package policy is what the owner of an identity lets it send and lets in: rules
// in order, of which the first that matches decides. It is local, like a spam
// filter: no peer learns of it, and the protocol knows nothing of it.
package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// Direction says which messages a rule is about.
type Direction string

// The directions.
const (
	Out Direction = "out" // messages to a peer
	In  Direction = "in"  // messages of a peer
)

// Action is what a rule does with a message.
type Action string

// The actions.
const (
	Allow Action = "allow"
	Ask   Action = "ask"  // hold it until the owner decides: of messages to a peer
	Deny  Action = "deny" // refuse to send it, or set it aside when it came
)

// DefaultApprovalTTL is how long a held message waits for its owner, in seconds.
const DefaultApprovalTTL = 86400

// Rule is one rule. An empty Type matches every type, an empty Peer every peer.
type Rule struct {
	Direction Direction // "" is Out
	Type      string    // a message type, or the start of one, up to a colon, and an asterisk: ace:commerce:*
	Peer      string    // an ACE ID, a petname or @name@host
	Do        Action
}

// Policy is the rules of one identity. Without any, every message is allowed.
type Policy struct {
	Rules       []Rule
	ApprovalTTL int64 // seconds a held message waits for its owner, 0: a day
}

// Decision is what the policy says of a message. Rule is the number of the rule
// that says so, from 1, and 0 for the default.
type Decision struct {
	Do   Action
	Rule int
}

// Names tells whose ACE ID a petname or handle stands for, "" for nobody's.
type Names func(name string) (aceID string, err error)

// Decide returns what becomes of a message from or to a peer. A rule whose peer
// nobody is known as is no rule that does not match: it cannot be followed. Code:
// invalid_argument for such a rule, if none before it decides.
func (p Policy) Decide(d Direction, peer, messageType string, names Names) (Decision, error) {
	for i, r := range p.Rules {
		if r.direction() != d || !r.matchesType(messageType) {
			continue
		}
		is, err := r.isAbout(peer, i+1, names)
		if err != nil {
			return Decision{}, err
		}
		if is {
			return Decision{r.Do, i + 1}, nil
		}
	}
	return Decision{Do: Allow}, nil
}

// Resolve checks that each peer that the rules name is known. Code:
// invalid_argument for one that is not.
func (p Policy) Resolve(names Names) error {
	for i, r := range p.Rules {
		if _, err := r.isAbout("", i+1, names); err != nil {
			return err
		}
	}
	return nil
}

// TTL returns how long a held message waits for its owner, in seconds.
func (p Policy) TTL() int64 {
	if p.ApprovalTTL == 0 {
		return DefaultApprovalTTL
	}
	return p.ApprovalTTL
}

func (r Rule) direction() Direction {
	if r.Direction == "" {
		return Out
	}
	return r.Direction
}

func (r Rule) matchesType(messageType string) bool {
	if strings.HasSuffix(r.Type, ":*") {
		return strings.HasPrefix(messageType, strings.TrimSuffix(r.Type, "*"))
	}
	return r.Type == "" || r.Type == messageType
}

// isAbout reports whether a rule, the one of the given number, is about a peer.
func (r Rule) isAbout(peer string, number int, names Names) (bool, error) {
	if r.Peer == "" || wire.IsACEID(r.Peer) {
		return r.Peer == "" || r.Peer == peer, nil
	}
	id, err := names(r.Peer)
	if err == nil && id == "" || fault.CodeOf(err) == fault.InvalidArgument { // also what is no name at all
		err = fault.Wrap(fault.InvalidArgument, &UnknownPeer{number, r.Peer})
	}
	return id == peer, err
}

// Denied says which rule denies a message.
type Denied struct {
	Rule int // from 1
	Type string
}

func (e *Denied) Error() string { return fmt.Sprintf("policy rule %d denies %.80q", e.Rule, e.Type) }

// UnknownPeer says that a rule names a peer that nobody is known as.
type UnknownPeer struct {
	Rule int // from 1
	Name string
}

func (e *UnknownPeer) Error() string {
	return fmt.Sprintf("policy rule %d: no peer is known as %.80q", e.Rule, e.Name)
}

// BadRule says what is wrong with a rule.
type BadRule struct {
	Number int    // from 1
	Key    string // direction, type, peer or do
	Value  string
	Why    string
	Known  []string // what the key can be, nil where that is no list
}

func (e *BadRule) Error() string {
	return fmt.Sprintf("policy rule %d: %s %.80q: %s", e.Number, e.Key, e.Value, e.Why)
}

// Check refuses a policy that has a rule which can never be followed, with a
// [*BadRule] for its first fault. types are the types that a message can have, nil
// where they are not known: a pattern that matches none of them is taken for a
// mistake. Code: invalid_argument.
func (p Policy) Check(types []string) error {
	for i, r := range p.Rules {
		if bad := r.check(types); bad != nil {
			bad.Number = i + 1
			return fault.Wrap(fault.InvalidArgument, bad)
		}
	}
	if p.ApprovalTTL < 0 {
		return fault.New(fault.InvalidArgument, "the time for an approval is negative")
	}
	return nil
}

func (r Rule) check(types []string) *BadRule {
	directions, actions := []string{string(Out), string(In)}, []string{string(Allow), string(Ask), string(Deny)}
	switch {
	case r.Direction != "" && !slices.Contains(directions, string(r.Direction)):
		return &BadRule{Key: "direction", Value: string(r.Direction), Why: "a direction is out or in", Known: directions}
	case !slices.Contains(actions, string(r.Do)):
		return &BadRule{Key: "do", Value: string(r.Do), Why: "a rule does allow, ask or deny", Known: actions}
	case r.direction() == In && r.Do == Ask:
		return &BadRule{Key: "do", Value: string(r.Do), Why: "what has come is allowed or denied: nobody can be asked before it is here"}
	case r.Type != "" && types != nil && !slices.ContainsFunc(types, r.matchesType):
		return &BadRule{Key: "type", Value: r.Type, Why: "no message type is known that this matches", Known: append(prefixes(types), types...)}
	}
	return nil
}

// prefixes returns the patterns for the types of a profile.
func prefixes(types []string) (patterns []string) {
	for _, t := range types {
		if parts := strings.Split(t, ":"); len(parts) > 3 {
			pattern := strings.Join(parts[:len(parts)-2], ":") + ":*"
			if !slices.Contains(patterns, pattern) {
				patterns = append(patterns, pattern)
			}
		}
	}
	return patterns
}
