package relayapi_test

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	now   = 1760140800
	relay = "https://relay.example"
)

// agent is an identity with the keys to change its log.
type agent struct {
	*kel.Identity
	root, next *suite.SigningKey
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

func commitment(k *suite.SigningKey) string {
	return kel.Commitment(wire.SchemeMLDSA65, k.PublicKey())
}

// newAgent returns an identity whose delegation starts at ts and ends at
// notAfter, 0 for never.
func newAgent(t testing.TB, ts, notAfter int64) agent {
	t.Helper()
	a := agent{root: newKey(), next: newKey()}
	state, err := kel.Incept(a.root, commitment(a.next), ts)
	must(t, err)
	return a.delegated(t, state, ts, notAfter)
}

// delegated returns the agent with a new signing key on top of state.
func (a agent) delegated(t testing.TB, state *kel.State, ts, notAfter int64) agent {
	t.Helper()
	signer := newKey()
	state, err := state.Delegate(a.root, signer.PublicKey(), ts, notAfter)
	must(t, err)
	a.Identity = kel.NewIdentity(state, signer)
	return a
}

// recovered returns the agent after its next root forked the log.
func (a agent) recovered(t testing.TB, ts int64) agent {
	t.Helper()
	next := newKey()
	state, err := a.State().Recover(a.next, commitment(next), ts)
	must(t, err)
	return agent{root: a.next, next: next}.delegated(t, state, ts, 0)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode fails unless err has the code, "" being no error.
func wantCode(t testing.TB, err error, code fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != code || code == "" && err != nil {
		t.Fatalf("got %q (%v), want %q", fault.CodeOf(err), err, code)
	}
	var e *fault.Error
	if code != "" && !errors.As(err, &e) {
		t.Fatalf("%v is no *fault.Error", err)
	}
}
