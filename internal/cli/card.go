package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

func newCardCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "card", Short: "Show and change what an identity says of itself"},
		newCardShowCmd(a), newCardSetCmd(a), newCardDiffCmd(a), newCardRegistrationCmd(a))
}

func newCardShowCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "show [PEER]",
		Short: "Show your card as it would be published now, or that of a peer",
		Long: `Show your card, and what your descriptor says beside it, as they would be published
now; ace card diff compares that with what the relay serves. Of a PEER it is what a
lookup verifies, which also pins the peer. Nobody but its author vouches for a
card: an account to pay to is claimed, not proven.`,
		Example:           "  ace card show @bob@relay.example",
		ValidArgsFunction: a.complete(1, peerValues),
	}
	return a.leaf(c, 0, 1, []any{ownCardAnswer{}, peerAnswer{}}, func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			return runCardShowPeer(ctx, a, args[0])
		}
		return runCardShow(ctx, a)
	})
}

// ownCardAnswer is the own card as the settings have it. Profiles and ext are those
// of the descriptor.
type ownCardAnswer struct {
	Name     string          `json:"name"`
	ACEID    string          `json:"ace_id"`
	IssuedAt *int64          `json:"issued_at"` // of the card last signed, null for none
	Relay    *string         `json:"relay"`     // that has taken it, null for none
	Home     string          `json:"home"`
	Handle   *string         `json:"handle"`
	Contact  string          `json:"contact"`
	Listed   bool            `json:"listed"`
	Card     cardUntrusted   `json:"card"`
	Profiles []profileDigest `json:"profiles"`
	Ext      json.RawMessage `json:"ext"`
	Accept   []string        `json:"accept"` // profiles whose requests are accepted by themselves
}

func (r ownCardAnswer) text(p *page) {
	p.row("identity", r.Name)
	p.row("ace id", r.ACEID)
	p.row("home", r.Home)
	p.row("handle", orDash(r.Handle))
	p.row("contact", r.Contact)
	p.row("listed", yesNo(r.Listed))
	r.Card.text(p)
	p.row("profiles", profileNames(r.Profiles))
	textExt(p, r.Ext)
	if len(r.Accept) > 0 {
		p.row("accepts by itself", strings.Join(r.Accept, " "))
	}
	if r.Relay == nil {
		p.row("published", "no")
		return
	}
	p.row("published", p.timeOr(r.IssuedAt))
}

func runCardShowPeer(ctx context.Context, a *app, typed string) error {
	return a.withPeer(ctx, a.open, (*session).peer, typed, func(ctx context.Context, s *session, id string) error {
		found, err := s.Lookup(ctx, id)
		if err != nil {
			return err
		}
		return a.print(newPeerAnswer(found))
	})
}

func runCardShow(ctx context.Context, a *app) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	answer, err := newOwnCardAnswer(ctx, s)
	if err != nil {
		return err
	}
	return a.print(answer)
}

func newOwnCardAnswer(ctx context.Context, s *session) (ownCardAnswer, error) {
	if s.relay == "" {
		return ownCardAnswer{}, errNoRelay(s.id)
	}
	d, err := s.Draft()
	if err != nil {
		return ownCardAnswer{}, err
	}
	signed, at, err := s.OwnCard(ctx)
	if err != nil {
		return ownCardAnswer{}, err
	}
	r := ownCardAnswer{
		Name: s.id.name, ACEID: s.ACEID(), Relay: orNull(at), Home: d.Card.Home, Handle: orNull(handleAddress(d.Card.Handle, d.Card.Home)),
		Contact: d.Card.Contact, Listed: d.Card.Listed, Card: describeClaims(*d.Card), Profiles: describeProfiles(d.Profiles), Ext: rawExt(d.Ext),
		Accept: []string{},
	}
	if signed != nil {
		r.IssuedAt = &signed.IssuedAt
	}
	for id := range s.app.acceptRules(s.id) {
		r.Accept = append(r.Accept, id)
	}
	slices.Sort(r.Accept)
	return r, nil
}

// describeClaims returns what only its author vouches for in a card record.
func describeClaims(r descriptor.CardRecord) cardUntrusted {
	u := cardUntrusted{
		Description: r.Card.Description, Image: r.Card.Image, Tags: append([]string{}, r.Card.Tags...), Pay: append([]string{}, r.Pay...),
		ERC8004: []registryAnswer{},
	}
	for _, e := range r.ERC8004 {
		u.ERC8004 = append(u.ERC8004, registryAnswer{e.AgentRegistry, e.AgentID})
	}
	return u
}

func describeProfiles(profiles []descriptor.Profile) []profileDigest {
	list := []profileDigest{}
	for _, p := range profiles {
		list = append(list, profileDigest{p.ID, p.Digest})
	}
	return list
}

func profileNames(profiles []profileDigest) string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.ID)
	}
	return clean(strings.Join(names, " "), false)
}

// rawExt is an ext as JSON, null for none.
func rawExt(ext wire.Value) json.RawMessage { return ext.Canonical() }

// textExt tells of the values of official profiles in an ext; those of others are
// opaque (04#extensions).
func textExt(p *page, raw json.RawMessage) {
	ext, err := wire.Parse(raw, wire.MaxJSONDepth)
	if err != nil {
		return
	}
	commerce, _ := ext.Get(profile.CommerceID)
	methods, _ := commerce.Get("settlement")
	for _, m := range methods.Items() {
		p.row("takes", clean(settlementText(m), false))
	}
	delegation, _ := ext.Get(profile.DelegationID)
	credentials, _ := delegation.Get("credentials")
	for _, c := range credentials.Items() {
		issuer, _ := c.Get("issuer")
		end, _ := c.Get("expiresAt")
		id, _ := issuer.AsString()
		until, _ := end.AsInt()
		p.row("claims to act for", clean(id, false), "ends "+p.time(until)+", not verified")
	}
}

// settlementText writes a settlement method as ace card set takes it.
func settlementText(m wire.Value) string {
	member := func(name string) string {
		v, _ := m.Get(name)
		s, _ := v.AsString()
		return s
	}
	if asset := member("asset"); asset != "" {
		return member("method") + ":" + asset
	}
	return member("method")
}
