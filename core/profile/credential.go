package profile

import "github.com/ace-toolkit/ace/core/wire"

// MaxCredentialLifetime is the greatest expiresAt - issuedAt of a delegation
// credential, in seconds (delegation#credentials).
const MaxCredentialLifetime = 604800

// Credential is the decoded shape of a delegation credential: the issuer
// declares that the subject acts on its behalf (delegation#credentials). It is
// here, and not with the rest of that profile, because every verifier of a
// descriptor checks it.
type Credential struct {
	Issuer, Subject     string
	IssuedAt, ExpiresAt int64
	Signature           wire.Signature
}

// ReadCredential reads a closed credential and checks the rules that
// delegation#descriptor-extension states for it at now: all but its expiry and
// its signature. The failure is r's.
func ReadCredential(r *wire.Reader, now int64) Credential {
	c := Credential{
		Issuer:    r.ACEID("issuer"),
		Subject:   r.ACEID("subject"),
		IssuedAt:  r.Int("issuedAt"),
		ExpiresAt: r.Int("expiresAt"),
		Signature: r.Signature("signature"),
	}
	switch {
	case c.Issuer == c.Subject:
		r.FailMember("subject", "is the issuer")
	case c.IssuedAt > now+wire.TimestampWindowSeconds:
		r.FailMember("issuedAt", "more than %d seconds ahead", wire.TimestampWindowSeconds)
	case c.IssuedAt >= c.ExpiresAt:
		r.FailMember("expiresAt", "not after issuedAt")
	case c.ExpiresAt-c.IssuedAt > MaxCredentialLifetime:
		r.FailMember("expiresAt", "more than %d seconds after issuedAt", MaxCredentialLifetime)
	}
	_ = r.Close() // the error stays with r
	return c
}
