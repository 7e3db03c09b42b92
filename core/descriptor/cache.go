package descriptor

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// Usable reports whether a cached descriptor may be used at now, to encrypt or
// to report its contents: it is unexpired and its kel ends at the last event
// of the subject's current pin (04#caching).
func (a *PublishedAgent) Usable(now int64, pin *kel.State) bool {
	return wire.CheckTime(now) == nil && now < a.ExpiresAt && endsAt(&a.document, pin)
}

// endsAt reports whether the kel that d carries ends at the last event of pin.
func endsAt(d *document, pin *kel.State) bool {
	return pin != nil && d.end == pin.LastHash()
}

// Replaces decides whether candidate, verified just now, replaces cached (nil:
// none) under the subject's pin after reconciliation (04#caching). It returns
// nil when it does. The cached descriptor can be refused its place whether it
// is expired or not.
//
// Codes: stale_peer_binding (an older candidate), invalid_authorization (an
// equal issuedAt with other claims).
func Replaces(cached, candidate *PublishedAgent, pin *kel.State) error {
	if cached == nil || !endsAt(&cached.document, pin) {
		return nil // nothing held, or the subject's KEL advanced
	}
	if !endsAt(&candidate.document, pin) {
		// 04 is silent on a candidate whose kel is a prefix of the pin. The
		// signature does not cover the kel, so a relay can cut it short; were
		// it to replace the cached descriptor, none would be left to use.
		return fault.New(fault.StalePeerBinding, "descriptor: its kel ends before the pin")
	}
	switch {
	case candidate.IssuedAt < cached.IssuedAt:
		return fault.New(fault.StalePeerBinding, "descriptor: issued at %d, before the one held (%d)", candidate.IssuedAt, cached.IssuedAt)
	case candidate.IssuedAt == cached.IssuedAt && candidate.claimsDigest != cached.claimsDigest:
		return fault.New(fault.InvalidAuthorization, "descriptor: other claims than those held with the same issuedAt")
	}
	return nil
}

// CardHorizon is what a client keeps for good about an identity's card records:
// the highest issuedAt and the digest of the claims at it (04#card-record). The
// zero value is that of an identity none is known of.
type CardHorizon struct {
	IssuedAt     int64
	ClaimsDigest string
}

// Accept checks a verified card record against the horizon, before the rule of
// handles. Code: stale_descriptor.
func (h CardHorizon) Accept(b *CardBundle) error {
	switch {
	case h.ClaimsDigest == "":
		return nil
	case b.IssuedAt < h.IssuedAt:
		return fault.New(fault.StaleDescriptor, "card record: issued at %d, before one seen (%d)", b.IssuedAt, h.IssuedAt)
	case b.IssuedAt == h.IssuedAt && b.claimsDigest != h.ClaimsDigest:
		return fault.New(fault.StaleDescriptor, "card record: other claims than those seen with the same issuedAt")
	}
	return nil
}
