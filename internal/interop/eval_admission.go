package interop

import (
	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// evalPermit verifies a delivery permit (05#delivery-permits).
func evalPermit(a *args, now int64) (wire.Value, error) {
	v, parseErr := a.object("permit", fault.InvalidAuthorization)
	log, issuer, subject := a.r.Value("issuerKel"), a.r.String("issuer"), a.r.String("subject")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	if parseErr != nil {
		return wire.Value{}, parseErr
	}
	state, err := kel.Verify(log, now)
	if err != nil {
		return wire.Value{}, err
	}
	p, err := admission.VerifyPermit(v, state, issuer, subject, now)
	if err != nil {
		return wire.Value{}, err
	}
	return facts(str("issuer", p.Issuer), str("subject", p.Subject), num("expiresAt", p.ExpiresAt)), nil
}

// evalContact checks the body of a contact (05#contact-requests).
func evalContact(a *args, now int64) (wire.Value, error) {
	body, from, to := a.r.Value("body"), a.r.String("from"), a.r.String("to")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	if err := matchCore(profile.ContactType, body); err != nil {
		return wire.Value{}, err
	}
	if err := checkContact(body, from, to, now, nil); err != nil {
		return wire.Value{}, err
	}
	kind, _ := body.Get("kind")
	return facts(wire.M("kind", kind)), nil
}

// evalReceipt checks the body of a receipt (06#receipts).
func evalReceipt(a *args, now int64) (wire.Value, error) {
	body, from, to := a.r.Value("body"), a.r.String("from"), a.r.String("to")
	log := a.r.Value("senderKel")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	sender, err := kel.Verify(log, now)
	if err != nil {
		return wire.Value{}, err
	}
	if err := matchCore(profile.ReceiptType, body); err != nil {
		return wire.Value{}, err
	}
	receipt, _, err := delivery.VerifyReceipt(body, from, to, sender, now)
	if err != nil {
		return wire.Value{}, err
	}
	return facts(str("outcome", receipt.Outcome)), nil
}

// matchCore checks a body against the schema of a message of the core profile.
func matchCore(messageType string, body wire.Value) error {
	message, ok := installed().Type(messageType)
	if !ok {
		panic("ace: internal error: no core message " + messageType)
	}
	return checkInstalled(&packet.Content{Type: messageType, SchemaDigest: message.Digest, Body: body})
}
