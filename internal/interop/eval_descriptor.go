package interop

import (
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// evalPublishedAgent verifies a PublishedAgent (04#verification), under a pin
// if there is one. The state it answers with is that after reconciliation.
func evalPublishedAgent(a *args, now int64) (wire.Value, error) {
	v, o, err := a.document("publishedAgent")
	if err != nil {
		return wire.Value{}, err
	}
	agent, err := descriptor.VerifyValue(v, now, o)
	if err != nil {
		return wire.Value{}, err
	}
	_, state, err := kel.Reconcile(o.Pin, agent.State())
	if err != nil {
		return wire.Value{}, err
	}
	return facts(
		str("aceId", agent.ACEID),
		num("seq", state.Seq()),
		num("delegationSeq", state.Delegated().Seq),
		str("prekeyId", agent.PrekeyID),
	), nil
}

// evalCardBundle verifies a CardBundle (04#card-record).
func evalCardBundle(a *args, now int64) (wire.Value, error) {
	v, o, err := a.document("cardBundle")
	if err != nil {
		return wire.Value{}, err
	}
	b, err := descriptor.VerifyCardValue(v, now, o)
	if err != nil {
		return wire.Value{}, err
	}
	members := []wire.Member{
		str("aceId", b.ACEID),
		str("contact", b.Contact),
		boolean("listed", b.Listed),
	}
	if b.Handle != "" {
		members = append(members, str("handle", b.Handle))
	}
	return facts(members...), nil
}

// document reads the named document and the pinned log of its subject, if any.
func (a *args) document(name string) (wire.Value, descriptor.Options, error) {
	var o descriptor.Options
	v, err := a.object(name, fault.InvalidAuthorization)
	pin, pinned := a.r.Optional("pin")
	if closed := a.close(); closed != nil {
		return v, o, closed
	}
	if err != nil || !pinned || pin.Kind() == wire.Null {
		return v, o, err
	}
	o.Pin, err = storedLog(pin)
	return v, o, err
}
