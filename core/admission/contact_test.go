package admission_test

import (
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

func publish(t testing.TB, a agent) *descriptor.PublishedAgent {
	t.Helper()
	source, err := descriptor.Build(a.Identity, descriptor.Fields{
		ExpiresAt: now + 3600,
		Relays:    []string{"https://relay.example"},
		Prekey:    suite.NewDecapsulationKey(suite.NewSeed()).PublicKey(),
	}, now, -1, descriptor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestContactKinds(t *testing.T) {
	from := newAgent(t)
	source, permit := publish(t, from), issue(t, from, 1000)
	for _, c := range []struct {
		kind   string
		permit *admission.Permit
	}{
		{admission.Request, permit},
		{admission.Accepted, permit},
		{admission.Rejected, nil},
	} {
		body := admission.Body(c.kind, profile.TextID, "hi", source, c.permit)
		contact, err := admission.DecodeContact(body)
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		got, err := contact.VerifySource(from.ACEID(), now, descriptor.Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		held, err := contact.VerifyPermit(got.State(), from.ACEID(), subject, now)
		if err != nil || (held != nil) != (c.permit != nil) {
			t.Errorf("%s: permit %v, %v", c.kind, held, err)
		}
	}
}

// TestContactOrder has two faults at a time. The steps are those of
// interop#open-packet---from-agent-f---packet-p---out-r---now-n step 7.
func TestContactOrder(t *testing.T) {
	from, another := newAgent(t), newAgent(t)
	source := publish(t, from)
	foreign, err := admission.IssuePermit(another.Identity, subject, now, 1000)
	if err != nil {
		t.Fatal(err)
	}
	longNote := strings.Repeat("ä", 257)
	body := admission.Body(admission.Request, profile.TextID, longNote, source, foreign)
	otherSource := body.With("source", publish(t, another).Value())
	for _, c := range []struct {
		name string
		body wire.Value
		code fault.Code
	}{
		{"schema and source", otherSource.With("kind", wire.NewString("hello")), fault.InvalidBody},
		{"source and note", otherSource, fault.InvalidAuthorization},
		{"note and permit", body, fault.InvalidBody},
		{"note and no permit", body.Without("permit"), fault.InvalidBody},
		{"permit", body.With("note", wire.NewString("")), fault.InvalidAuthorization},
		{"permit with a rejection", body.With("note", wire.NewString("")).With("kind", wire.NewString("rejected")), fault.InvalidBody},
		{"profile and permit", body.With("note", wire.NewString("")).With("profile", wire.NewString("text")), fault.InvalidBody},
		{"unknown member", body.With("x", wire.NewInt(1)), fault.InvalidBody},
		{"permit null", body.With("permit", wire.Value{}), fault.InvalidBody},
	} {
		wantCode(t, c.name, verify(c.body, from.ACEID()), c.code)
	}
}

func verify(body wire.Value, from string) error {
	c, err := admission.DecodeContact(body)
	if err != nil {
		return err
	}
	source, err := c.VerifySource(from, now, descriptor.Options{})
	if err != nil {
		return err
	}
	_, err = c.VerifyPermit(source.State(), from, subject, now)
	return err
}

// TestSourceHasOneCode: a source fails as a whole, with the cause below it.
func TestSourceHasOneCode(t *testing.T) {
	from := newAgent(t)
	source := publish(t, from)
	body := admission.Body(admission.Rejected, profile.TextID, "", source, nil)
	wantCode(t, "expired", verifyAt(t, body, from.ACEID(), now+3600), fault.InvalidAuthorization)
	wantCode(t, "broken clock", verifyAt(t, body, from.ACEID(), -1), fault.InvalidArgument)
	broken := body.With("source", source.Value().With("kel", wire.NewArray()))
	wantCode(t, "malformed log", verifyAt(t, broken, from.ACEID(), now), fault.InvalidAuthorization)
}

func verifyAt(t *testing.T, body wire.Value, from string, at int64) error {
	t.Helper()
	c, err := admission.DecodeContact(body)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.VerifySource(from, at, descriptor.Options{})
	return err
}

func FuzzContact(f *testing.F) {
	from := newAgent(f)
	source, permit := publish(f, from), issue(f, from, 1000)
	f.Add(admission.Body(admission.Request, profile.TextID, "hi", source, permit).Canonical())
	f.Add(admission.Body(admission.Rejected, profile.TextID, "", source, nil).Canonical())
	f.Add([]byte(`{"kind":"request","note":"","profile":"a:b","source":{"kel":[1,2]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := wire.Parse(data, wire.MaxJSONDepth)
		if err != nil {
			return
		}
		c, err := admission.DecodeContact(v)
		if err != nil {
			wantCode(t, "shape", err, fault.InvalidBody)
			return
		}
		if c.CheckMembers() == nil && (c.Permit.Kind() == wire.Null) != (c.Kind == admission.Rejected) {
			t.Fatalf("a permit that must not be there: %s", data)
		}
		_ = c.CheckStrangerSource()
		if _, err := c.VerifySource(from.ACEID(), now, descriptor.Options{}); err != nil {
			wantCode(t, "source", err, fault.InvalidAuthorization)
		}
	})
}
