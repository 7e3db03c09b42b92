package core_test

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// TestCredential holds delegation#verifying-a-credential: the answer follows the
// issuer's pin, and an issuer who cannot be looked up is no answer.
func TestCredential(t *testing.T) {
	r := newRelay(t)
	alice, bob, carol := newAgent(t, r, closed()), newAgent(t, r, closed()), newAgent(t, r, closed())
	carol.publish(false)
	c, err := alice.IssueCredential(bob.ACEID(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alice.IssueCredential(alice.ACEID(), 60); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("to oneself: %v", err)
	}
	if _, err := carol.VerifyCredential(t.Context(), c.Value()); !errors.Is(err, fault.UnknownPeer) {
		t.Errorf("an issuer whom no relay knows: %v", err)
	}
	if _, err := alice.VerifyCredential(t.Context(), c.Value()); err != nil {
		t.Errorf("by its issuer, whom no relay knows: %v", err)
	}
	alice.publish(false)
	got, err := carol.VerifyCredential(t.Context(), c.Value())
	if err != nil || got.Issuer != alice.ACEID() || got.Subject != bob.ACEID() {
		t.Fatalf("%+v: %v", got, err)
	}
	forged := c.Value().With("subject", wire.NewString(carol.ACEID()))
	if _, err := carol.VerifyCredential(t.Context(), forged); !errors.Is(err, fault.InvalidAuthorization) {
		t.Errorf("forged: %v", err)
	}
	// The answer follows the pin: the key that signed it is superseded now.
	alice.delegate(r)
	alice.publish(false)
	if _, err := carol.VerifyCredential(t.Context(), c.Value()); !errors.Is(err, fault.StalePeerBinding) {
		t.Errorf("after a new key of the issuer: %v", err)
	}
	if c, err = alice.IssueCredential(bob.ACEID(), 60); err != nil {
		t.Fatal(err)
	}
	if _, err := carol.VerifyCredential(t.Context(), c.Value()); err != nil {
		t.Errorf("signed by the new key: %v", err)
	}
	r.ahead.Add(60)
	if _, err := carol.VerifyCredential(t.Context(), c.Value()); !errors.Is(err, fault.InvalidAuthorization) {
		t.Errorf("expired: %v", err)
	}
}
