package kel

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Verify replays a log at now, in Unix seconds, in the order of
// 01#verifier-rules, and returns what it says. It does not ask whether the
// identity is usable: that is [State.Usable].
//
// Codes: invalid_argument for a broken clock, invalid_kel, and
// invalid_signature for a well-formed signature that does not verify.
func Verify(log wire.Value, now int64) (*State, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	entries, err := readLog(log, now)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidKEL, err)
	}
	// Rule 3: commitments are checked before any signature of the log.
	if err := checkCommitments(entries); err != nil {
		return nil, fault.Wrap(fault.InvalidKEL, err)
	}
	return replay(log, entries)
}

// readLog is 01#verifier-rules rule 1, for the whole log.
func readLog(log wire.Value, now int64) ([]entry, error) {
	items := log.Items()
	switch {
	case log.Kind() != wire.Array:
		return nil, fmt.Errorf("kel: is %s, not an array", log.Kind())
	case len(items) == 0:
		return nil, errors.New("kel: no events")
	case len(items) > wire.MaxKELEvents:
		return nil, fmt.Errorf("kel: %d events, more than %d", len(items), wire.MaxKELEvents)
	}
	entries := make([]entry, len(items))
	var scratch []byte
	for i, item := range items {
		e, err := readEntry(item)
		if err != nil {
			return nil, fmt.Errorf("%s%w", path(int64(i)), err)
		}
		var before *entry
		if i > 0 {
			before = &entries[i-1]
		}
		if err := checkLink(&e, before); err != nil {
			return nil, fmt.Errorf("%s: %w", path(int64(i)), err)
		}
		scratch = e.appendCanonical(scratch[:0])
		e.Hash = suite.Hex256(scratch)
		entries[i] = e
	}
	// Times do not decrease, so the last one is the greatest.
	return entries, checkFuture(entries[len(entries)-1].TS, now)
}

func path(seq int64) string { return "kel[" + strconv.FormatInt(seq, 10) + "]" }

// checkLink checks e against the event before it, nil for the first one.
func checkLink(e, before *entry) error {
	if before == nil {
		if e.Type != Inception || e.Seq != 0 {
			return fmt.Errorf("log starts with %s at seq %d, not with icp at seq 0", e.Type, e.Seq)
		}
		return nil
	}
	switch {
	case e.Type == Inception:
		return errors.New("icp after seq 0")
	case e.Seq != before.Seq+1:
		return fmt.Errorf("seq %d after seq %d", e.Seq, before.Seq)
	case e.TS < before.TS:
		return fmt.Errorf("ts %d before %d", e.TS, before.TS)
	case e.Prev != before.Hash:
		return errors.New("prev is not the hash of the previous event")
	}
	return nil
}

// checkFuture is the time bound of rule 1, the one thing about a log that can
// be true later and not now.
func checkFuture(lastTS, now int64) error {
	if lastTS > now+wire.TimestampWindowSeconds {
		return fmt.Errorf("kel: ts %d is more than %d seconds ahead of %d", lastTS, wire.TimestampWindowSeconds, now)
	}
	return nil
}

// checkCommitments is the part of rule 3 that precedes every signature.
func checkCommitments(entries []entry) error {
	next := entries[0].Next
	for i := range entries {
		e := &entries[i]
		if e.Type != Rotation {
			continue
		}
		if Commitment(e.scheme, e.Key) != next {
			return fmt.Errorf("%s: root does not match the committed next", path(e.Seq))
		}
		next = e.Next
	}
	return nil
}

// replay is rules 2 to 4, event by event.
func replay(log wire.Value, entries []entry) (*State, error) {
	r := replayer{state: newState(log, wire.ACEID(entries[0].Hash), make([]Event, len(entries)))}
	for i := range entries {
		e := &entries[i]
		step := r.root
		if e.Type == Delegation {
			step = r.delegation
		}
		if err := step(e); err != nil {
			return nil, err
		}
		r.state.events[i] = e.Event
	}
	return r.state, nil
}

// replayer is a state in the making.
type replayer struct {
	state   *State
	key     *suite.VerifyKey // the current root
	bytes   []byte           // of the event, reused
	message []byte           // M of the event, reused
}

// root is rule 2 for icp and rule 3 for rot: either way the root that
// the event names signs it. It ends the delegation.
func (r *replayer) root(e *entry) error {
	if err := e.checkKey("root"); err != nil {
		return err
	}
	key, err := suite.ParseVerifyKey(e.Key)
	if err != nil {
		return fault.Wrapf(fault.InvalidKEL, err, "%s.root", path(e.Seq))
	}
	r.key = key
	r.state.epoch, r.state.delegated = e.Seq, nil
	return r.checkSignature(e)
}

// delegation is rule 4: the signature comes before the key's own rules.
func (r *replayer) delegation(e *entry) error {
	if err := r.checkSignature(e); err != nil {
		return err
	}
	if err := e.checkKey("key"); err != nil {
		return err
	}
	if e.bounded && !validNotAfter(e.TS, e.NotAfter) {
		return fault.New(fault.InvalidKEL, "%s.notAfter: %d is not within %d seconds after ts %d",
			path(e.Seq), e.NotAfter, wire.MaxSigningKeyLifetime, e.TS)
	}
	r.state.delegated = &Delegated{Seq: e.Seq, TS: e.TS, Key: e.Key, NotAfter: e.NotAfter}
	return nil
}

func validNotAfter(ts, notAfter int64) bool {
	return ts < notAfter && notAfter <= ts+wire.MaxSigningKeyLifetime
}

func (e *entry) checkKey(member string) error {
	if e.scheme != wire.SchemeMLDSA65 {
		return fault.New(fault.InvalidKEL, "%s.%s.scheme: is %.40q, not %q", path(e.Seq), member, e.scheme, wire.SchemeMLDSA65)
	}
	if len(e.Key) != wire.PublicKeyBytes {
		return fault.New(fault.InvalidKEL, "%s.%s.publicKey: %d bytes, not %d", path(e.Seq), member, len(e.Key), wire.PublicKeyBytes)
	}
	return nil
}

func (r *replayer) checkSignature(e *entry) error {
	if e.sig.scheme != wire.SchemeMLDSA65 {
		return fault.New(fault.InvalidKEL, "%s.sig.scheme: is %.40q, not that of the root", path(e.Seq), e.sig.scheme)
	}
	r.bytes = e.appendCanonical(r.bytes[:0])
	r.message = appendMessage(r.message[:0], r.state.aceID, e.TS, "", r.bytes)
	if !r.key.Verify(r.message, e.sig.value, ActionKEL) {
		return fault.New(fault.InvalidSignature, "%s: signature does not verify under the root", path(e.Seq))
	}
	return nil
}
