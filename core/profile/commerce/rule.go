package commerce

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// Rule is the profile rule of all commerce messages (commerce#threads).
type Rule struct{}

// Types lists the eight message types.
func (Rule) Types() []string {
	return []string{RFQ, Offer, Accept, Reject, Invoice, Payment, Deliver, Confirm}
}

// Check is the check of commerce#check-order, in that order. The constraints of
// the body, which have no place in it, come with step 1, the other invalid_body.
//
// Codes: invalid_body, those of this package, and those of the store.
func (Rule) Check(s profile.State, e profile.Event, body wire.Value) error {
	if e.ThreadID == "" { // 1
		return fault.New(fault.InvalidBody, "content.threadId: missing")
	}
	if err := CheckBody(e.Type, body); err != nil {
		return err
	}
	peer, err := peerOf(s.Local, e) // 2
	if err != nil {
		return err
	}
	// 3 cannot fail: a thread is found by its peer, who with the local agent is
	// its parties.
	t, err := s.Threads.Thread(peer, e.ThreadID)
	if err != nil {
		return err
	}
	m, ok := move(StateOf(t), e.Type) // 4
	if !ok {
		return fault.New(TransitionNotAllowed, "%s does not follow in a thread that is %s", e.Type, StateOf(t))
	}
	if role := RoleOf(t, e.From); role != m.By { // 5
		return fault.New(WrongRole, "%s is for the %s to send, not the %s", e.Type, m.By, role)
	}
	if err := checkReference(e.Type, t, body); err != nil { // 6
		return err
	}
	return checkBounds(s.Threads, t, peer, e.Type) // 7
}

// Commit applies the transition of a message that was taken in here or, by its
// delivered receipt, there. A bound does not stand in its way: on send, the state
// follows what the receiver has applied. A message that the state does not take
// changes nothing. That can only be a late receipt for a message that expired, or
// a receipt of a peer that does not keep to the rules
// (08#sender-state-and-busy-threads).
func (Rule) Commit(s profile.State, e profile.Event, _ wire.Value) error {
	peer, err := peerOf(s.Local, e)
	if err != nil {
		return nil
	}
	t, err := s.Threads.Thread(peer, e.ThreadID)
	if err != nil {
		return err
	}
	m, ok := move(StateOf(t), e.Type)
	if !ok || RoleOf(t, e.From) != m.By {
		return nil
	}
	return s.Threads.Append(peer, e.ThreadID, entryOf(e), string(m.To), m.To.Final())
}

// peerOf returns the other party of a message. Code: wrong_party unless the local
// agent is exactly one of the two.
func peerOf(local string, e profile.Event) (string, error) {
	switch {
	case (e.From == local) == (e.To == local):
		return "", fault.New(WrongParty, "this agent is not one of the two parties")
	case e.From == local:
		return e.To, nil
	}
	return e.From, nil
}
