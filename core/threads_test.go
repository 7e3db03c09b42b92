package core_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/wire"
)

// traders are a buyer and a seller who know each other.
func traders(t *testing.T) (r *relay, buyer, seller *agent) {
	t.Helper()
	r = newRelay(t)
	buyer, seller = newAgent(t, r, closed()), newAgent(t, r, open())
	for _, a := range []*agent{buyer, seller} {
		a.reopen(func(c *core.Config) {
			c.Profiles = append(c.Profiles, profile.OfficialByID(profile.CommerceID), profile.OfficialByID(profile.DelegationID))
		})
	}
	befriend(buyer, seller)
	return r, buyer, seller
}

// trade queues a commerce message on thread t.
func (a *agent) trade(to *agent, messageType string, body ...wire.Member) (core.Outgoing, error) {
	return a.Enqueue(a.t.Context(), core.OutMessage{To: to.ACEID(), Type: messageType, ThreadID: "t", Body: wire.NewObject(body...)})
}

// deliver sends a commerce message and lets its receipt come.
func (a *agent) deliver(to *agent, messageType string, body ...wire.Member) core.Outgoing {
	a.t.Helper()
	out, err := a.trade(to, messageType, body...)
	if err == nil {
		_, err = a.Attempt(a.t.Context(), out.MessageID)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	wantKinds(a.t, to.pull(), core.EventMessage)
	wantKinds(a.t, a.pull(), core.EventReceipt)
	return out
}

func (a *agent) thread(with *agent) core.Thread {
	a.t.Helper()
	thread, _, err := a.Thread(a.t.Context(), with.ACEID(), "t")
	if err != nil {
		a.t.Fatal(err)
	}
	return thread
}

func TestThreads(t *testing.T) {
	r, buyer, seller := traders(t)
	if _, _, err := buyer.Thread(t.Context(), seller.ACEID(), "t"); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("no such thread: %v", err)
	}
	buyer.deliver(seller, commerce.RFQ, wire.M("need", wire.NewString("x")))
	if got := buyer.thread(seller); got.Role != commerce.Buyer || got.State != commerce.Requested || got.MyTurn() || len(got.Next) != 2 {
		t.Errorf("the buyer has %+v", got)
	}
	if got := seller.thread(buyer); got.Role != commerce.Seller || !got.MyTurn() || got.Entries != 1 {
		t.Errorf("the seller has %+v", got)
	}

	terms := []wire.Member{wire.M("price", wire.NewString("1")), wire.M("currency", wire.NewString("USDC"))}
	offer, err := seller.trade(buyer, commerce.Offer, terms...)
	if err != nil {
		t.Fatal(err)
	}
	if got := seller.thread(buyer); got.Pending != offer.MessageID || got.MyTurn() || got.State != commerce.Requested {
		t.Errorf("with the offer under way: %+v", got)
	}
	if _, err := seller.trade(buyer, commerce.Offer, terms...); !errors.Is(err, fault.ThreadBusy) {
		t.Errorf("a second offer: %v", err)
	}
	if _, err := seller.RetryDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	buyer.pull()
	seller.pull()
	member, id, err := buyer.Reference(t.Context(), seller.ACEID(), "t", commerce.Accept)
	if err != nil || member != "offerId" || id != offer.MessageID {
		t.Errorf("an accept refers by %q to %q: %v", member, id, err)
	}
	if _, err := buyer.trade(seller, commerce.Confirm, wire.M("deliverId", wire.NewString(id))); !errors.Is(err, commerce.TransitionNotAllowed) {
		t.Errorf("confirmed too early: %v", err)
	}
	buyer.deliver(seller, commerce.Reject)

	_, history, err := buyer.Thread(t.Context(), seller.ACEID(), "t")
	var types []string
	for _, e := range history {
		types = append(types, e.Type)
	}
	if err != nil || !slices.Equal(types, []string{commerce.RFQ, commerce.Offer, commerce.Reject}) || history[1].From != seller.ACEID() {
		t.Errorf("history %+v: %v", history, err)
	}
	if peers, err := buyer.ThreadPeers(t.Context(), "t"); err != nil || !slices.Equal(peers, []string{seller.ACEID()}) {
		t.Errorf("thread t is with %q: %v", peers, err)
	}
	if all, err := buyer.Threads(t.Context(), ""); err != nil || len(all) != 1 || all[0].State != commerce.Rejected || all[0].MyTurn() {
		t.Errorf("threads %+v: %v", all, err)
	}

	// commerce#bounds-and-retention: a thread that ended goes after 30 days.
	for _, tt := range []struct {
		ahead int64
		left  int
	}{{2_592_000 - 60, 1}, {120, 0}} {
		r.ahead.Add(tt.ahead)
		if _, err := buyer.Upkeep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if all, err := buyer.Threads(t.Context(), seller.ACEID()); err != nil || len(all) != tt.left {
			t.Errorf("%d threads are left: %v", len(all), err)
		}
	}
}

// TestThreadThatOpens: a thread is there from the message on that opens it, and as
// long as its receipt may come.
func TestThreadThatOpens(t *testing.T) {
	_, buyer, seller := traders(t)
	out, err := buyer.trade(seller, commerce.RFQ, wire.M("need", wire.NewString("x")))
	if err != nil {
		t.Fatal(err)
	}
	check := func(want int) {
		t.Helper()
		for _, peer := range []string{"", seller.ACEID()} {
			if all, err := buyer.Threads(t.Context(), peer); err != nil || len(all) != want {
				t.Errorf("threads %+v: %v", all, err)
			}
		}
		if peers, err := buyer.ThreadPeers(t.Context(), "t"); err != nil || len(peers) != want {
			t.Errorf("thread t is with %q: %v", peers, err)
		}
	}
	check(1)
	got, history, err := buyer.Thread(t.Context(), seller.ACEID(), "t")
	if err != nil || got.State != commerce.Idle || got.Role != commerce.Buyer || got.Pending != out.MessageID || got.MyTurn() || got.Entries+len(history) != 0 {
		t.Errorf("%+v with history %+v: %v", got, history, err)
	}
	if others, err := buyer.Threads(t.Context(), buyer.ACEID()); err != nil || len(others) != 0 {
		t.Errorf("threads of others: %+v, %v", others, err)
	}
	if _, err := buyer.Attempt(t.Context(), out.MessageID); err != nil {
		t.Fatal(err)
	}
	seller.pull()
	buyer.pull()
	check(1)
	if got := buyer.thread(seller); got.State != commerce.Requested {
		t.Errorf("the receipt leaves it %s", got.State)
	}

	if out, err = buyer.Enqueue(t.Context(), core.OutMessage{To: seller.ACEID(), Type: commerce.RFQ, ThreadID: "u", Body: wire.NewObject(wire.M("need", wire.NewString("y")))}); err != nil {
		t.Fatal(err)
	}
	if _, err := buyer.Abandon(t.Context(), out.MessageID); err != nil {
		t.Fatal(err)
	}
	check(1)
}

// TestRulesOfThirdParties: a rule in the configuration governs the types of a
// profile that is enabled.
func TestRulesOfThirdParties(t *testing.T) {
	r := newRelay(t)
	a := newAgent(t, r, closed())
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	m, err := profile.ParseManifest([]byte(`{"id":"example:p:1","messages":[{"type":"example:a:1","schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	a.config.Rules = []profile.Rule{refuseAll{}}
	if _, err := core.Open(t.Context(), a.config); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a rule for a profile that is not enabled: %v", err)
	}
	a.config.Profiles = append(a.config.Profiles, m)
	a.open()
	b := newAgent(t, r, open())
	befriend(a, b)
	_, err = a.Enqueue(t.Context(), core.OutMessage{To: b.ACEID(), Type: "example:a:1", Body: wire.NewObject()})
	if !errors.Is(err, fault.Code("refused")) {
		t.Errorf("the rule did not judge: %v", err)
	}
}

type refuseAll struct{}

func (refuseAll) Types() []string { return []string{"example:a:1"} }
func (refuseAll) Check(profile.State, profile.Event, wire.Value) error {
	return fault.New("refused", "no")
}
func (refuseAll) Commit(profile.State, profile.Event, wire.Value) error { return nil }
