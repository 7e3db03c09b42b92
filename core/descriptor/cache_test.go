package descriptor_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
)

func TestUsable(t *testing.T) {
	p := newPerson(t, now-100)
	advanced := p.dlg(t, now-50, 0)
	a := build(t, p, fields(), now, -1)
	tests := []struct {
		name string
		now  int64
		pin  *kel.State
		want bool
	}{
		{"under the pin", now, p.state, true},
		{"last second", a.ExpiresAt - 1, p.state, true},
		{"expired", a.ExpiresAt, p.state, false},
		{"pin advanced", now, advanced.state, false},
		{"pin of another", now, newPerson(t, now-100).state, false},
		{"no pin", now, nil, false},
		{"broken clock", -1, p.state, false},
	}
	for _, tt := range tests {
		if got := a.Usable(tt.now, tt.pin); got != tt.want {
			t.Errorf("%s: Usable is %v", tt.name, got)
		}
	}
}

// TestReplaces goes through 04#caching.
func TestReplaces(t *testing.T) {
	p := newPerson(t, now-100)
	next := p.dlg(t, now-50, 0)
	shorter := fields()
	shorter.ExpiresAt--
	at := func(p person, issuedAt int64) *descriptor.PublishedAgent {
		return build(t, p, fields(), issuedAt, -1)
	}
	held := at(p, now)
	stored, err := descriptor.DecodeStored(held.Raw())
	if err != nil {
		t.Fatal(err)
	}
	// The signature does not cover the kel, which a relay may cut short.
	cutShort, err := descriptor.VerifyValue(at(next, now+9).Value().With("kel", p.state.Value()), now, descriptor.Options{Pin: next.state})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name              string
		cached, candidate *descriptor.PublishedAgent
		pin               *kel.State
		want              fault.Code
	}{
		{"nothing held", nil, held, p.state, ""},
		{"newer", held, at(p, now+1), p.state, ""},
		{"newer than a stored one", stored, at(p, now+1), p.state, ""},
		{"the same", held, at(p, now), p.state, ""},
		{"older", held, at(p, now-1), p.state, fault.StalePeerBinding},
		{"older than a stored one", stored, at(p, now-1), p.state, fault.StalePeerBinding},
		{"other claims at the same time", held, build(t, p, shorter, now, -1), p.state, fault.InvalidAuthorization},
		{"older, but the kel advanced", held, at(next, now-1), next.state, ""},
		{"other claims at the same time, but the kel advanced", held, build(t, next, shorter, now, -1), next.state, ""},
		{"newer with a kel cut short", at(next, now), cutShort, next.state, fault.StalePeerBinding},
		{"kel cut short where none of worth is held", held, cutShort, next.state, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, descriptor.Replaces(tt.cached, tt.candidate, tt.pin), tt.want)
		})
	}
	// No rollback, not even to replace an expired one.
	if held.Usable(held.ExpiresAt, p.state) {
		t.Fatal("not expired")
	}
	wantCode(t, descriptor.Replaces(held, at(p, now-1), p.state), fault.StalePeerBinding)
}

// TestCardHorizon goes through 04#card-record: the highest issuedAt and the
// claims at it are kept for good.
func TestCardHorizon(t *testing.T) {
	p := newPerson(t, now-100)
	moved := p.dlg(t, now-50, 0)
	listed := record()
	listed.Listed = true
	seen := buildCard(t, p, record(), now, -1)
	h := descriptor.CardHorizon{IssuedAt: seen.IssuedAt, ClaimsDigest: seen.ClaimsDigest()}
	tests := []struct {
		name string
		h    descriptor.CardHorizon
		b    *descriptor.CardBundle
		want fault.Code
	}{
		{"none seen", descriptor.CardHorizon{}, seen, ""},
		{"the same", h, seen, ""},
		{"the same claims under another key", h, buildCard(t, moved, record(), now, -1), ""},
		{"newer", h, buildCard(t, p, listed, now+1, -1), ""},
		{"older", h, buildCard(t, p, record(), now-1, -1), fault.StaleDescriptor},
		{"older after a new dlg", h, buildCard(t, moved, record(), now-1, -1), fault.StaleDescriptor},
		{"other claims at the same time", h, buildCard(t, p, listed, now, -1), fault.StaleDescriptor},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { wantCode(t, tt.h.Accept(tt.b), tt.want) })
	}
}
