package descriptor

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ace-toolkit/ace/core/wire"
)

const (
	maxDescription = 256 // characters
	maxTags        = 10
	maxTagLength   = 32
	maxERC8004     = 4
)

// The values of a card record's contact (04#card-record).
const (
	ContactOpen   = "open"
	ContactClosed = "closed"
)

// ERC8004 is one entry of a card record's erc8004: a claim to an entry in an
// agent registry on a chain.
type ERC8004 struct{ AgentRegistry, AgentID string }

// Card is the card member (04#card): self-assertions for discovery, empty
// where absent.
type Card struct {
	Description string   // at most 256 characters
	Image       string   // an ACE HTTPS URL
	Tags        []string // at most 10
}

// CardRecord holds the fields of a card record (04#card-record).
type CardRecord struct {
	ACEID    string
	IssuedAt int64
	Home     string // canonical relay URL of the relay that holds the record
	Handle   string // "" absent
	Card     Card
	Pay      []string // CAIP-10 accounts, claimed and not proven
	ERC8004  []ERC8004
	Contact  string // open or closed
	Listed   bool
}

// CardBundle is a decoded CardBundle {kel, card} (04#card-record). It is
// immutable.
type CardBundle struct {
	document
	CardRecord
	Signature wire.Signature
}

// decodeCard reads the closed objects and the field rules that hold at any
// time, both size bounds included. The error is plain.
func decodeCard(v wire.Value, policy wire.URLPolicy) (*CardBundle, error) {
	b := &CardBundle{}
	object, err := b.open(v, "card bundle", "card")
	if err != nil {
		return nil, err
	}
	r := wire.NewReader(object, "card record")
	b.ACEID, b.IssuedAt = r.ACEID("aceId"), r.Int("issuedAt")
	b.Home, b.Handle = readHome(r, policy)
	b.Card = readCard(r.Object("card"))
	b.Pay = readDistinct(r, "pay", 1, wire.MaxPayAccounts, "CAIP-10 account", wire.IsCAIP10)
	b.ERC8004 = readERC8004(r)
	b.Contact = r.Matching("contact", "contact setting", func(s string) bool { return s == ContactOpen || s == ContactClosed })
	b.Listed = r.Bool("listed")
	b.Signature = r.Signature("signature")
	if err := r.Close(); err != nil {
		return nil, err
	}
	if n := len(object.Canonical()); n > wire.MaxCardRecordBytes {
		return nil, fmt.Errorf("card record: %d bytes, more than %d", n, wire.MaxCardRecordBytes)
	}
	return b, nil
}

func readHome(r *wire.Reader, policy wire.URLPolicy) (home, handle string) {
	home = r.String("home")
	if err := wire.CheckRelayURL(home, policy); err != nil {
		r.FailMember("home", "%v", err)
	}
	if !r.Has("handle") {
		return home, ""
	}
	if wire.RelayHasPath(home) {
		r.FailMember("handle", "only with a home without a path")
	}
	return home, r.Matching("handle", "handle", wire.IsHandle)
}

// readCard reads the closed object of 04#card.
func readCard(r *wire.Reader) Card {
	var c Card
	if r.Has("description") {
		c.Description = r.Matching("description", "description of at most 256 characters without control characters", isDescription)
	}
	if r.Has("image") {
		c.Image = r.Matching("image", "HTTPS URL", wire.IsHTTPSURL)
	}
	c.Tags = readDistinct(r, "tags", 0, maxTags, "tag", isTag)
	_ = r.Close() // the error is that of the record's reader as well
	return c
}

func isDescription(s string) bool {
	return utf8.RuneCountInString(s) <= maxDescription && !wire.HasControl(s)
}

// isTag reports whether s matches ^[a-z0-9-]{1,32}$.
func isTag(s string) bool {
	return s != "" && len(s) <= maxTagLength && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// readDistinct reads an optional list of low to high distinct strings of one
// grammar.
func readDistinct(r *wire.Reader, name string, low, high int, what string, is func(string) bool) []string {
	if !r.Has(name) {
		return nil
	}
	var list []string
	for i, item := range r.Array(name, low, high) {
		s, isString := item.AsString()
		if !isString || !is(s) {
			r.FailMember(name, "element %d is no %s", i, what)
		}
		if slices.Contains(list, s) {
			r.FailMember(name, "element %d is there twice", i)
		}
		list = append(list, s)
	}
	return list
}

func readERC8004(r *wire.Reader) []ERC8004 {
	if !r.Has("erc8004") {
		return nil
	}
	var list []ERC8004
	for i, item := range r.Array("erc8004", 1, maxERC8004) {
		o := r.Element("erc8004", i, item)
		e := ERC8004{AgentRegistry: o.Matching("agentRegistry", "CAIP-10 account", wire.IsCAIP10), AgentID: o.String("agentId")}
		if !isAgentID(e.AgentID, e.AgentRegistry) {
			o.FailMember("agentId", "not an agent ID of that registry")
		}
		if slices.Contains(list, e) {
			o.Fail("is there twice")
		}
		_ = o.Close() // the error is r's as well
		list = append(list, e)
	}
	return list
}

// isAgentID reports whether s is an agentId of the given registry: a decimal
// string of at most 78 digits in the namespace eip155, else 1 to 128 ASCII
// letters and digits (04#card-record).
func isAgentID(s, registry string) bool {
	namespace, _, _ := strings.Cut(registry, ":")
	const digits = "0123456789"
	if namespace == "eip155" {
		return s == "0" || s != "" && len(s) <= 78 && s[0] != '0' && strings.Trim(s, digits) == ""
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return s != "" && len(s) <= 128 && strings.Trim(s, digits+letters) == ""
}
