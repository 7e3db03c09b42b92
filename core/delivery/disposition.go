package delivery

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// Outcome is what became of an inbox entry: the dispositions of
// 06#receive-pipeline, and the two ways to be taken in.
type Outcome string

// The outcomes of an entry.
const (
	Delivered   Outcome = "delivered"
	Duplicate   Outcome = "duplicate"
	Rejected    Outcome = "rejected"
	Dropped     Outcome = "dropped"
	Quarantined Outcome = "quarantined" // given up after MAX_FETCH_ATTEMPTS
	Retry       Outcome = "retry"       // to be fetched again
	Hold        Outcome = "hold"        // the receiver is full
)

// Final reports whether an entry with this outcome may be acknowledged.
func (o Outcome) Final() bool { return o != Retry && o != Hold }

// Result is what became of one entry. What the event members tell of is durable.
type Result struct {
	Outcome   Outcome
	Code      fault.Code // why, "" for what was taken in
	MessageID string     // as the packet states them, "" when it does not decode
	From      string
	// Unreceipted says of a retry that the packet itself is done with: only its
	// receipt could not be sent.
	Unreceipted bool

	Message  *store.Message // delivered
	Withheld *store.Message // delivered for its sender, and set aside by the policy
	Receipt  *ReceiptEvent  // a receipt ended a message
	Request  *store.Request // a contact request is held
	Contact  *store.Contact // the admission table changed; State "" means removed
}

// stop ends the processing of a packet with a disposition. It travels as an
// error, so that a step reads like any other Go function.
type stop struct {
	outcome Outcome
	cause   error
}

func (s *stop) Error() string { return string(s.outcome) + ": " + s.cause.Error() }
func (s *stop) Unwrap() error { return s.cause }

func drop(cause error) error   { return &stop{Dropped, cause} }
func reject(cause error) error { return &stop{Rejected, cause} }
func retry(cause error) error  { return &stop{Retry, cause} }
func hold(cause error) error   { return &stop{Hold, cause} }
