package kel

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// Signing actions of 02#signing-actions. A profile's own action is its ID.
const (
	ActionKEL             = "kel"
	ActionPacket          = "packet"
	ActionAgentDescriptor = "agent-descriptor"
	ActionDeliveryPermit  = "delivery-permit"
	ActionCardRecord      = "card-record"
	ActionRegisterRequest = "register-request"
	ActionListen          = "listen"
	ActionInbox           = "inbox"
	ActionInboxAck        = "inbox-ack"
	ActionBlock           = "block"
	ActionUnregister      = "unregister"
	ActionWake            = "wake"
)

// domain is the first field of every signed message.
const domain = "ace.v1"

// Message returns M, the message that every signature signs (02#signatures).
// The timestamp is in Unix seconds. seqOrEmpty is empty for an event of a log
// and the decimal seq of the delegation for every other signature.
func Message(aceID string, timestamp int64, seqOrEmpty string, payload []byte) []byte {
	return appendMessage(nil, aceID, timestamp, seqOrEmpty, payload)
}

func appendMessage(m []byte, aceID string, timestamp int64, seqOrEmpty string, payload []byte) []byte {
	ts := wire.Decimal(timestamp)
	m = slices.Grow(m, 5*4+len(domain)+len(aceID)+len(ts)+len(seqOrEmpty)+len(payload))
	m = wire.AppendField(m, domain)
	m = wire.AppendField(m, aceID)
	m = wire.AppendField(m, ts)
	m = wire.AppendField(m, seqOrEmpty)
	return wire.AppendField(m, payload)
}

// VerifySignature checks a delegated signature over payload under this state,
// which is pinned or freshly verified and reconciled with the pin. timestamp
// is the object's signed time, now the clock, both in Unix seconds
// (01#operational-signatures).
//
// Codes: stale_peer_binding, code for a signature that does not verify, and
// invalid_argument for a broken clock.
func (s *State) VerifySignature(action string, sig wire.Signature, timestamp, now int64, payload []byte, code fault.Code) error {
	if err := wire.CheckTime(now); err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	if err := s.CheckSignature(action, sig, timestamp, payload, code); err != nil {
		return err
	}
	return s.CheckUsable(now)
}

// CheckSignature is the part of [State.VerifySignature] that does not depend on
// the clock, steps 1 to 4 of 01#operational-signatures. A signature for which it
// holds is still to be refused when the identity is no longer usable: whoever
// remembers its outcome calls [State.CheckUsable] each time.
//
// The outcome is the same for every state with the same [State.LastHash].
// Codes: stale_peer_binding, code.
func (s *State) CheckSignature(action string, sig wire.Signature, timestamp int64, payload []byte, code fault.Code) error {
	// Step 1, the scheme, is shape: a wire.Signature has no other.
	// Step 2: the seq is that of the current delegation.
	d := s.delegated
	if d == nil {
		return fault.New(fault.StalePeerBinding, "signer has no signing delegation")
	}
	if sig.Seq != d.Seq {
		return fault.New(fault.StalePeerBinding, "signature is by the delegation at seq %d, current is %d", sig.Seq, d.Seq)
	}
	// Step 3: signed while live.
	if timestamp < d.TS || d.NotAfter != 0 && timestamp >= d.NotAfter {
		return fault.New(fault.StalePeerBinding, "signed at %d, outside the life of the delegation at seq %d", timestamp, d.Seq)
	}
	// Step 4: the signature itself.
	m := Message(s.aceID, timestamp, wire.Decimal(d.Seq), payload)
	if !s.key().Verify(m, sig.Value, action) {
		return fault.New(code, "%.80q signature does not verify", action)
	}
	return nil
}

// CheckUsable is step 5 of 01#operational-signatures: the identity is usable at
// now, in Unix seconds. Codes: stale_peer_binding, and invalid_argument for a
// broken clock.
func (s *State) CheckUsable(now int64) error {
	if err := wire.CheckTime(now); err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	if !s.Usable(now) {
		return fault.New(fault.StalePeerBinding, "signer is not usable at %d", now)
	}
	return nil
}

// Signer holds the delegated signing key.
type Signer interface {
	// PublicKey returns the 1952 bytes of the public key.
	PublicKey() []byte
	// Sign signs message with the ML-DSA context string.
	Sign(message []byte, context string) ([]byte, error)
}

// Identity is a local identity: its own verified log and the signer of its
// current delegation. It is as safe for concurrent use as its signer.
type Identity struct {
	state  *State
	signer Signer
}

// NewIdentity joins a log and a signer. Whether they belong together is
// checked by each Sign.
func NewIdentity(state *State, signer Signer) *Identity {
	return &Identity{state: state, signer: signer}
}

// ACEID returns the name of the identity.
func (i *Identity) ACEID() string { return i.state.aceID }

// State returns the identity's own log.
func (i *Identity) State() *State { return i.state }

// SigningTime returns t = max(now, ts of the last event), the timestamp of
// what is signed at now (01#operational-signatures).
func (i *Identity) SigningTime(now int64) int64 { return max(now, i.state.LastTS()) }

// ErrDelegationEnded is in the chain of the error, identity_unavailable, of a
// signature behind the end of the delegation.
var ErrDelegationEnded = errors.New("signing delegation ended")

// Sign checks the identity at t, as 01#operational-signatures asks of a
// signer, and signs action over payload. t comes from [Identity.SigningTime],
// or is later where 04#verification asks for more.
//
// Codes: identity_unavailable for an identity that cannot sign at t, a signer
// of another key or one that fails; invalid_argument for a broken clock.
func (i *Identity) Sign(action string, t int64, payload []byte) (wire.Signature, error) {
	if err := wire.CheckTime(t); err != nil {
		return wire.Signature{}, fault.Wrap(fault.InvalidArgument, err)
	}
	d := i.state.delegated
	switch {
	case d == nil:
		return wire.Signature{}, fault.New(fault.IdentityUnavailable, "identity has no signing delegation")
	case t < i.state.LastTS():
		return wire.Signature{}, fault.New(fault.IdentityUnavailable, "signing time %d is before the last event of the identity", t)
	case !i.state.Usable(t):
		return wire.Signature{}, fault.Wrap(fault.IdentityUnavailable, fmt.Errorf("%w at %d", ErrDelegationEnded, d.NotAfter))
	case !bytes.Equal(i.signer.PublicKey(), d.Key):
		return wire.Signature{}, fault.New(fault.IdentityUnavailable, "signing key is not that of the delegation at seq %d", d.Seq)
	}
	value, err := i.signer.Sign(Message(i.state.aceID, t, wire.Decimal(d.Seq), payload), action)
	if err != nil {
		return wire.Signature{}, fault.Wrapf(fault.IdentityUnavailable, err, "signer")
	}
	if len(value) != wire.SignatureBytes {
		return wire.Signature{}, fault.New(fault.IdentityUnavailable, "signer returned %d bytes, not %d", len(value), wire.SignatureBytes)
	}
	return wire.Signature{Seq: d.Seq, Value: value}, nil
}
