package core_test

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

func extOf(t *testing.T, text string) wire.Value {
	t.Helper()
	v, err := wire.Parse([]byte(text), wire.MaxJSONDepth)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestDraft: a draft says what a publication then says, and is refused when no
// verifier would accept it.
func TestDraft(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, open())
	if d, _, err := a.Served(t.Context()); err != nil || d.Card != nil || d.Relays != nil {
		t.Fatalf("served before: %+v: %v", d, err)
	}
	a.reopen(func(c *core.Config) {
		c.Profiles = append(c.Profiles, profile.OfficialByID(profile.CommerceID))
		c.Ext = extOf(t, `{"ace:commerce:1":{"settlement":[{"method":"stripe-link"}]}}`)
		c.Card.Pay = []string{"eip155:8453:0xab"}
	})
	a.publish(false)
	d, err := a.Draft()
	if err != nil {
		t.Fatal(err)
	}
	s, expires, err := a.Served(t.Context())
	if err != nil || expires == 0 || s.Card == nil || s.Card.Pay[0] != d.Card.Pay[0] || !s.Ext.Equal(d.Ext) || len(s.Profiles) != 2 {
		t.Errorf("served %+v: %v", s, err)
	}
	if p := a.publish(false); p.Descriptor || p.Card {
		t.Errorf("nothing changed: %+v", p)
	}
	a.reopen(func(c *core.Config) { c.Ext = extOf(t, `{"ace:commerce:1":{"settlement":[{"method":"cash"}]}}`) })
	if _, err := a.Draft(); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no such method: %v", err)
	}
	a.reopen(func(c *core.Config) { c.Ext = wire.Value{}; c.Card.Pay = []string{"here"} })
	if _, err := a.Draft(); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no account: %v", err)
	}
	a.reopen(func(c *core.Config) { c.Card.Pay = nil })
	if p := a.publish(false); !p.Descriptor || !p.Card {
		t.Errorf("without ext and pay: %+v", p)
	}
}

// A credential is published for as long as it is valid, and then left out by
// itself: an issuer revokes by not renewing (delegation#credentials).
func TestEndedCredentialIsNotPublished(t *testing.T) {
	r := newRelay(t)
	a, issuer := newAgent(t, r, open()), newAgent(t, r, open())
	short, err := issuer.IssueCredential(a.ACEID(), 60)
	if err != nil {
		t.Fatal(err)
	}
	other := newAgent(t, r, open())
	long, err := other.IssueCredential(a.ACEID(), 120)
	if err != nil {
		t.Fatal(err)
	}
	now := short.ExpiresAt - 60 // of a clock that stands still between two steps
	a.reopen(func(c *core.Config) {
		c.Clock = func() int64 { return now }
		c.Profiles = append(c.Profiles, profile.OfficialByID(profile.DelegationID))
		list := wire.NewArray(short.Value(), long.Value())
		c.Ext = wire.NewObject(wire.M(profile.DelegationID, wire.NewObject(wire.M("credentials", list))))
	})
	a.publish(false)
	for _, step := range []struct {
		at   int64
		want int
	}{{now, 2}, {short.ExpiresAt - 1, 2}, {short.ExpiresAt, 1}, {long.ExpiresAt - 1, 1}, {long.ExpiresAt, 0}} {
		now = step.at
		a.healthy()
		s, _, err := a.Served(t.Context())
		value, _ := s.Ext.Get(profile.DelegationID)
		list, _ := value.Get("credentials")
		if err != nil || len(list.Items()) != step.want || step.want == 0 && s.Ext.Kind() != wire.Null {
			t.Errorf("at %d: %d credentials, want %d: %v", step.at, len(list.Items()), step.want, err)
		}
	}
}
