package kel

import "github.com/ace-toolkit/ace/core/fault"

// Outcome says what a candidate log did to a pin (01#pinning).
type Outcome string

// The outcomes of 01#pinning that leave a pin behind.
const (
	Adopted   Outcome = "adopted"   // there was no pin
	Extended  Outcome = "extended"  // the candidate has more events
	Recovered Outcome = "recovered" // the candidate supersedes pinned events
	Unchanged Outcome = "unchanged" // the candidate is the pin or a prefix of it
)

// Reconcile compares a candidate with the pinned state, nil for none, and
// returns the state that is pinned afterwards (01#pinning). The caller holds
// the lock under which it read the pin until it has stored the result.
//
// Code: kel_conflict, for a fork that 01#verifier-rules rule 6 does not allow
// and for another ACE ID; the pin then stays as it is.
func Reconcile(pin, candidate *State) (Outcome, *State, error) {
	if pin == nil {
		return Adopted, candidate, nil
	}
	if pin.aceID != candidate.aceID {
		return "", nil, fault.New(fault.KELConflict, "kel is that of %s, not of %s", candidate.aceID, pin.aceID)
	}
	at := forkPoint(pin.events, candidate.events)
	switch {
	case at == len(candidate.events):
		return Unchanged, pin, nil
	case at == len(pin.events):
		return Extended, candidate, nil
	case supersedes(candidate.events, pin.events, at):
		return Recovered, candidate, nil
	}
	return "", nil, fault.New(fault.KELConflict, "kel forks from the pinned one at seq %d", at)
}
