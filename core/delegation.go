package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/profile/delegation"
	"github.com/ace-toolkit/ace/core/wire"
)

// IssueCredential signs that subject acts on behalf of this identity for the next
// seconds, at most 604800 (delegation#credentials). It is not sent: that is for a
// message of type ace:delegation:1. Codes: invalid_argument,
// identity_unavailable.
func (e *Endpoint) IssueCredential(subject string, seconds int64) (*delegation.Credential, error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	return delegation.Build(e.config.Identity, subject, now+seconds, now)
}

// VerifyCredential looks the issuer of a credential up, pins it, and verifies the
// credential under that pin (delegation#verifying-a-credential). A failure to look
// the issuer up is returned as it is, and says nothing about the delegation.
// Codes: invalid_authorization, stale_peer_binding, and those of a lookup.
func (e *Endpoint) VerifyCredential(ctx context.Context, credential wire.Value) (*delegation.Credential, error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	c, err := delegation.Decode(credential, now)
	if err != nil {
		return nil, err
	}
	issuer := e.config.Identity.State()
	if c.Issuer != e.ACEID() {
		found, err := e.node.Lookup(ctx, c.Issuer, now)
		if err != nil {
			return nil, err
		}
		issuer = found.Pin
	}
	return c, c.Verify(issuer, now)
}
