// Package admission keeps the rules of chapter 05 that can be decided from
// bytes, state and a clock reading: delivery permits, contact bodies, whose
// packets go on at step 2 of the receive pipeline, and which contact requests
// are held. The table itself is stored elsewhere.
//
// Start at [VerifyPermit] and [IssuePermit], [DecodeContact] and [Receive].
package admission

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Permit is a delivery permit: it lets Subject deliver packets to Issuer through
// the issuer's relays (05#delivery-permits). It is a bearer credential.
type Permit struct {
	Issuer, Subject     string // distinct ACE IDs
	IssuedAt, ExpiresAt int64  // Unix seconds
	Signature           wire.Signature

	value wire.Value
	raw   []byte
}

// Raw returns the canonical JSON of the permit, which the caller must not
// change.
func (p *Permit) Raw() []byte { return p.raw }

// Value returns the permit as JSON.
func (p *Permit) Value() wire.Value { return p.value }

// Digest returns the hex SHA-256 of [Permit.Raw].
func (p *Permit) Digest() string { return suite.Hex256(p.raw) }

// DecodePermit reads a permit and checks the rules that need neither clock nor
// key event log (05#delivery-permits). Code: invalid_authorization.
func DecodePermit(v wire.Value) (*Permit, error) {
	r := wire.NewReader(v, "permit")
	p := &Permit{
		Issuer:    r.ACEID("issuer"),
		Subject:   r.ACEID("subject"),
		IssuedAt:  r.Int("issuedAt"),
		ExpiresAt: r.Int("expiresAt"),
		Signature: r.Signature("signature"),
	}
	switch {
	case p.Issuer == p.Subject:
		r.FailMember("subject", "equals issuer")
	case p.IssuedAt >= p.ExpiresAt:
		r.FailMember("expiresAt", "not after issuedAt")
	case p.ExpiresAt-p.IssuedAt > wire.MaxPermitLifetime:
		r.FailMember("expiresAt", "more than %d s after issuedAt", wire.MaxPermitLifetime)
	}
	if err := r.Close(); err != nil {
		return nil, fault.Wrap(fault.InvalidAuthorization, err)
	}
	p.value, p.raw = v, v.Canonical()
	return p, nil
}

// Verify checks that issuer, whose state is given, issued the permit to subject
// and that it is valid at now (05#delivery-permits). Codes: invalid_argument
// (clock), invalid_authorization, stale_peer_binding.
func (p *Permit) Verify(state *kel.State, issuer, subject string, now int64) error {
	if err := p.terms().check(state, issuer, subject, now); err != nil {
		return err
	}
	if err := p.checkSignature(state); err != nil {
		return err
	}
	return state.CheckUsable(now)
}

// terms are the claims of a permit.
type terms struct {
	issuer, subject     string
	issuedAt, expiresAt int64
}

func (p *Permit) terms() terms {
	return terms{issuer: p.Issuer, subject: p.Subject, issuedAt: p.IssuedAt, expiresAt: p.ExpiresAt}
}

// check is all of [Permit.Verify] that precedes the signature.
func (t terms) check(state *kel.State, issuer, subject string, now int64) error {
	if err := wire.CheckTime(now); err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	switch {
	case t.issuer != issuer || state.ACEID() != issuer:
		return fault.New(fault.InvalidAuthorization, "permit.issuer: not %s", issuer)
	case t.subject != subject:
		return fault.New(fault.InvalidAuthorization, "permit.subject: not %s", subject)
	case t.issuedAt > now+wire.TimestampWindowSeconds:
		return fault.New(fault.InvalidAuthorization, "permit.issuedAt: more than %d s ahead", wire.TimestampWindowSeconds)
	case now >= t.expiresAt:
		return fault.New(fault.InvalidAuthorization, "permit.expiresAt: %d has passed", t.expiresAt)
	}
	return nil
}

// checkSignature is the part of [Permit.Verify] that stays true for as long as
// the log does not change.
func (p *Permit) checkSignature(state *kel.State) error {
	claims := p.value.Without("signature").Canonical()
	return state.CheckSignature(kel.ActionDeliveryPermit, p.Signature, p.IssuedAt, claims, fault.InvalidAuthorization)
}

// VerifyPermit is [DecodePermit] and [Permit.Verify].
func VerifyPermit(v wire.Value, state *kel.State, issuer, subject string, now int64) (*Permit, error) {
	p, err := DecodePermit(v)
	if err != nil {
		return nil, err
	}
	if err := p.Verify(state, issuer, subject, now); err != nil {
		return nil, err
	}
	return p, nil
}

// IssuePermit signs a permit for subject at the identity's signing time, valid
// for lifetime seconds, at most MAX_PERMIT_LIFETIME. Codes: invalid_argument,
// identity_unavailable.
func IssuePermit(id *kel.Identity, subject string, now, lifetime int64) (*Permit, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	t := id.SigningTime(now)
	switch {
	case !wire.IsACEID(subject) || subject == id.ACEID():
		return nil, fault.New(fault.InvalidArgument, "permit: subject %.80q is not the ACE ID of another agent", subject)
	case lifetime < 1 || lifetime > wire.MaxPermitLifetime:
		return nil, fault.New(fault.InvalidArgument, "permit: lifetime of %d s, outside [1, %d]", lifetime, wire.MaxPermitLifetime)
	case wire.CheckTime(t+lifetime) != nil:
		return nil, fault.New(fault.InvalidArgument, "permit: expiresAt %d is not a wire integer", t+lifetime)
	}
	claims := wire.NewObject(
		wire.M("issuer", wire.NewString(id.ACEID())),
		wire.M("subject", wire.NewString(subject)),
		wire.M("issuedAt", wire.NewInt(t)),
		wire.M("expiresAt", wire.NewInt(t+lifetime)),
	)
	sig, err := id.Sign(kel.ActionDeliveryPermit, t, claims.Canonical())
	if err != nil {
		return nil, err
	}
	return DecodePermit(claims.With("signature", sig.Object()))
}
