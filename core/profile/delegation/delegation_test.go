package delegation_test

import (
	"fmt"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/delegation"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const now = 1_760_140_800

// person is an identity with its keys: icp, then one dlg a second later.
type person struct {
	root, signing *suite.SigningKey
	state         *kel.State
}

func newPerson(t testing.TB, ts int64) person {
	t.Helper()
	p := person{root: newKey(), signing: newKey()}
	state, err := kel.Incept(p.root, kel.Commitment(wire.SchemeMLDSA65, newKey().PublicKey()), ts)
	if err != nil {
		t.Fatal(err)
	}
	p.state = state
	return p.delegate(t, p.signing, ts+1, 0)
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

func (p person) delegate(t testing.TB, key *suite.SigningKey, ts, notAfter int64) person {
	t.Helper()
	state, err := p.state.Delegate(p.root, key.PublicKey(), ts, notAfter)
	if err != nil {
		t.Fatal(err)
	}
	p.state, p.signing = state, key
	return p
}

func (p person) identity() *kel.Identity { return kel.NewIdentity(p.state, p.signing) }

func build(t testing.TB, from, to person, expiresAt int64) *delegation.Credential {
	t.Helper()
	c, err := delegation.Build(from.identity(), to.state.ACEID(), expiresAt, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantCode(t testing.TB, err error, want fault.Code) {
	t.Helper()
	if got := fault.CodeOf(err); got != want {
		t.Errorf("code %q, want %q (%v)", got, want, err)
	}
}

func TestBuildVerify(t *testing.T) {
	alice, bob := newPerson(t, now-100), newPerson(t, now-100)
	c := build(t, alice, bob, now+60)
	if c.Issuer != alice.state.ACEID() || c.Subject != bob.state.ACEID() || c.IssuedAt != now || c.ExpiresAt != now+60 {
		t.Errorf("built %+v", c.Credential)
	}
	v, err := wire.Parse(c.Raw(), wire.MaxJSONDepth)
	if err != nil {
		t.Fatal(err)
	}
	read, err := delegation.Decode(v, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Verify(alice.state, now+59); err != nil {
		t.Error(err)
	}
}

// TestSignedBytes spells out what a credential signs (02#signing-actions).
func TestSignedBytes(t *testing.T) {
	alice, bob := newPerson(t, now-100), newPerson(t, now-100)
	c := build(t, alice, bob, now+60)
	claims := fmt.Sprintf(`{"expiresAt":%d,"issuedAt":%d,"issuer":%q,"subject":%q}`, now+60, now, alice.state.ACEID(), bob.state.ACEID())
	message := wire.EncodePayload("ace.v1", alice.state.ACEID(), wire.Decimal(now), "1", claims)
	key, err := suite.ParseVerifyKey(alice.signing.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if !key.Verify(message, c.Signature.Value, "ace:delegation:1") {
		t.Error("the signature is not over these bytes")
	}
}

func TestBuildRefuses(t *testing.T) {
	alice, bob := newPerson(t, now-100), newPerson(t, now-100)
	late := newPerson(t, now+301) // its own log is further ahead than others accept
	expired := alice.delegate(t, newKey(), now-50, now-1)
	tests := []struct {
		name      string
		id        *kel.Identity
		subject   string
		expiresAt int64
		now       int64
		want      fault.Code
	}{
		{"oneself", alice.identity(), alice.state.ACEID(), now + 60, now, fault.InvalidArgument},
		{"no ACE ID", alice.identity(), "bob", now + 60, now, fault.InvalidArgument},
		{"no UTF-8", alice.identity(), "\xff", now + 60, now, fault.InvalidArgument},
		{"over at once", alice.identity(), bob.state.ACEID(), now, now, fault.InvalidArgument},
		{"too long", alice.identity(), bob.state.ACEID(), now + profile.MaxCredentialLifetime + 1, now, fault.InvalidArgument},
		{"clock", alice.identity(), bob.state.ACEID(), now + 60, -1, fault.InvalidArgument},
		{"log ahead of the clock", late.identity(), bob.state.ACEID(), now + 600, now, fault.InvalidArgument},
		{"delegation over", expired.identity(), bob.state.ACEID(), now + 60, now, fault.IdentityUnavailable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := delegation.Build(tt.id, tt.subject, tt.expiresAt, tt.now)
			wantCode(t, err, tt.want)
		})
	}
}

// TestVerifyOrder has two faults at once where the steps have an order.
func TestVerifyOrder(t *testing.T) {
	alice, bob := newPerson(t, now-100), newPerson(t, now-100)
	c := build(t, alice, bob, now+60)
	moved := alice.delegate(t, newKey(), now, 0).state

	wantCode(t, c.Verify(alice.state, -1), fault.InvalidArgument)
	wantCode(t, c.Verify(bob.state, now), fault.InvalidAuthorization)
	wantCode(t, c.Verify(alice.state, now+60), fault.InvalidAuthorization)
	wantCode(t, c.Verify(moved, now), fault.StalePeerBinding)
	// Expired and superseded: the expiry comes first.
	wantCode(t, c.Verify(moved, now+60), fault.InvalidAuthorization)
	// Superseded and forged: the delegation comes first.
	forged := tampered(t, c)
	wantCode(t, forged.Verify(alice.state, now), fault.InvalidAuthorization)
	wantCode(t, forged.Verify(moved, now), fault.StalePeerBinding)

	_, err := delegation.Decode(c.Value(), -1)
	wantCode(t, err, fault.InvalidArgument)
	_, err = delegation.Decode(c.Value().With("x", wire.NewInt(1)), now)
	wantCode(t, err, fault.InvalidAuthorization)
	_, err = delegation.Decode(c.Value(), now-301)
	wantCode(t, err, fault.InvalidAuthorization)
}

// tampered returns c with another expiry under the same signature.
func tampered(t *testing.T, c *delegation.Credential) *delegation.Credential {
	t.Helper()
	d, err := delegation.Decode(c.Value().With("expiresAt", wire.NewInt(c.ExpiresAt-1)), now)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestCheckMessage(t *testing.T) {
	alice, bob := newPerson(t, now-100), newPerson(t, now-100)
	from, to := alice.state.ACEID(), bob.state.ACEID()
	c := build(t, alice, bob, now+60)
	body := func(v wire.Value) wire.Value { return wire.NewObject(wire.M("credential", v)) }
	moved := alice.delegate(t, newKey(), now, 0).state
	open := body(c.Value()).With("x", wire.NewInt(1))

	tests := []struct {
		name     string
		body     wire.Value
		d        profile.Direction
		from, to string
		sender   *kel.State
		now      int64
		want     fault.Code
	}{
		{"send", body(c.Value()), profile.Send, from, to, nil, now, ""},
		{"receive", body(c.Value()), profile.Receive, from, to, alice.state, now, ""},
		{"a forged one is sent unseen", body(tampered(t, c).Value()), profile.Send, from, to, nil, now, ""},
		{"clock", body(c.Value()), profile.Send, from, to, nil, -1, fault.InvalidArgument},
		{"open body", open, profile.Send, from, to, nil, now, fault.InvalidBody},
		{"no credential", wire.NewObject(), profile.Send, from, to, nil, now, fault.InvalidBody},
		{"open credential", body(c.Value().With("x", wire.NewInt(1))), profile.Send, from, to, nil, now, fault.InvalidBody},
		{"expired", body(c.Value()), profile.Send, from, to, nil, now + 60, fault.InvalidBody},
		{"not from the issuer", body(c.Value()), profile.Send, to, to, nil, now, fault.InvalidBody},
		{"not to the subject", body(c.Value()), profile.Send, from, from, nil, now, fault.InvalidBody},
		{"forged", body(tampered(t, c).Value()), profile.Receive, from, to, alice.state, now, fault.InvalidBody},
		{"superseded", body(c.Value()), profile.Receive, from, to, moved, now, fault.InvalidBody},
		{"log of another", body(c.Value()), profile.Receive, from, to, bob.state, now, fault.InvalidBody},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, delegation.CheckMessage(tt.body, tt.d, tt.from, tt.to, tt.sender, tt.now), tt.want)
		})
	}
}
