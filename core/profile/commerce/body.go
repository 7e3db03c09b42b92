package commerce

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// CheckBody checks what commerce#messages asks of a body beyond its schema,
// which the body matches. Code: invalid_body.
//
// Amounts are not checked to be decimal, nor is anything to have expired: the
// text gives no grammar and no code for either.
func CheckBody(messageType string, body wire.Value) error {
	r := wire.NewReader(body, "body")
	switch messageType {
	case Invoice:
		checkInvoiceSettlement(r.Object("settlement"))
	case Payment:
		checkPaymentSettlement(r.Object("settlement"))
	case Deliver:
		checkDeliver(r)
	}
	return fault.Wrap(fault.InvalidBody, r.Err())
}

func checkDeliver(r *wire.Reader) {
	member := "content"
	if r.String("type") == "reference" {
		member = "uri"
	}
	if !r.Has(member) {
		r.FailMember(member, "missing in a delivery of this type")
	}
}
