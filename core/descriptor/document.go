package descriptor

import (
	"fmt"
	"unicode/utf8"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// maxText bounds the text of a document before it is parsed, in bytes. Its
// canonical form has at most 1048576; the rest is room for blanks and escapes.
const maxText = 2 * wire.MaxPublishedAgentBytes

// Options of a verifier. The zero value is that of production.
type Options struct {
	URLs wire.URLPolicy // Development also accepts http with a loopback host
	KELs *kel.Cache     // nil: verify every log
	Pin  *kel.State     // nil: none; else the kel carried is reconciled with it (01#pinning)
}

// document is what a PublishedAgent and a CardBundle have in common: a kel and
// one object signed under it.
type document struct {
	value        wire.Value
	raw          []byte
	kel          wire.Value
	claims       []byte // canonical JSON of the signed object's claims
	claimsDigest string
	end          string
	state        *kel.State
}

// State returns the state of the kel that the document carries. It is nil for
// a document read back from the store.
func (d *document) State() *kel.State { return d.state }

// Raw returns the canonical JSON of the whole document, at most 1048576 bytes.
// The caller must not change it.
func (d *document) Raw() []byte { return d.raw }

// Value returns the whole document as JSON.
func (d *document) Value() wire.Value { return d.value }

// ClaimsDigest returns the hex SHA-256 of the canonical claims: two documents
// with the same digest say the same.
func (d *document) ClaimsDigest() string { return d.claimsDigest }

// KELEnd returns the hash of the last event of the kel that the document
// carries, to compare with [kel.State.LastHash] of a pin.
func (d *document) KELEnd() string { return d.end }

// parse reads the text of a document. Code: invalid_authorization.
func parse(data []byte) (wire.Value, error) {
	if len(data) > maxText {
		return wire.Value{}, fault.New(fault.InvalidAuthorization, "text of %d bytes, more than %d", len(data), maxText)
	}
	v, err := wire.Parse(data, wire.MaxJSONDepth)
	return v, fault.Wrap(fault.InvalidAuthorization, err)
}

// open reads the closed object {kel, <signed>} within the bounds that hold for
// it as a whole, and leaves the signed object to the caller.
func (d *document) open(v wire.Value, path, signed string) (wire.Value, error) {
	r := wire.NewReader(v, path)
	d.kel = r.Value("kel") // a kel that is no list is for the log's verifier to refuse
	object := r.Value(signed)
	if err := r.Close(); err != nil {
		return wire.Value{}, err
	}
	if !v.WithinDepth(wire.MaxJSONDepth) {
		return wire.Value{}, fmt.Errorf("%s: nested deeper than %d", path, wire.MaxJSONDepth)
	}
	d.value, d.raw = v, v.Canonical()
	if len(d.raw) > wire.MaxPublishedAgentBytes {
		return wire.Value{}, fmt.Errorf("%s: %d bytes, more than %d", path, len(d.raw), wire.MaxPublishedAgentBytes)
	}
	d.claims = object.Without("signature").Canonical()
	d.claimsDigest = suite.Hex256(d.claims)
	return object, nil
}

// authenticate runs steps 2 and 3 of 04#verification, which 04#card-record
// shares. Codes: invalid_kel invalid_signature invalid_authorization
// kel_conflict stale_peer_binding.
func (d *document) authenticate(action, aceID string, sig wire.Signature, issuedAt, now int64, o Options) error {
	state, err := o.KELs.Verify(d.kel, now)
	if err != nil {
		return err
	}
	if !state.Usable(now) {
		return fault.New(fault.InvalidKEL, "kel: not usable at %d", now)
	}
	if state.ACEID() != aceID {
		return fault.New(fault.InvalidAuthorization, "aceId: not that of the kel")
	}
	// 01#pinning: the signature is judged under the state after
	// reconciliation, so that a prefix of the pinned log never reinstates a
	// superseded delegation. The fork is found after the aceId, which 04 and
	// 01 leave open.
	_, bound, err := kel.Reconcile(o.Pin, state)
	if err != nil {
		return err
	}
	d.state, d.end = state, state.LastHash()
	return bound.VerifySignature(action, sig, issuedAt, now, d.claims, fault.InvalidAuthorization)
}

// sign completes a document built here: the claims signed as action at t, and
// the signer's own log. Codes: invalid_argument identity_unavailable.
func sign(id *kel.Identity, action, name string, claims wire.Value, t int64) (wire.Value, error) {
	payload := claims.Canonical()
	if !utf8.Valid(payload) {
		return wire.Value{}, fault.New(fault.InvalidArgument, "%s: text that is not UTF-8", name)
	}
	sig, err := id.Sign(action, t, payload)
	if err != nil {
		return wire.Value{}, err
	}
	return wire.NewObject(
		wire.M("kel", id.State().Value()),
		wire.M(name, claims.With("signature", sig.Object())),
	), nil
}

// issueTime is the issuedAt of the next document after the one issued at
// previous, -1 for none (04#verification).
func issueTime(id *kel.Identity, now, previous int64) (int64, error) {
	if err := wire.CheckTime(now); err != nil {
		return 0, fault.Wrap(fault.InvalidArgument, err)
	}
	return max(id.SigningTime(now), previous+1), nil
}

// checkIssued reports an issuedAt too far ahead of now (04#fields,
// 04#card-record).
func checkIssued(issuedAt, now int64) error {
	if issuedAt > now+wire.TimestampWindowSeconds {
		return fmt.Errorf("issuedAt: more than %d seconds ahead", wire.TimestampWindowSeconds)
	}
	return nil
}

// stringValues returns the strings as a JSON array.
func stringValues(list []string) wire.Value {
	items := make([]wire.Value, len(list))
	for i, s := range list {
		items[i] = wire.NewString(s)
	}
	return wire.NewArray(items...)
}
