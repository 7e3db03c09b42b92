package cli

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

func newLookupCmd(a *app) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:               "lookup PEER... | --from FILE|-",
		ValidArgsFunction: a.complete(-1, peerValues),
		Short:             "Fetch, verify and pin what peers publish",
		Long: `Fetch and verify what peers publish, and pin their key event logs. PEER is an
ACE ID, @name@host, a name you gave, or the start of a known peer's ID (at least
12 digits). With several peers, --json answers with one line for each.

With --from the peer's descriptor comes from a file, as ace identity export
--public --descriptor writes it, and no relay is asked.`,
		Example: "  ace lookup @bob@relay.example",
	}
	c.Flags().StringVar(&from, "from", "", "`FILE` with the published descriptor of a peer, - for standard input")
	return a.leaf(c, 0, -1, []any{peerAnswer{}, targetError{}}, func(ctx context.Context, args []string) error {
		switch {
		case from != "" && len(args) > 0:
			return usagef("--from names the peer: leave %q out", args[0])
		case from != "":
			return runLookupFile(ctx, a, from)
		case len(args) == 0:
			return withHint(usagef("which peer?"), "see ace lookup --help")
		}
		return runLookup(ctx, a, args)
	})
}

// peerAnswer is what a lookup verified. Only its author vouches for what is
// below untrusted.
type peerAnswer struct {
	ACEID      string           `json:"ace_id"`
	Pin        string           `json:"pin"`
	KELSeq     *int64           `json:"kel_seq"`
	Descriptor descriptorAnswer `json:"descriptor"`
	Card       *cardAnswer      `json:"card"`

	fromFile bool // no card was asked for
}

type descriptorAnswer struct {
	IssuedAt  int64           `json:"issued_at"`
	ExpiresAt int64           `json:"expires_at"`
	Relays    []string        `json:"relays"`
	PrekeyID  string          `json:"prekey_id"`
	Profiles  []profileDigest `json:"profiles"`
	Untrusted extUntrusted    `json:"untrusted"`
}

// extUntrusted is the ext of a descriptor, null for none. It confers no authority
// (04#extensions).
type extUntrusted struct {
	Ext json.RawMessage `json:"ext"`
}

type profileDigest struct {
	ID     string `json:"id"`
	Digest string `json:"digest"`
}

type cardAnswer struct {
	IssuedAt  int64         `json:"issued_at"`
	Home      string        `json:"home"`
	Handle    *string       `json:"handle"`
	Contact   string        `json:"contact"`
	Listed    bool          `json:"listed"`
	Untrusted cardUntrusted `json:"untrusted"`
}

type cardUntrusted struct {
	Description string           `json:"description"`
	Image       string           `json:"image"`
	Tags        []string         `json:"tags"`
	Pay         []string         `json:"pay"`
	ERC8004     []registryAnswer `json:"erc8004"`
}

// registryAnswer is an entry in an agent registry that a card claims.
type registryAnswer struct {
	AgentRegistry string `json:"agent_registry"`
	AgentID       string `json:"agent_id"`
}

func (r peerAnswer) text(p *page) {
	p.row("ace id", r.ACEID)
	p.row("pin", r.Pin)
	r.Descriptor.text(p)
	if r.fromFile {
		return
	}
	if r.Card == nil {
		p.row("card", "none")
		return
	}
	r.Card.text(p)
}

func (d descriptorAnswer) text(p *page) {
	p.row("relays", strings.Join(d.Relays, " "))
	p.row("descriptor until", p.time(d.ExpiresAt))
	p.row("profiles", profileNames(d.Profiles))
	textExt(p, d.Untrusted.Ext)
}

func (c cardAnswer) text(p *page) {
	p.row("handle", orDash(c.Handle))
	p.row("contact", c.Contact)
	c.Untrusted.text(p)
}

func (u cardUntrusted) text(p *page) {
	if u.Description != "" {
		p.row("says of itself", clean(u.Description, false))
	}
	if u.Image != "" {
		p.row("image", clean(u.Image, false))
	}
	if len(u.Tags) > 0 {
		p.row("tags", clean(strings.Join(u.Tags, " "), false))
	}
	for _, account := range u.Pay {
		p.row("asks to be paid at", clean(account, false))
	}
	for _, e := range u.ERC8004 {
		p.row("claims the registry entry", clean(e.AgentID, false), "of "+clean(e.AgentRegistry, false))
	}
}

func runLookup(ctx context.Context, a *app, peers []string) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	return a.forEach(ctx, peers, func(typed string) error {
		id, err := s.peer(ctx, typed)
		if err != nil {
			return err
		}
		found, err := s.Lookup(ctx, id)
		if err != nil {
			return err
		}
		return a.print(newPeerAnswer(found))
	})
}

func runLookupFile(ctx context.Context, a *app, file string) error {
	text, err := a.readArg(file, wire.MaxPublishedAgentBytes, fault.InvalidAuthorization)
	if err != nil {
		return err
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	found, err := s.ImportAgent(ctx, text)
	if err != nil {
		return err
	}
	answer := newPeerAnswer(found)
	answer.fromFile = true
	return a.print(answer)
}

func newPeerAnswer(p *core.Peer) peerAnswer {
	r := peerAnswer{ACEID: p.ACEID, Pin: p.PinOutcome, Descriptor: describeDescriptor(p.Descriptor)}
	if st := p.Descriptor.State(); st != nil {
		seq := st.Seq()
		r.KELSeq = &seq
	}
	if p.Card != nil {
		card := describeCard(p.Card)
		r.Card = &card
	}
	return r
}

func describeDescriptor(d *descriptor.PublishedAgent) descriptorAnswer {
	r := descriptorAnswer{IssuedAt: d.IssuedAt, ExpiresAt: d.ExpiresAt, Relays: d.Relays, PrekeyID: d.PrekeyID, Profiles: describeProfiles(d.Profiles)}
	r.Untrusted.Ext = rawExt(d.Ext)
	return r
}

func describeCard(b *descriptor.CardBundle) cardAnswer {
	return cardAnswer{
		IssuedAt: b.IssuedAt, Home: b.Home, Handle: orNull(handleAddress(b.Handle, b.Home)), Contact: b.Contact, Listed: b.Listed,
		Untrusted: describeClaims(b.CardRecord),
	}
}
