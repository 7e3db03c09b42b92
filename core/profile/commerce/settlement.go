package commerce

import "github.com/ace-toolkit/ace/core/wire"

// The settlement methods (commerce#settlement).
const (
	stablecoin = "stablecoin"
	stripeLink = "stripe-link"
)

// checkInvoiceSettlement reads the settlement of an invoice, which is closed for
// each method. The failure is r's.
func checkInvoiceSettlement(r *wire.Reader) {
	switch method := r.String("method"); method {
	case stablecoin:
		r.Matching("asset", "CAIP-19 asset ID", wire.IsCAIP19)
		r.Matching("recipient", "address", notEmpty)
		r.Optional("memo")
	case stripeLink:
		r.Matching("url", "HTTPS URL", wire.IsHTTPSURL)
	default:
		r.FailMember("method", "%.40q is no settlement method", method)
	}
	_ = r.Close() // the error stays with r
}

// checkPaymentSettlement reads the settlement of a payment, {method, proof}, whose
// proof is closed for each method. The failure is r's.
func checkPaymentSettlement(r *wire.Reader) {
	method, proof := r.String("method"), r.Object("proof")
	switch method {
	case stablecoin:
		proof.Matching("txHash", "transaction hash", notEmpty)
	case stripeLink:
		proof.Matching("paymentId", "payment ID", notEmpty)
	default:
		r.FailMember("method", "%.40q is no settlement method", method)
	}
	_ = proof.Close() // the error stays with r
}

func notEmpty(s string) bool { return s != "" }
