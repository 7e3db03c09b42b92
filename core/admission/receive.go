package admission

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// State is what the admission table says of a peer (chapter 05). A peer that it
// does not list is a stranger.
type State string

// The states of a peer.
const (
	Stranger State = ""
	Pending  State = "pending"
	Admitted State = "admitted"
	Blocked  State = "blocked"
)

// Verdict is the outcome of step 2 of 06#receive-pipeline.
type Verdict int

const (
	// Drop ends the packet.
	Drop Verdict = iota
	// Authenticate goes on with step 3: the sender's pin decides.
	Authenticate
	// Candidate decrypts the packet without any network lookup or pin write
	// and goes on only if its content makes it a recovery candidate or, see
	// [IsContactCandidate], a contact candidate.
	Candidate
)

// Receive judges a packet by the state of its sender (05#receiver-admission).
func Receive(sender State) Verdict {
	switch sender {
	case Pending, Admitted:
		return Authenticate
	case Stranger:
		return Candidate
	}
	return Drop
}

// Contact settings of a card record; an agent without one is closed
// (04#card-record).
const (
	Open   = "open"
	Closed = "closed"
)

// IsContactCandidate reports whether a packet whose sender cannot be
// authenticated from a pin goes on as a contact candidate, by the setting of
// the local card record and the packet's content (05#receiver-admission,
// 06#receive-pipeline): a stranger's has to be a request and the receiver open,
// that of a pending or admitted peer may be of any kind.
func IsContactCandidate(sender State, localContact, messageType string, body wire.Value) bool {
	if messageType != profile.ContactType {
		return false
	}
	switch sender {
	case Pending, Admitted:
		return true
	case Stranger:
		kind, _ := body.Get("kind")
		return localContact == Open && kind.Equal(wire.NewString(Request))
	}
	return false
}

// CheckStrangerSource bounds the work that a stranger's source can cause: its
// kel has at most MAX_STRANGER_KEL_EVENTS events. It comes before any signature
// of the source is verified (05#receiver-admission). Code:
// invalid_authorization.
func (c *Contact) CheckStrangerSource() error {
	log, _ := c.Source.Get("kel")
	if n := len(log.Items()); n > wire.MaxStrangerKELEvents {
		return fault.New(fault.InvalidAuthorization, "body.source.kel: %d events, more than %d of a stranger", n, wire.MaxStrangerKELEvents)
	}
	return nil
}
