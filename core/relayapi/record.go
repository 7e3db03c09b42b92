package relayapi

import (
	"slices"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
)

// Status is what an accepted registration did (07#registration step 6).
type Status string

// The statuses of POST /v1/register.
const (
	Registered Status = "registered" // new, or again after unregister
	Idempotent Status = "idempotent" // the stored request once more
	Refreshed  Status = "refreshed"  // newer timestamp, same last event
	Rotated    Status = "rotated"    // the log was extended or recovered
)

// NoBarrier is the barrier of an identity that never unregistered.
const NoBarrier int64 = -1

// Record is what a relay keeps about an identity whose log it holds: one that is
// registered, or one that unregistered and whose log is retained.
type Record struct {
	State      *kel.State
	Timestamp  int64  // of the stored registration
	MDigest    string // of the stored registration
	Registered bool
	Barrier    int64 // timestamp of the last accepted unregister, or NoBarrier
}

// Horizon is the fixed-size remainder of an unregistered identity whose log the
// relay has deleted: its epoch start, its last event and its barrier
// (07#registration).
type Horizon struct {
	EpochSeq  int64
	EpochHash string
	LastSeq   int64
	LastHash  string
	Barrier   int64
}

// NewHorizon returns the horizon of a log about to be deleted.
func NewHorizon(state *kel.State, barrier int64) Horizon {
	start := state.EpochStart()
	return Horizon{
		EpochSeq:  start,
		EpochHash: state.Events()[start].Hash,
		LastSeq:   state.Seq(),
		LastHash:  state.LastHash(),
		Barrier:   barrier,
	}
}

// Against runs 07#registration step 6: what r does to the record of its
// identity, or to its horizon when the log is deleted. Both are nil for an
// identity never seen; with a record the horizon plays no part. The outcome of
// the log comes before that of the timestamps.
//
// Codes: kel_conflict, stale_seq, identity_conflict.
func (r *Registration) Against(record *Record, horizon *Horizon) (Status, error) {
	switch {
	case record != nil:
		return r.againstRecord(record)
	case horizon != nil:
		if err := r.againstHorizon(horizon); err != nil {
			return "", err
		}
	}
	return Registered, nil
}

func (r *Registration) againstRecord(rec *Record) (Status, error) {
	outcome, _, err := kel.Reconcile(rec.State, r.State)
	if err != nil {
		return "", err
	}
	if outcome == kel.Unchanged && r.State.Seq() < rec.State.Seq() {
		return "", fault.New(StaleSeq, "the kel is a strict prefix of the stored one")
	}
	if rec.Registered && r.Timestamp == rec.Timestamp && r.MDigest == rec.MDigest {
		return Idempotent, nil
	}
	if rec.Registered && r.Timestamp <= rec.Timestamp {
		return "", fault.New(IdentityConflict, "timestamp %d: the stored registration has %d", r.Timestamp, rec.Timestamp)
	}
	if err := aboveBarrier(r.Timestamp, rec.Barrier); err != nil {
		return "", err
	}
	switch {
	case !rec.Registered:
		return Registered, nil
	case outcome == kel.Unchanged:
		return Refreshed, nil
	}
	return Rotated, nil
}

func aboveBarrier(timestamp, barrier int64) error {
	if timestamp <= barrier {
		return fault.New(IdentityConflict, "timestamp %d is not above the unregister barrier %d", timestamp, barrier)
	}
	return nil
}

func (r *Registration) againstHorizon(h *Horizon) error {
	events := r.State.Events()
	if !contains(events, h.EpochSeq, h.EpochHash) {
		return fault.New(fault.KELConflict, "the kel does not contain the epoch start %d of the retired one", h.EpochSeq)
	}
	extends := contains(events, h.LastSeq, h.LastHash)
	recovers := slices.ContainsFunc(events[h.EpochSeq+1:], func(e kel.Event) bool { return e.Type == kel.Rotation })
	if !extends && !recovers {
		if r.State.Seq() < h.LastSeq {
			return fault.New(StaleSeq, "the kel is shorter than the retired one")
		}
		return fault.New(fault.KELConflict, "the kel neither extends nor recovers the retired one")
	}
	return aboveBarrier(r.Timestamp, h.Barrier)
}

func contains(events []kel.Event, seq int64, hash string) bool {
	return seq >= 0 && seq < int64(len(events)) && events[seq].Hash == hash
}

// Unregister checks an authenticated unregister request with the given
// authentication timestamp, which becomes the barrier: it has to be above the
// timestamp of the stored registration (07#registration).
// Code: identity_conflict.
func (rec *Record) Unregister(timestamp int64) error {
	if timestamp <= rec.Timestamp {
		return fault.New(IdentityConflict, "timestamp %d: the stored registration has %d", timestamp, rec.Timestamp)
	}
	return nil
}
