package kel

import (
	"sync"

	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Delegated is the current signing delegation.
type Delegated struct {
	Seq, TS  int64
	Key      []byte // 1952 bytes
	NotAfter int64  // Unix seconds; 0: until replaced
}

// State is a verified log and what it says. It is immutable and safe for
// concurrent use; what its methods return is read-only. Only [Verify],
// [Cache.Verify] and the builders make one.
//
// A State of Verify keeps the JSON text that its log was parsed from in memory,
// whatever else was in it; one of a Cache does not.
type State struct {
	log       wire.Value
	aceID     string
	events    []Event
	epoch     int64
	delegated *Delegated

	// Computed when first asked for: many states are only compared.
	raw    func() []byte
	digest func() string
	key    func() *suite.VerifyKey // nil without a delegation
}

func newState(log wire.Value, aceID string, events []Event) *State {
	s := &State{log: log, aceID: aceID, events: events}
	s.raw = sync.OnceValue(func() []byte {
		return s.log.AppendCanonical(make([]byte, 0, len(s.events)*maxEventBytes))
	})
	s.digest = sync.OnceValue(func() string { return suite.Hex256(s.raw()) })
	s.key = sync.OnceValue(func() *suite.VerifyKey {
		if s.delegated == nil {
			return nil
		}
		key, err := suite.ParseVerifyKey(s.delegated.Key)
		if err != nil {
			panic("ace: internal error: verified delegation: " + err.Error())
		}
		return key
	})
	return s
}

func (s *State) last() *Event { return &s.events[len(s.events)-1] }

// ACEID returns the identity's name: the hash of its inception (01#ace-id).
func (s *State) ACEID() string { return s.aceID }

// Seq returns the seq of the last event.
func (s *State) Seq() int64 { return s.last().Seq }

// LastHash returns the hex hash of the last event.
func (s *State) LastHash() string { return s.last().Hash }

// LastTS returns the ts of the last event, in Unix seconds.
func (s *State) LastTS() int64 { return s.last().TS }

// Root returns the 1952 bytes of the current root.
func (s *State) Root() []byte { return s.events[s.epoch].Key }

// Next returns the commitment to the next root, made by the last icp or rot.
func (s *State) Next() string { return s.events[s.epoch].Next }

// Events returns the events in order; the one at index i has seq i.
func (s *State) Events() []Event { return s.events }

// EpochStart returns the seq of the last icp or rot, which a recovery forks
// after (01#rotation-and-recovery).
func (s *State) EpochStart() int64 { return s.epoch }

// Delegated returns the current signing delegation, or nil: after an icp or a
// rot there is none until a dlg.
func (s *State) Delegated() *Delegated { return s.delegated }

// Usable reports whether the identity is usable at now: a signing key is
// delegated and its time is not over (01#verifier-rules rule 5).
func (s *State) Usable(now int64) bool {
	d := s.delegated
	return d != nil && (d.NotAfter == 0 || now < d.NotAfter)
}

// Value returns the log as a JSON array.
func (s *State) Value() wire.Value { return s.log }

// Raw returns the canonical JSON of the log.
func (s *State) Raw() []byte { return s.raw() }

// Digest returns the hex SHA-256 of Raw. Two logs of the same events differ in
// it when they carry different signatures.
func (s *State) Digest() string { return s.digest() }
