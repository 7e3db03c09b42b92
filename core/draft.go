package core

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// Draft is what an identity says of itself, without what each publication adds:
// times, prekey and signatures.
type Draft struct {
	Card     *descriptor.CardRecord // nil: no card record
	Relays   []string               // nil: no descriptor
	Profiles []descriptor.Profile
	Ext      wire.Value // null for none
}

// Draft returns what a publication would say now. Nothing is stored or sent.
// Codes: invalid_argument for fields that no verifier accepts, also without a
// relay, identity_unavailable.
func (e *Endpoint) Draft() (Draft, error) {
	now, err := e.now()
	if err != nil {
		return Draft{}, err
	}
	record := e.config.Card
	record.Home = e.config.Relay
	bundle, err := descriptor.BuildCard(e.config.Identity, record, now, -1, e.options())
	if err != nil {
		return Draft{}, err
	}
	d := Draft{Card: &bundle.CardRecord, Relays: []string{e.config.Relay}, Profiles: e.listed(), Ext: e.ext(now)}
	return d, fault.Wrap(fault.InvalidArgument, e.checkExt(d, now))
}

// checkExt checks the ext of a draft as a verifier does (04#extensions).
func (e *Endpoint) checkExt(d Draft, now int64) error {
	if d.Ext.Kind() == wire.Null {
		return nil
	}
	ids := make([]string, len(d.Profiles))
	for i, p := range d.Profiles {
		ids[i] = p.ID
	}
	return profile.CheckExt(d.Ext, ids, e.ACEID(), now)
}

// Served returns what the home relay serves of this identity, verified under its
// own log, and when the descriptor ends, 0 without one. Codes: those of
// 04#verification, 04#card-record and 07#client-rules.
func (e *Endpoint) Served(ctx context.Context) (d Draft, expiresAt int64, err error) {
	now, err := e.now()
	if err != nil {
		return Draft{}, 0, err
	}
	o := e.options()
	o.Pin = e.config.Identity.State()
	served, err := e.client.Descriptor(ctx, e.config.Relay, e.ACEID())
	if err == nil {
		var agent *descriptor.PublishedAgent
		if agent, err = descriptor.VerifyValue(served, now, o); err == nil {
			d.Relays, d.Profiles, d.Ext, expiresAt = agent.Relays, agent.Profiles, agent.Ext, agent.ExpiresAt
		}
	}
	if err != nil && !errors.Is(err, fault.UnknownPeer) {
		return Draft{}, 0, err
	}
	served, err = e.client.Card(ctx, e.config.Relay, e.ACEID())
	if err == nil {
		var bundle *descriptor.CardBundle
		if bundle, err = descriptor.VerifyCardValue(served, now, o); err == nil {
			d.Card = &bundle.CardRecord
		}
	}
	if err != nil && !errors.Is(err, fault.UnknownPeer) {
		return Draft{}, 0, err
	}
	return d, expiresAt, nil
}

// ext returns the configured ext at now. What an issuer does not renew is revoked
// (delegation#credentials), so a credential that has ended is not published on.
func (e *Endpoint) ext(now int64) wire.Value {
	value, ok := e.config.Ext.Get(profile.DelegationID)
	if !ok {
		return e.config.Ext
	}
	credentials, _ := value.Get("credentials")
	var valid []wire.Value
	for _, c := range credentials.Items() {
		end, _ := c.Get("expiresAt")
		if at, ok := end.AsInt(); !ok || now < at {
			valid = append(valid, c) // one that is malformed is for the verifier to refuse
		}
	}
	ext := e.config.Ext.Without(profile.DelegationID)
	if len(valid) > 0 {
		ext = ext.With(profile.DelegationID, wire.NewObject(wire.M("credentials", wire.NewArray(valid...))))
	}
	if len(ext.Members()) == 0 {
		return wire.Value{}
	}
	return ext
}
