package relaysvc

import (
	"testing"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

func TestStates(t *testing.T) {
	const now = int64(1760140800)
	key := func() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }
	root := key()
	log := func(delegations int) *kel.State {
		t.Helper()
		state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, key().PublicKey()), now)
		for range delegations {
			if err == nil {
				state, err = state.Delegate(root, key().PublicKey(), now, 0)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	s, short := newStates(), log(1)
	s.put(short)
	s.put(short)
	if s.events != 2 || s.get(short.LastHash()) != short || s.of(short.ACEID()) != short {
		t.Fatalf("%d events", s.events)
	}
	if s.get(log(1).LastHash()) != nil || s.of("nobody") != nil {
		t.Fatal("a log that was never seen")
	}
	next := log(1)
	s.put(next)
	s.get(short.LastHash())
	s.events += maxStateEvents - 4 // as if there were many, which takes long to make
	last := log(1)
	s.put(last)
	if s.get(last.LastHash()) != last || s.get(short.LastHash()) != short || s.events > maxStateEvents {
		t.Fatalf("%d events", s.events)
	}
	if s.get(next.LastHash()) != nil || s.of(next.ACEID()) != nil {
		t.Fatal("the log that nobody used was not forgotten")
	}
	if len(s.byEnd) != s.recent.Len() || len(s.latest) != s.recent.Len() {
		t.Fatalf("%d by end, %d by identity, %d in order", len(s.byEnd), len(s.latest), s.recent.Len())
	}
}

// TestStatesLatest uses two logs of one identity.
func TestStatesLatest(t *testing.T) {
	root := suite.NewSigningKey(suite.NewSeed())
	short, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, suite.NewSigningKey(suite.NewSeed()).PublicKey()), 1760140800)
	if err != nil {
		t.Fatal(err)
	}
	long, err := short.Delegate(root, suite.NewSigningKey(suite.NewSeed()).PublicKey(), 1760140800, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := newStates()
	s.put(short)
	s.put(long)
	if s.of(short.ACEID()) != long {
		t.Fatal("not the log used last")
	}
	s.get(short.LastHash())
	if s.of(short.ACEID()) != short {
		t.Fatal("not the log used last")
	}
	s.put(long) // as who verified it at the same time does
	if s.of(short.ACEID()) != long || s.events != 3 {
		t.Fatal("not the log used last")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(s.byEnd[short.LastHash()])
	if e := s.latest[short.ACEID()]; e == nil || e.Value != long {
		t.Fatal("the log used last went with another")
	}
}

// TestNonceMemory pins 07#authentication: a request signed 300 seconds ahead is
// fresh for 600 seconds, and its nonce is remembered for longer.
func TestNonceMemory(t *testing.T) {
	if nonceMemory < 2*300+1 {
		t.Fatalf("a nonce is remembered for %d s", nonceMemory)
	}
}
