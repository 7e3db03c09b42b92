package relaysvc

import (
	"container/list"
	"sync"

	"github.com/ace-toolkit/ace/core/kel"
)

// maxStateEvents bounds the events of the KELs in memory, of some 16 KB each.
const maxStateEvents = 4096

// states remembers the verified KELs of identities that requests rest on, by
// the hash of their last event. It stands for the whole log, because every
// event has the hash of the one before it. What the store says of an identity
// ends in such a hash, so that nothing here can be out of date. Those used
// longest ago go first.
type states struct {
	mu     sync.Mutex
	recent *list.List               // of *kel.State, most recently used first; guarded by mu, as what follows
	byEnd  map[string]*list.Element // by the hash of the last event
	latest map[string]*list.Element // by ACE ID: the one used last
	events int                      // in all of them
}

func newStates() *states {
	return &states{recent: list.New(), byEnd: map[string]*list.Element{}, latest: map[string]*list.Element{}}
}

// get returns the state of the KEL that ends in kelEnd, or nil when it is not
// there.
func (s *states) get(kelEnd string) *kel.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byEnd[kelEnd]
	if e == nil {
		return nil
	}
	return s.use(e)
}

// of returns the state of an identity that was used last, or nil. The store
// may have another by now.
func (s *states) of(aceID string) *kel.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.latest[aceID]
	if e == nil {
		return nil
	}
	return s.use(e)
}

func (s *states) put(state *kel.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byEnd[state.LastHash()]; e != nil {
		s.use(e)
		return
	}
	e := s.recent.PushFront(state)
	s.byEnd[state.LastHash()] = e
	s.use(e)
	// The newest stays, however long it is.
	for s.events += len(state.Events()); s.events > maxStateEvents && s.recent.Len() > 1; {
		s.forget(s.recent.Back())
	}
}

// use marks a state as used. The caller holds mu.
func (s *states) use(e *list.Element) *kel.State {
	state := e.Value.(*kel.State)
	s.recent.MoveToFront(e)
	s.latest[state.ACEID()] = e
	return state
}

// forget drops a state. The caller holds mu.
func (s *states) forget(e *list.Element) {
	state := s.recent.Remove(e).(*kel.State)
	s.events -= len(state.Events())
	delete(s.byEnd, state.LastHash())
	if s.latest[state.ACEID()] == e {
		delete(s.latest, state.ACEID())
	}
}
