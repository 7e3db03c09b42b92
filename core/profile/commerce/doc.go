// Package commerce is the official profile ace:commerce:1: the rules for its
// messages, which are a state machine for each thread, references between the
// messages of a thread, and the forms of settlement
// (commerce#commerce-profile-acecommerce1).
//
// It judges words only. A received message never authorises a payment: whether
// to pay, what to deliver and whether an amount is acceptable is for the
// application to decide, and so is what has expired.
//
// Start at [Rule] and [Next].
package commerce

import "github.com/ace-toolkit/ace/core/fault"

// The message types (commerce#messages).
const (
	RFQ     = "ace:commerce:rfq:1"
	Offer   = "ace:commerce:offer:1"
	Accept  = "ace:commerce:accept:1"
	Reject  = "ace:commerce:reject:1"
	Invoice = "ace:commerce:invoice:1"
	Payment = "ace:commerce:payment:1"
	Deliver = "ace:commerce:deliver:1"
	Confirm = "ace:commerce:confirm:1"
)

// The codes of this profile, all permanent (commerce#check-order). The others
// that its rule returns are invalid_body and those of the store.
const (
	WrongParty           fault.Code = "wrong_party"
	TransitionNotAllowed fault.Code = "transition_not_allowed"
	WrongRole            fault.Code = "wrong_role"
	BadReference         fault.Code = "bad_reference"
	LimitExceeded        fault.Code = "limit_exceeded"
)
