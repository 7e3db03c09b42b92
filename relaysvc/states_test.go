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
	if s.events != 2 || s.get(short.LastHash()) != short {
		t.Fatalf("%d events", s.events)
	}
	if s.get(log(1).LastHash()) != nil {
		t.Fatal("a log that was never seen")
	}
	for range maxStateEvents/64 + 1 {
		s.events += 62 // as if the log had 64 events, which takes long to make
		last := log(1)
		s.put(last)
		if len(s.byEnd) > maxStateEvents/64 || s.events > maxStateEvents || s.get(last.LastHash()) != last {
			t.Fatalf("%d logs with %d events", len(s.byEnd), s.events)
		}
	}
	if s.get(short.LastHash()) != nil {
		t.Fatal("nothing was forgotten: the test shows nothing")
	}
}

// TestNonceMemory pins 07#authentication: a request signed 300 seconds ahead is
// fresh for 600 seconds, and its nonce is remembered for longer.
func TestNonceMemory(t *testing.T) {
	if nonceMemory < 2*300+1 {
		t.Fatalf("a nonce is remembered for %d s", nonceMemory)
	}
}
