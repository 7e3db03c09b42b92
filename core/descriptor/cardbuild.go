package descriptor

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// BuildCard signs a card record, issued at the greatest of now, the time of the
// last KEL event and previousIssuedAt+1; previousIssuedAt is that of the record
// before it, -1 for none (04#verification). It sets ACEID and IssuedAt itself.
// What it returns passes [VerifyCard] at now; of the options it reads URLs
// alone.
//
// Codes: invalid_argument (the clock, or fields that no verifier accepts),
// identity_unavailable.
func BuildCard(id *kel.Identity, r CardRecord, now, previousIssuedAt int64, o Options) (*CardBundle, error) {
	t, err := issueTime(id, now, previousIssuedAt)
	if err != nil {
		return nil, err
	}
	r.ACEID, r.IssuedAt = id.ACEID(), t
	v, err := sign(id, kel.ActionCardRecord, "card", r.claims(), t)
	if err != nil {
		return nil, err
	}
	b, err := cardShapeAt(v, now, o.URLs)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	b.state, b.end = id.State(), id.State().LastHash()
	return b, nil
}

func (r CardRecord) claims() wire.Value {
	members := []wire.Member{
		wire.M("aceId", wire.NewString(r.ACEID)),
		wire.M("issuedAt", wire.NewInt(r.IssuedAt)),
		wire.M("home", wire.NewString(r.Home)),
		wire.M("card", r.Card.value()),
		wire.M("contact", wire.NewString(r.Contact)),
		wire.M("listed", wire.NewBool(r.Listed)),
	}
	if r.Handle != "" {
		members = append(members, wire.M("handle", wire.NewString(r.Handle)))
	}
	if len(r.Pay) > 0 {
		members = append(members, wire.M("pay", stringValues(r.Pay)))
	}
	if len(r.ERC8004) > 0 {
		items := make([]wire.Value, len(r.ERC8004))
		for i, e := range r.ERC8004 {
			items[i] = wire.NewObject(
				wire.M("agentRegistry", wire.NewString(e.AgentRegistry)),
				wire.M("agentId", wire.NewString(e.AgentID)),
			)
		}
		members = append(members, wire.M("erc8004", wire.NewArray(items...)))
	}
	return wire.NewObject(members...)
}

func (c Card) value() wire.Value {
	var members []wire.Member
	if c.Description != "" {
		members = append(members, wire.M("description", wire.NewString(c.Description)))
	}
	if c.Image != "" {
		members = append(members, wire.M("image", wire.NewString(c.Image)))
	}
	if len(c.Tags) > 0 {
		members = append(members, wire.M("tags", stringValues(c.Tags)))
	}
	return wire.NewObject(members...)
}
