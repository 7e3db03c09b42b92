package delegation

import (
	"unicode/utf8"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// Action is the signing action of a credential, its profile's ID
// (02#signing-actions).
const Action = profile.DelegationID

// Credential is a decoded delegation credential (delegation#credentials). It is
// immutable.
type Credential struct {
	profile.Credential
	value wire.Value
}

// Value returns the credential as JSON, for a message body or an ext.
func (c *Credential) Value() wire.Value { return c.value }

// Raw returns the canonical JSON of the credential.
func (c *Credential) Raw() []byte { return c.value.Canonical() }

// Decode reads a closed credential and checks the field rules of
// delegation#credentials at now, but neither its expiry nor its signature.
// Codes: invalid_argument (the clock), invalid_authorization.
func Decode(v wire.Value, now int64) (*Credential, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	r := wire.NewReader(v, "credential")
	c := &Credential{Credential: profile.ReadCredential(r, now), value: v}
	if err := r.Err(); err != nil {
		return nil, fault.Wrap(fault.InvalidAuthorization, err)
	}
	return c, nil
}

// Verify checks a credential under the pinned log of its issuer, who has to be
// looked up first: a failure to do so is never read as "not delegated"
// (delegation#verifying-a-credential). The answer holds for that pin alone.
//
// Codes: invalid_argument (the clock), invalid_authorization,
// stale_peer_binding.
func (c *Credential) Verify(issuer *kel.State, now int64) error {
	if err := wire.CheckTime(now); err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	if issuer.ACEID() != c.Issuer {
		return fault.New(fault.InvalidAuthorization, "credential.issuer: not the identity of that log")
	}
	if now >= c.ExpiresAt {
		return fault.New(fault.InvalidAuthorization, "credential.expiresAt: passed at %d", now)
	}
	return issuer.VerifySignature(Action, c.Signature, c.IssuedAt, now, c.claims(), fault.InvalidAuthorization)
}

// claims returns what the issuer signs.
func (c *Credential) claims() []byte { return c.value.Without("signature").Canonical() }

// Build signs a credential from id for subject, valid until expiresAt in Unix
// seconds, at most 604800 after its issue (delegation#credentials).
//
// Codes: invalid_argument (the clock, or fields that no verifier accepts),
// identity_unavailable.
func Build(id *kel.Identity, subject string, expiresAt, now int64) (*Credential, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	if !utf8.ValidString(subject) {
		return nil, fault.New(fault.InvalidArgument, "credential.subject: not an ACE ID")
	}
	t := id.SigningTime(now)
	claims := wire.NewObject(
		wire.M("issuer", wire.NewString(id.ACEID())),
		wire.M("subject", wire.NewString(subject)),
		wire.M("issuedAt", wire.NewInt(t)),
		wire.M("expiresAt", wire.NewInt(expiresAt)),
	)
	sig, err := id.Sign(Action, t, claims.Canonical())
	if err != nil {
		return nil, err
	}
	c, err := Decode(claims.With("signature", sig.Object()), now)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	return c, nil
}
