package descriptor

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// Verify checks the text of a PublishedAgent at one clock reading, in the order
// of 04#verification; the first failure wins.
//
// Codes: invalid_argument (the clock), invalid_authorization, invalid_kel,
// invalid_signature, kel_conflict, stale_peer_binding.
func Verify(data []byte, now int64, o Options) (*PublishedAgent, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	v, err := parse(data)
	if err != nil {
		return nil, err
	}
	return VerifyValue(v, now, o)
}

// VerifyValue is [Verify] for a PublishedAgent that is already parsed.
func VerifyValue(v wire.Value, now int64, o Options) (*PublishedAgent, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	// 04#verification step 1
	a, err := shapeAt(v, now, o.URLs)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidAuthorization, err)
	}
	// steps 2 and 3
	if err := a.authenticate(kel.ActionAgentDescriptor, a.ACEID, a.Signature, a.IssuedAt, now, o); err != nil {
		return nil, err
	}
	return a, nil
}

// shapeAt is 04#verification step 1. The error is plain.
func shapeAt(v wire.Value, now int64, policy wire.URLPolicy) (*PublishedAgent, error) {
	a, err := decode(v, policy)
	if err == nil {
		err = a.checkTimes(now)
	}
	if err == nil {
		err = a.checkExt(now)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// StatedID returns the ACE ID that a PublishedAgent states, to find its pin by,
// "" for none. Nothing is verified.
func StatedID(published wire.Value) string {
	claims, _ := published.Get("descriptor")
	id, _ := claims.Get("aceId")
	text, _ := id.AsString()
	return text
}
