package admission_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

const now = 1760140800

// agent is an identity with its keys.
type agent struct {
	*kel.Identity
	root, signing *suite.SigningKey
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

// newAgent makes an identity whose delegation started a day before now and ends
// a day after it.
func newAgent(t testing.TB) agent {
	t.Helper()
	a := agent{root: newKey(), signing: newKey()}
	log, err := kel.Incept(a.root, kel.Commitment(wire.SchemeMLDSA65, newKey().PublicKey()), now-86400)
	if err != nil {
		t.Fatal(err)
	}
	log, err = log.Delegate(a.root, a.signing.PublicKey(), now-86400, now+86400)
	if err != nil {
		t.Fatal(err)
	}
	a.Identity = kel.NewIdentity(log, a.signing)
	return a
}

func wantCode(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	if err == nil || fault.CodeOf(err) != code {
		t.Errorf("%s: %v (%s), want %s", what, err, fault.CodeOf(err), code)
	}
}

var subject = wire.ACEID(strings.Repeat("2", 64))

func issue(t testing.TB, issuer agent, lifetime int64) *admission.Permit {
	t.Helper()
	p, err := admission.IssuePermit(issuer.Identity, subject, now, lifetime)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPermit(t *testing.T) {
	issuer, another := newAgent(t), newAgent(t)
	p := issue(t, issuer, 1000)
	anotherLater, err := another.State().Delegate(another.root, newKey().PublicKey(), now, 0)
	if err != nil {
		t.Fatal(err)
	}
	if p.IssuedAt != now || p.ExpiresAt != now+1000 || p.Digest() != suite.Hex256(p.Raw()) {
		t.Errorf("issued %+v", p)
	}
	for _, c := range []struct {
		name            string
		state           *kel.State
		issuer, subject string
		now             int64
		code            fault.Code
	}{
		{"valid", issuer.State(), issuer.ACEID(), subject, now, ""},
		{"clock behind, at the bound", issuer.State(), issuer.ACEID(), subject, now - 300, ""},
		{"clock too far behind", issuer.State(), issuer.ACEID(), subject, now - 301, fault.InvalidAuthorization},
		{"last second", issuer.State(), issuer.ACEID(), subject, now + 999, ""},
		{"expired", issuer.State(), issuer.ACEID(), subject, now + 1000, fault.InvalidAuthorization},
		{"another subject", issuer.State(), issuer.ACEID(), another.ACEID(), now, fault.InvalidAuthorization},
		{"another issuer", issuer.State(), another.ACEID(), subject, now, fault.InvalidAuthorization},
		{"log of another", another.State(), issuer.ACEID(), subject, now, fault.InvalidAuthorization},
		{"log of another with another seq", anotherLater, issuer.ACEID(), subject, now, fault.InvalidAuthorization},
		{"invalid clock", issuer.State(), issuer.ACEID(), subject, -1, fault.InvalidArgument},
		// Expired and of another subject: both are the permit's own.
		{"expired, another subject", issuer.State(), issuer.ACEID(), another.ACEID(), now + 1000, fault.InvalidAuthorization},
	} {
		wantCode(t, c.name, p.Verify(c.state, c.issuer, c.subject, c.now), c.code)
	}
}

// TestPermitEndsWithItsKey: a new delegation voids every permit, and one that
// has ended signs for nothing (05#delivery-permits).
func TestPermitEndsWithItsKey(t *testing.T) {
	issuer := newAgent(t)
	p := issue(t, issuer, wire.MaxPermitLifetime)
	wantCode(t, "delegation ended", p.Verify(issuer.State(), issuer.ACEID(), subject, now+86400), fault.StalePeerBinding)
	later, err := issuer.State().Delegate(issuer.root, newKey().PublicKey(), now+10, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "superseded", p.Verify(later, issuer.ACEID(), subject, now+10), fault.StalePeerBinding)
	// An expired permit of a superseded key: time is looked at first.
	short := issue(t, issuer, 5)
	wantCode(t, "expired and superseded", short.Verify(later, issuer.ACEID(), subject, now+10), fault.InvalidAuthorization)
}

// TestPermitBytes spells out the claims that are signed (05#delivery-permits).
func TestPermitBytes(t *testing.T) {
	issuer := newAgent(t)
	p := issue(t, issuer, 1000)
	claims := `{"expiresAt":1760141800,"issuedAt":1760140800,"issuer":"` + issuer.ACEID() + `","subject":"` + subject + `"}`
	message := kel.Message(issuer.ACEID(), now, "1", []byte(claims))
	key, err := suite.ParseVerifyKey(issuer.signing.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	if !key.Verify(message, p.Signature.Value, "delivery-permit") {
		t.Error("the signature is not over these claims")
	}
}

func TestPermitShape(t *testing.T) {
	v := issue(t, newAgent(t), 1000).Value()
	issuer, _ := v.Get("issuer")
	for name, changed := range map[string]wire.Value{
		"null":              {},
		"unknown member":    v.With("x", wire.NewInt(1)),
		"no signature":      v.Without("signature"),
		"to itself":         v.With("subject", issuer),
		"not after":         v.With("expiresAt", wire.NewInt(now)),
		"lifetime too long": v.With("expiresAt", wire.NewInt(now+wire.MaxPermitLifetime+1)),
		"text time":         v.With("issuedAt", wire.NewString("1")),
	} {
		_, err := admission.DecodePermit(changed)
		wantCode(t, name, err, fault.InvalidAuthorization)
	}
	if _, err := admission.DecodePermit(v.With("expiresAt", wire.NewInt(now+wire.MaxPermitLifetime))); err != nil {
		t.Errorf("longest lifetime: %v", err)
	}
}

func TestIssuePermitRefuses(t *testing.T) {
	issuer := newAgent(t)
	for _, c := range []struct {
		name     string
		subject  string
		now      int64
		lifetime int64
		code     fault.Code
	}{
		{"no ACE ID", "bob", now, 1, fault.InvalidArgument},
		{"itself", issuer.ACEID(), now, 1, fault.InvalidArgument},
		{"no lifetime", subject, now, 0, fault.InvalidArgument},
		{"too long", subject, now, wire.MaxPermitLifetime + 1, fault.InvalidArgument},
		{"broken clock", subject, -1, 1, fault.InvalidArgument},
		{"past the last time", subject, wire.MaxInt, 1, fault.InvalidArgument},
		{"delegation ended", subject, now + 86400, 1, fault.IdentityUnavailable},
	} {
		_, err := admission.IssuePermit(issuer.Identity, c.subject, c.now, c.lifetime)
		wantCode(t, c.name, err, c.code)
	}
	// A clock behind the log: the permit carries the time of the last event.
	p, err := admission.IssuePermit(issuer.Identity, subject, 5, 1)
	if err != nil || p.IssuedAt != now-86400 {
		t.Errorf("clock behind: %+v, %v", p, err)
	}
}

func FuzzPermit(f *testing.F) {
	issuer := newAgent(f)
	f.Add(issue(f, issuer, 1000).Raw())
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := wire.Parse(data, wire.MaxJSONDepth)
		if err != nil {
			return
		}
		p, err := admission.DecodePermit(v)
		if err != nil {
			wantCode(t, "shape", err, fault.InvalidAuthorization)
			return
		}
		if !bytes.Equal(p.Raw(), v.Canonical()) {
			t.Fatalf("%s is not %s", p.Raw(), v.Canonical())
		}
		// Whatever is accepted was signed by the issuer.
		if p.Verify(issuer.State(), p.Issuer, p.Subject, now) == nil && p.Issuer != issuer.ACEID() {
			t.Fatal("a permit of another issuer verified")
		}
	})
}
