package commerce_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	alice = "ace:sha256:aaaa"
	bob   = "ace:sha256:bbbb"
	carol = "ace:sha256:cccc"
)

// memory is the threads of alice. The store is tried with the frozen traces, in
// core/delivery.
type memory struct {
	history map[string][]profile.ThreadEntry
	state   map[string]string
	final   map[string]bool
	open    int // added to the count
	failure error
}

func newMemory() *memory {
	return &memory{history: map[string][]profile.ThreadEntry{}, state: map[string]string{}, final: map[string]bool{}}
}

func (m *memory) Thread(peer, threadID string) (t profile.Thread, err error) {
	h := m.history[peer+threadID]
	if t.Length = len(h); t.Length == 0 {
		return t, m.failure
	}
	t.State, t.Opener, t.Head = m.state[peer+threadID], h[0].From, h[len(h)-1]
	if len(h) > 1 {
		t.Before = h[len(h)-2]
	}
	return t, m.failure
}

func (m *memory) CountOpen(string) (int, error) {
	n := m.open
	for key := range m.history {
		if !m.final[key] {
			n++
		}
	}
	return n, m.failure
}

func (m *memory) Append(peer, threadID string, e profile.ThreadEntry, state string, final bool) error {
	key := peer + threadID
	for _, h := range m.history[key] {
		if h.From == e.From && h.MessageID == e.MessageID {
			return m.failure
		}
	}
	m.history[key], m.state[key], m.final[key] = append(m.history[key], e), state, final
	return m.failure
}

// pass sends a message from one of alice and bob to the other on thread t.
func (m *memory) pass(t *testing.T, from, messageType, id, body string) error {
	t.Helper()
	e := event(from, messageType, id)
	s := profile.State{Local: alice, Threads: m}
	if err := (commerce.Rule{}).Check(s, e, parse(t, body)); err != nil {
		return err
	}
	return commerce.Rule{}.Commit(s, e, parse(t, body))
}

func event(from, messageType, id string) profile.Event {
	e := profile.Event{Direction: profile.Receive, From: from, To: alice, MessageID: id, Timestamp: 1, Type: messageType, ThreadID: "t"}
	if from == alice {
		e.Direction, e.To = profile.Send, bob
	}
	return e
}

func parse(t *testing.T, text string) wire.Value {
	t.Helper()
	v, err := wire.Parse([]byte(text), wire.MaxJSONDepth)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantCode(t *testing.T, err error, want fault.Code) {
	t.Helper()
	if got := fault.CodeOf(err); got != want {
		t.Errorf("code %q, want %q (%v)", got, want, err)
	}
}

const (
	terms   = `{"price":"1","currency":"USDC"}`
	invoice = `{"offerId":"2","amount":"1","currency":"USDC","settlement":{"method":"stripe-link","url":"https://a.example"}}`
	payment = `{"referenceId":"%s","amount":"1","currency":"USDC","settlement":{"method":"stripe-link","proof":{"paymentId":"p"}}}`
	inline  = `{"type":"inline","content":"done"}`
)

// TestThreeWays walks the three ways from rfq to confirmed of
// commerce#parties-and-roles, bob selling.
func TestThreeWays(t *testing.T) {
	type message struct{ from, messageType, body string }
	opening := []message{
		{alice, commerce.RFQ, `{"need":"x"}`}, {bob, commerce.Offer, terms}, {alice, commerce.Accept, `{"offerId":"2"}`},
	}
	for name, ending := range map[string][]message{
		"invoiced": {
			{bob, commerce.Invoice, invoice}, {alice, commerce.Payment, fmt.Sprintf(payment, "4")},
			{bob, commerce.Deliver, inline}, {alice, commerce.Confirm, `{"deliverId":"6"}`},
		},
		"pre-paid": {
			{alice, commerce.Payment, fmt.Sprintf(payment, "3")}, {bob, commerce.Deliver, inline},
			{alice, commerce.Confirm, `{"deliverId":"5"}`},
		},
		"deliver-first": {{bob, commerce.Deliver, inline}, {alice, commerce.Confirm, `{"deliverId":"4"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			for i, next := range append(opening, ending...) {
				if err := m.pass(t, next.from, next.messageType, fmt.Sprint(i+1), next.body); err != nil {
					t.Fatalf("message %d, %s: %v", i+1, next.messageType, err)
				}
			}
			if m.state[bob+"t"] != string(commerce.Confirmed) || !m.final[bob+"t"] {
				t.Errorf("ended as %q", m.state[bob+"t"])
			}
		})
	}
}

// TestCheckOrder has two faults at once where commerce#check-order puts one
// before the other.
func TestCheckOrder(t *testing.T) {
	m := newMemory()
	for _, err := range []error{m.pass(t, alice, commerce.RFQ, "1", `{"need":"x"}`), m.pass(t, bob, commerce.Offer, "2", terms)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	accept := func(change func(*profile.Event)) profile.Event {
		e := event(alice, commerce.Accept, "3")
		change(&e)
		return e
	}
	tests := []struct {
		name string
		e    profile.Event
		body string
		want fault.Code
	}{
		{"no thread and no party", accept(func(e *profile.Event) { e.ThreadID, e.From = "", carol }), `{"offerId":"2"}`, fault.InvalidBody},
		{"no body and no party", accept(func(e *profile.Event) { e.Type, e.From = commerce.Deliver, carol }), `{"type":"inline"}`, fault.InvalidBody},
		{"no party and no transition", accept(func(e *profile.Event) { e.Type, e.From = commerce.RFQ, carol }), `{"need":"x"}`, commerce.WrongParty},
		{"to oneself", accept(func(e *profile.Event) { e.To = alice }), `{"offerId":"2"}`, commerce.WrongParty},
		{"no transition and the wrong role", event(alice, commerce.Invoice, "3"), invoice, commerce.TransitionNotAllowed},
		{"wrong role and a bad reference", event(bob, commerce.Accept, "3"), `{"offerId":"9"}`, commerce.WrongRole},
		{"a bad reference", event(alice, commerce.Accept, "3"), `{"offerId":"1"}`, commerce.BadReference},
		{"the head", event(alice, commerce.Accept, "3"), `{"offerId":"2"}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantCode(t, commerce.Rule{}.Check(profile.State{Local: alice, Threads: m}, tt.e, parse(t, tt.body)), tt.want)
		})
	}
}

// TestCommitKeepsTheTable: what the state does not take changes nothing
// (08#sender-state-and-busy-threads step 4, a late receipt).
func TestCommitKeepsTheTable(t *testing.T) {
	m := newMemory()
	s := profile.State{Local: alice, Threads: m}
	for name, e := range map[string]profile.Event{
		"no transition": event(alice, commerce.Accept, "1"),
		"no party":      {From: carol, To: bob, MessageID: "1", Type: commerce.RFQ, ThreadID: "t"},
	} {
		if err := (commerce.Rule{}).Commit(s, e, wire.NewObject()); err != nil || len(m.history) > 0 {
			t.Fatalf("%s: %v, history %v", name, err, m.history)
		}
	}
	if err := m.pass(t, alice, commerce.RFQ, "1", `{"need":"x"}`); err != nil {
		t.Fatal(err)
	}
	if err := (commerce.Rule{}).Commit(s, event(alice, commerce.Offer, "2"), wire.NewObject()); err != nil || m.state[bob+"t"] != string(commerce.Requested) {
		t.Errorf("the buyer made an offer: %v, %q", err, m.state[bob+"t"])
	}
}

// TestBounds covers commerce#bounds-and-retention: a bound refuses a message that
// needs room, and no other, and never what a receiver has applied.
func TestBounds(t *testing.T) {
	m := newMemory()
	m.open = 999
	if err := m.pass(t, alice, commerce.RFQ, "1", `{"need":"x"}`); err != nil {
		t.Fatal(err)
	}
	other := event(alice, commerce.RFQ, "9")
	other.ThreadID = "u"
	s := profile.State{Local: alice, Threads: m}
	wantCode(t, commerce.Rule{}.Check(s, other, wire.NewObject()), commerce.LimitExceeded)
	if err := (commerce.Rule{}).Commit(s, other, wire.NewObject()); err != nil || m.state[bob+"u"] != string(commerce.Requested) {
		t.Errorf("the state does not follow the receiver: %v", err)
	}
	for i := range 999 {
		if err := m.pass(t, bob, commerce.Offer, fmt.Sprint("o", i), terms); err != nil {
			t.Fatalf("offer %d: %v", i, err)
		}
	}
	wantCode(t, m.pass(t, bob, commerce.Offer, "more", terms), commerce.LimitExceeded)
	// A full thread still comes to its end.
	if err := m.pass(t, alice, commerce.Accept, "a", `{"offerId":"o998"}`); err != nil {
		t.Error(err)
	}
}

// TestFailuresAreNoVerdicts: what the state fails with comes back as it is.
func TestFailuresAreNoVerdicts(t *testing.T) {
	m := newMemory()
	m.failure = fault.New(fault.StorageFailed, "disk")
	wantCode(t, m.pass(t, alice, commerce.RFQ, "1", `{"need":"x"}`), fault.StorageFailed)
	s := profile.State{Local: alice, Threads: m}
	wantCode(t, commerce.Rule{}.Commit(s, event(alice, commerce.RFQ, "1"), wire.NewObject()), fault.StorageFailed)
	m.failure = errors.New("end of the context")
	if err := m.pass(t, alice, commerce.RFQ, "1", `{"need":"x"}`); !errors.Is(err, m.failure) {
		t.Error(err)
	}
}

func TestNext(t *testing.T) {
	types := 0
	for _, s := range []commerce.State{commerce.Idle, commerce.Requested, commerce.Offered, commerce.Accepted, commerce.Invoiced, commerce.Paid, commerce.Delivered} {
		if s.Final() || len(commerce.Next(s)) == 0 {
			t.Errorf("%s: final %v, next %v", s, s.Final(), commerce.Next(s))
		}
		types += len(commerce.Next(s))
	}
	if types != 12 {
		t.Errorf("%d moves, and the table has 12", types)
	}
	for _, s := range []commerce.State{commerce.Rejected, commerce.Confirmed} {
		if !s.Final() || len(commerce.Next(s)) > 0 {
			t.Errorf("%s: final %v, next %v", s, s.Final(), commerce.Next(s))
		}
	}
}
