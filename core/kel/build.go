package kel

import (
	"bytes"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Incept makes a new identity: a log of one icp, signed by root, committing to
// next (the [Commitment] of the next root) at ts, in Unix seconds.
//
// Codes: invalid_argument for a ts, a next or a commitment that is refused;
// identity_unavailable when root cannot sign.
func Incept(root *suite.SigningKey, next string, ts int64) (*State, error) {
	key := root.PublicKey()
	if err := checkNext(next, nil, key); err != nil {
		return nil, err
	}
	return appendEvent(nil, root, Event{Type: Inception, TS: ts, Key: key, Next: next})
}

// Ephemeral makes an identity whose root and next root are forgotten at once: it
// signs for MAX_SIGNING_KEY_LIFETIME seconds from now on and can never be
// rotated or recovered. It is for tests, and for agents that end with their
// process. Code: invalid_argument for a broken clock.
func Ephemeral(now int64) (*Identity, error) {
	root, next, signing := newKey(), newKey(), newKey()
	defer root.Destroy()
	defer next.Destroy()
	log, err := Incept(root, Commitment(wire.SchemeMLDSA65, next.PublicKey()), now)
	if err == nil {
		log, err = log.Delegate(root, signing.PublicKey(), now, now+wire.MaxSigningKeyLifetime)
	}
	if err != nil {
		return nil, err
	}
	return NewIdentity(log, signing), nil
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

// Delegate appends a dlg, signed by the current root, that delegates key at ts
// until notAfter, both in Unix seconds; 0 is no end.
//
// Codes: invalid_argument for what a signer has to refuse
// (01#rotation-and-recovery), a key of another length, times out of bounds, and
// a log that would leave no room for an emergency ([Budget]);
// identity_unavailable when root is not the current root or cannot sign.
func (s *State) Delegate(root *suite.SigningKey, key []byte, ts, notAfter int64) (*State, error) {
	if !bytes.Equal(root.PublicKey(), s.Root()) {
		return nil, fault.New(fault.IdentityUnavailable, "key is not the current root")
	}
	if err := s.checkDelegate(key, ts, notAfter); err != nil {
		return nil, err
	}
	if err := s.Budget().admitDelegation(s.delegated != nil); err != nil {
		return nil, err
	}
	return appendEvent(s, root, Event{Type: Delegation, TS: ts, Key: key, NotAfter: notAfter})
}

// Rotate appends a rot to the committed next root, which signs it, and commits
// to next at ts, in Unix seconds. The delegation ends with it.
//
// Codes: invalid_argument for a ts or a next that is refused
// (01#rotation-and-recovery) and for a log without room for the rot and its dlg
// ([Budget]); identity_unavailable when newRoot is not the committed next root
// or cannot sign.
func (s *State) Rotate(newRoot *suite.SigningKey, next string, ts int64) (*State, error) {
	return s.rotateFrom(s, newRoot, next, ts)
}

// Recover is Rotate at the start of the current root epoch: the rot follows
// the last icp or rot, and every delegation since is dropped. Peers adopt it
// whatever a thief of the root has appended (01#rotation-and-recovery). Codes
// as for Rotate.
func (s *State) Recover(newRoot *suite.SigningKey, next string, ts int64) (*State, error) {
	return s.rotateFrom(s.epochBase(), newRoot, next, ts)
}

// epochBase returns the log up to the start of the current epoch. No check is
// due: it is a prefix of a verified log.
func (s *State) epochBase() *State {
	n := s.epoch + 1
	base := newState(wire.NewArray(s.log.Items()[:n]...), s.aceID, s.events[:n])
	base.epoch = s.epoch
	return base
}

// rotateFrom appends the rot to base, which is s or its beginning. The keys
// that next must not commit to are those of s: a dropped dlg revealed its key
// all the same.
func (s *State) rotateFrom(base *State, newRoot *suite.SigningKey, next string, ts int64) (*State, error) {
	key := newRoot.PublicKey()
	if Commitment(wire.SchemeMLDSA65, key) != s.Next() {
		return nil, fault.New(fault.IdentityUnavailable, "key is not the committed next root")
	}
	if err := checkNext(next, s.events, key); err != nil {
		return nil, err
	}
	if err := base.Budget().admitRotation(); err != nil {
		return nil, err
	}
	return appendEvent(base, newRoot, Event{Type: Rotation, TS: ts, Key: key, Next: next})
}

// checkNext refuses a next that commits to a key revealed by the events or by
// the event it is for (01#rotation-and-recovery).
func checkNext(next string, events []Event, key []byte) error {
	if !wire.IsHexDigest(next) {
		return fault.New(fault.InvalidArgument, "next %.80q is not a 64-character hex digest", next)
	}
	revealed := next == Commitment(wire.SchemeMLDSA65, key)
	for _, e := range events {
		revealed = revealed || next == Commitment(wire.SchemeMLDSA65, e.Key)
	}
	if revealed {
		return fault.New(fault.InvalidArgument, "next commits to a key that the log has revealed")
	}
	return nil
}

// checkDelegate holds a signer's refusals of a dlg (01#rotation-and-recovery)
// and the bounds of rule 4.
func (s *State) checkDelegate(key []byte, ts, notAfter int64) error {
	switch {
	case len(key) != wire.PublicKeyBytes:
		return fault.New(fault.InvalidArgument, "signing key has %d bytes, not %d", len(key), wire.PublicKeyBytes)
	case bytes.Equal(key, s.Root()):
		return fault.New(fault.InvalidArgument, "signing key is the current root")
	case Commitment(wire.SchemeMLDSA65, key) == s.Next():
		return fault.New(fault.InvalidArgument, "signing key is the committed next root")
	case notAfter != 0 && !validNotAfter(ts, notAfter):
		return fault.New(fault.InvalidArgument, "notAfter %d is not within %d seconds after ts %d", notAfter, wire.MaxSigningKeyLifetime, ts)
	case notAfter > wire.MaxInt:
		return fault.New(fault.InvalidArgument, "notAfter %d is not a wire integer", notAfter)
	}
	return nil
}

// appendEvent signs e as the next event of s, nil for an inception, and
// verifies the log that results as anybody else would.
func appendEvent(s *State, root *suite.SigningKey, e Event) (*State, error) {
	next, err := signEvent(s, root, e)
	if err != nil {
		return nil, err
	}
	var log []wire.Value
	if s != nil {
		log = append(log, s.log.Items()...)
	}
	state, err := Verify(wire.NewArray(append(log, next.value())...), e.TS)
	return state, fault.Wrapf(fault.IdentityUnavailable, err, "own log")
}

func signEvent(s *State, root *suite.SigningKey, e Event) (*entry, error) {
	if err := wire.CheckTime(e.TS); err != nil {
		return nil, fault.Wrapf(fault.InvalidArgument, err, "ts")
	}
	if s != nil {
		if e.TS < s.LastTS() {
			return nil, fault.New(fault.InvalidArgument, "ts %d is before that of the last event, %d", e.TS, s.LastTS())
		}
		e.Seq, e.Prev = s.Seq()+1, s.LastHash()
	}
	next := &entry{Event: e, scheme: wire.SchemeMLDSA65, bounded: e.NotAfter != 0}
	b := next.appendCanonical(nil)
	// The ACE ID of an icp comes from the event itself (01#key-event-log).
	aceID := wire.ACEID(suite.Hex256(b))
	if s != nil {
		aceID = s.aceID
	}
	sig, err := root.Sign(Message(aceID, e.TS, "", b), ActionKEL)
	if err != nil {
		return nil, fault.Wrapf(fault.IdentityUnavailable, err, "root")
	}
	next.sig = rootSignature{scheme: wire.SchemeMLDSA65, value: sig}
	return next, nil
}
