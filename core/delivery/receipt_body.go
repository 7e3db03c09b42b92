package delivery

import (
	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// Outcomes of a receipt (06#receipts).
const (
	OutcomeDelivered = "delivered"
	OutcomeRejected  = "rejected"
)

// ReceiptBody is the body of an ace:receipt:1 (06#receipts).
type ReceiptBody struct {
	MessageID string     // the message it answers
	Outcome   string     // OutcomeDelivered or OutcomeRejected
	Code      string     // outcome code, exactly when rejected
	Prekey    string     // hex prekey ID, exactly when Code is unknown_prekey
	Permit    wire.Value // a renewal, null when absent; not yet verified
}

// DecodeReceipt reads a receipt's body and checks the member rules of
// 06#receipts, all but the permit's. Code: invalid_body.
func DecodeReceipt(body wire.Value) (*ReceiptBody, error) {
	r := wire.NewReader(body, "body")
	b := &ReceiptBody{
		MessageID: r.Matching("messageId", "message ID", wire.IsMessageID),
		Outcome:   r.Matching("outcome", "receipt outcome", isOutcome),
	}
	if readWhen(r, "code", b.Outcome == OutcomeRejected) {
		b.Code = r.Matching("code", "outcome code", wire.IsOutcomeCode)
	}
	if readWhen(r, "prekey", b.Code == string(fault.UnknownPrekey)) {
		b.Prekey = r.HexDigest("prekey")
	}
	if r.Has("permit") {
		if b.Permit = r.Value("permit"); b.Permit.Kind() != wire.Object {
			r.FailMember("permit", "is %s, not an object", b.Permit.Kind())
		}
	}
	if err := r.Close(); err != nil {
		return nil, fault.Wrap(fault.InvalidBody, err)
	}
	return b, nil
}

func isOutcome(s string) bool { return s == OutcomeDelivered || s == OutcomeRejected }

// readWhen reports whether the member is to be read, and fails when it is
// present although it must not be.
func readWhen(r *wire.Reader, name string, required bool) bool {
	if !required && r.Has(name) {
		r.FailMember(name, "not allowed with this outcome")
	}
	return required
}

// VerifyReceipt is [DecodeReceipt], then it verifies a renewal as issued by
// from, the sender of the receipt, whose state is given, to to (06#receipts).
// The permit is nil when the receipt has none. Codes: invalid_body,
// invalid_argument (clock), invalid_authorization, stale_peer_binding.
func VerifyReceipt(body wire.Value, from, to string, sender *kel.State, now int64) (*ReceiptBody, *admission.Permit, error) {
	b, err := DecodeReceipt(body)
	if err != nil {
		return nil, nil, err
	}
	if b.Permit.Kind() == wire.Null {
		return b, nil, nil
	}
	permit, err := admission.VerifyPermit(b.Permit, sender, from, to, now)
	if err != nil {
		return nil, nil, err
	}
	return b, permit, nil
}

// Value returns the body as JSON.
func (b *ReceiptBody) Value() wire.Value {
	members := []wire.Member{
		wire.M("messageId", wire.NewString(b.MessageID)),
		wire.M("outcome", wire.NewString(b.Outcome)),
	}
	if b.Code != "" {
		members = append(members, wire.M("code", wire.NewString(b.Code)))
	}
	if b.Prekey != "" {
		members = append(members, wire.M("prekey", wire.NewString(b.Prekey)))
	}
	if b.Permit.Kind() != wire.Null {
		members = append(members, wire.M("permit", b.Permit))
	}
	return wire.NewObject(members...)
}
