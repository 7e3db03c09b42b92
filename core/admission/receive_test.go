package admission_test

import (
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

func TestReceive(t *testing.T) {
	for state, want := range map[admission.State]admission.Verdict{
		admission.Stranger: admission.Candidate,
		admission.Pending:  admission.Authenticate,
		admission.Admitted: admission.Authenticate,
		admission.Blocked:  admission.Drop,
		"unheard of":       admission.Drop,
	} {
		if got := admission.Receive(state); got != want {
			t.Errorf("%q: %d, want %d", state, got, want)
		}
	}
}

func TestContactCandidate(t *testing.T) {
	body := func(kind string) wire.Value { return wire.NewObject(wire.M("kind", wire.NewString(kind))) }
	for _, c := range []struct {
		name        string
		state       admission.State
		contact     string
		messageType string
		body        wire.Value
		want        bool
	}{
		{"request to an open agent", admission.Stranger, admission.Open, profile.ContactType, body(admission.Request), true},
		{"request to a closed agent", admission.Stranger, admission.Closed, profile.ContactType, body(admission.Request), false},
		{"request to an agent without a card", admission.Stranger, "", profile.ContactType, body(admission.Request), false},
		{"accepted by a stranger", admission.Stranger, admission.Open, profile.ContactType, body(admission.Accepted), false},
		{"no body", admission.Stranger, admission.Open, profile.ContactType, wire.Value{}, false},
		{"text of a stranger", admission.Stranger, admission.Open, profile.TextType, body(admission.Request), false},
		{"accepted by a pending peer", admission.Pending, admission.Closed, profile.ContactType, body(admission.Accepted), true},
		{"request of an admitted peer", admission.Admitted, admission.Closed, profile.ContactType, body(admission.Request), true},
		{"text of an admitted peer", admission.Admitted, admission.Open, profile.TextType, body(admission.Request), false},
		{"request of a blocked peer", admission.Blocked, admission.Open, profile.ContactType, body(admission.Request), false},
	} {
		if got := admission.IsContactCandidate(c.state, c.contact, c.messageType, c.body); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestStrangerSource(t *testing.T) {
	contact := func(events int) *admission.Contact {
		log := wire.NewArray(make([]wire.Value, events)...)
		return &admission.Contact{Source: wire.NewObject(wire.M("kel", log))}
	}
	wantCode(t, "at the bound", contact(wire.MaxStrangerKELEvents).CheckStrangerSource(), "")
	wantCode(t, "one more", contact(wire.MaxStrangerKELEvents+1).CheckStrangerSource(), fault.InvalidAuthorization)
	// A source without a log is left to its verification.
	wantCode(t, "no log", (&admission.Contact{Source: wire.NewObject()}).CheckStrangerSource(), "")
}

func TestHold(t *testing.T) {
	var full []admission.HeldRequest
	for i := range int64(wire.MaxPendingContactRequests) {
		full = append(full, admission.HeldRequest{From: wire.Decimal(i), ReceivedAt: now + i})
	}
	for _, c := range []struct {
		name string
		held []admission.HeldRequest
		from string
		now  int64
		want []admission.HeldRequest
	}{
		{"first", nil, "a", now, nil},
		{"room for one", full[1:], "a", now + 100, nil},
		{"full: the oldest leaves", full, "a", now + 100, full[:1]},
		{"full, same sender: only its own leaves", full, "5", now + 100, full[5:6]},
		{"just before the end", full, "a", now + 86399, full[:1]},
		{"expired ones make room", full, "a", now + 86401, full[:2]},
		{"expired and its own", full, "7", now + 86400, []admission.HeldRequest{full[0], full[7]}},
	} {
		if got := admission.Hold(c.held, c.from, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	r := admission.HeldRequest{ReceivedAt: now}
	if r.Expired(now+86399) || !r.Expired(now+86400) {
		t.Error("wrong about what has expired")
	}
}
