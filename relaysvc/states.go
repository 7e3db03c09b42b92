package relaysvc

import (
	"sync"

	"github.com/ace-toolkit/ace/core/kel"
)

// maxStateEvents bounds the events of the KELs in memory, of some 16 KB each.
const maxStateEvents = 4096

// states remembers the verified KELs of identities that requests rest on, by
// the hash of their last event. It stands for the whole log, because every
// event has the hash of the one before it. What the store says of an identity
// ends in such a hash, so that nothing here can be out of date.
type states struct {
	mu     sync.Mutex
	byEnd  map[string]*kel.State // guarded by mu, as what follows
	events int                   // in all of them
}

func newStates() *states { return &states{byEnd: map[string]*kel.State{}} }

// get returns the state of the KEL that ends in kelEnd, or nil when it is not
// there.
func (s *states) get(kelEnd string) *kel.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byEnd[kelEnd]
}

func (s *states) put(state *kel.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byEnd[state.LastHash()] != nil {
		return
	}
	if s.events += len(state.Events()); s.events > maxStateEvents {
		clear(s.byEnd)
		s.events = len(state.Events())
	}
	s.byEnd[state.LastHash()] = state
}
