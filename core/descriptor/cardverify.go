package descriptor

import (
	"fmt"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// VerifyCard checks the text of a CardBundle at one clock reading, in the order
// of 04#card-record; the first failure wins.
//
// Codes: invalid_argument (the clock), invalid_authorization, invalid_kel,
// invalid_signature, kel_conflict, stale_peer_binding.
func VerifyCard(data []byte, now int64, o Options) (*CardBundle, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	v, err := parse(data)
	if err != nil {
		return nil, err
	}
	return VerifyCardValue(v, now, o)
}

// VerifyCardValue is [VerifyCard] for a CardBundle that is already parsed.
func VerifyCardValue(v wire.Value, now int64, o Options) (*CardBundle, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	// 04#card-record step 1
	b, err := cardShapeAt(v, now, o.URLs)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidAuthorization, err)
	}
	// steps 2 and 3
	if err := b.authenticate(kel.ActionCardRecord, b.ACEID, b.Signature, b.IssuedAt, now, o); err != nil {
		return nil, err
	}
	return b, nil
}

// cardShapeAt is 04#card-record step 1. The error is plain.
func cardShapeAt(v wire.Value, now int64, policy wire.URLPolicy) (*CardBundle, error) {
	b, err := decodeCard(v, policy)
	if err != nil {
		return nil, err
	}
	if err := checkIssued(b.IssuedAt, now); err != nil {
		return nil, fmt.Errorf("card record.%w", err)
	}
	return b, nil
}
