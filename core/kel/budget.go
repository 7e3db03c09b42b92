package kel

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	// maxEventBytes bounds the canonical JSON of one event and its comma. The
	// key takes 2604 characters, the signature 4412.
	maxEventBytes = 7312

	// maxDescriptorBytes bounds the canonical JSON of a descriptor and of the
	// {"descriptor":,"kel":} around it, from the rules of 04#fields: four relay
	// URLs of 2048 characters, each up to 4 bytes of UTF-8; 32 profiles; ext;
	// and 8192 bytes for prekey, signature, times and names. A card record or a
	// registration request is smaller.
	maxDescriptorBytes = 4*4*2048 + 32*(wire.MaxTypeBytes+128) + wire.MaxExtBytes + 8192

	// maxLogBytes is what that leaves to a log in a PublishedAgent.
	maxLogBytes = wire.MaxPublishedAgentBytes - maxDescriptorBytes

	// emergencyEvents is the room kept free for a rot and its dlg.
	emergencyEvents = 2
)

// Budget is the room that is left in a log. MAX_KEL_EVENTS alone would let a
// log outgrow MAX_PUBLISHED_AGENT_BYTES, after which the identity could neither
// publish nor register; so bytes count as well, and the last room is kept for
// a rot and its dlg, without which a stolen key could not be replaced.
type Budget struct {
	Events int // of MAX_KEL_EVENTS
	Bytes  int // of canonical JSON, beside the largest descriptor
}

// Budget returns the room that is left. Either number is negative in a log
// that others built beyond it.
func (s *State) Budget() Budget {
	return Budget{Events: wire.MaxKELEvents - len(s.events), Bytes: maxLogBytes - len(s.Raw())}
}

// RecoveryBudget returns the room that [State.Recover] has: it drops the events
// of the current root epoch.
func (s *State) RecoveryBudget() Budget { return s.epochBase().Budget() }

// After returns the room that is certain to be left after so many more events.
func (b Budget) After(events int) Budget {
	return Budget{Events: b.Events - events, Bytes: b.Bytes - events*maxEventBytes}
}

// Routine reports whether there is room for a rot and its dlg beside what is
// kept for an emergency. A log without it can still be rotated, and then no
// more.
func (b Budget) Routine() bool { return b.Appends() >= 2*emergencyEvents }

// Emergency reports that no more room is left than is kept for an emergency.
func (b Budget) Emergency() bool { return b.Appends() <= emergencyEvents }

// Appends returns how many events of any kind are certain to fit.
func (b Budget) Appends() int {
	return max(0, min(b.Events, b.Bytes/maxEventBytes))
}

// admitDelegation refuses a dlg that would use the emergency room, unless it
// completes an icp or a rot: then nothing is delegated yet.
func (b Budget) admitDelegation(replaces bool) error {
	need := 1
	if replaces {
		need += emergencyEvents
	}
	if b.Appends() < need {
		return b.refuse("delegation")
	}
	return nil
}

// admitRotation refuses a rot that leaves no room for its dlg.
func (b Budget) admitRotation() error {
	if b.Appends() < emergencyEvents {
		return b.refuse("rotation")
	}
	return nil
}

func (b Budget) refuse(what string) error {
	return fault.New(fault.InvalidArgument, "no room for a %s: %d events and %d bytes are left in the log", what, b.Events, b.Bytes)
}
