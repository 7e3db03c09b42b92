package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
)

func newCardDiffCmd(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "diff",
		Short: "Compare what the relay serves with what would be published now",
		Long: `Compare the card and the descriptor that the relay serves with what would be
published now. The relay's are verified as others do. Nothing is published; times,
prekey and signatures differ each time and are not compared.`,
	}
	return a.leaf(c, 0, 0, []any{cardDiffAnswer{}}, func(ctx context.Context, _ []string) error { return runCardDiff(ctx, a) })
}

// cardDiffAnswer lists the members that differ. DescriptorExpiresAt is that of the
// one served, null without one.
type cardDiffAnswer struct {
	Relay               string       `json:"relay"`
	DescriptorExpiresAt *int64       `json:"descriptor_expires_at"`
	Changes             []cardDiffed `json:"changes"`
}

// cardDiffed is a member that differs, null where it is missing.
type cardDiffed struct {
	Member    string          `json:"member"`
	Published json.RawMessage `json:"published"`
	Now       json.RawMessage `json:"now"`
}

func (r cardDiffAnswer) text(p *page) {
	if len(r.Changes) == 0 {
		p.line("%s serves what would be published now", r.Relay)
		return
	}
	p.head("MEMBER", "AT THE RELAY", "NOW")
	for _, c := range r.Changes {
		p.row(clean(c.Member, false), memberText(c.Published), memberText(c.Now))
	}
}

// memberText writes a member for people: texts and lists of them as they are, all
// else as JSON.
func memberText(raw json.RawMessage) string {
	var text string
	var list []string
	switch {
	case string(raw) == "null":
		return "-"
	case json.Unmarshal(raw, &text) == nil:
		return clean(text, false)
	case json.Unmarshal(raw, &list) == nil:
		return clean(strings.Join(list, " "), false)
	}
	return string(cleanJSON(raw))
}

func runCardDiff(ctx context.Context, a *app) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := a.deadline(ctx)
	defer cancel()
	now, err := s.Draft()
	if err != nil {
		return err
	}
	served, expires, err := s.Served(ctx)
	if err != nil {
		return err
	}
	changes, err := compareDrafts(served, now)
	if err != nil {
		return err
	}
	return a.print(cardDiffAnswer{Relay: s.relay, DescriptorExpiresAt: timeOrNull(expires), Changes: changes})
}

func compareDrafts(served, now core.Draft) ([]cardDiffed, error) {
	changes := []cardDiffed{}
	before, after := draftMembers(served), draftMembers(now)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		published, err := json.Marshal(before[name])
		if err != nil {
			return nil, err
		}
		wanted, err := json.Marshal(after[name])
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(published, wanted) {
			changes = append(changes, cardDiffed{name, published, wanted})
		}
	}
	return changes, nil
}

// draftMembers returns the members of a draft by name, nil for what it does not
// have.
func draftMembers(d core.Draft) map[string]any {
	members := map[string]any{
		"card.home": nil, "card.handle": nil, "card.contact": nil, "card.listed": nil, "card.description": nil, "card.image": nil,
		"card.tags": nil, "card.pay": nil, "card.erc8004": nil, "descriptor.relays": nil, "descriptor.profiles": nil, "descriptor.ext": nil,
	}
	set := func(name, text string) {
		if text != "" {
			members[name] = text
		}
	}
	if c := d.Card; c != nil {
		claims := describeClaims(*c)
		members["card.listed"] = c.Listed
		set("card.home", c.Home)
		set("card.handle", c.Handle)
		set("card.contact", c.Contact)
		set("card.description", claims.Description)
		set("card.image", claims.Image)
		if len(claims.Tags) > 0 {
			members["card.tags"] = claims.Tags
		}
		if len(claims.Pay) > 0 {
			members["card.pay"] = claims.Pay
		}
		if len(claims.ERC8004) > 0 {
			members["card.erc8004"] = claims.ERC8004
		}
	}
	if d.Relays != nil {
		members["descriptor.relays"] = d.Relays
		members["descriptor.profiles"] = describeProfiles(d.Profiles)
		members["descriptor.ext"] = rawExt(d.Ext)
	}
	return members
}
