package delivery_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Until a peer sends, an endpoint that lost its state reaches it by a request,
// which an open peer accepts without a decision (05#admission-recovery).
func TestLostStateComesBackByConnecting(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "open", nil)
	befriend(alice, bob)
	w.now += 10
	alice.lose()
	if alice.permit(bob, store.PermitHeld).Raw != nil {
		t.Fatal("a permit is held: nothing is lost")
	}
	alice.connect(bob)
	if r := bob.pullOne(delivery.Delivered, ""); r.Request != nil {
		t.Errorf("the request waits for a decision: %+v", r)
	}
	alice.pullOne(delivery.Delivered, "")
	alice.wantState(bob, "admitted")
	alice.send(bob, "back")
	bob.pullOne(delivery.Delivered, "")
}

// The seen store is lost with the rest: a retry of a message that was taken in
// before is handed over again (05#admission-recovery).
func TestLostStateHandsAMessageOverAgain(t *testing.T) {
	w, alice, bob := friends(t)
	sent := bob.send(alice, "x")
	alice.pullOne(delivery.Delivered, "")
	w.now += 60
	alice.lose()
	bob.attempt(sent.MessageID) // it has not read the receipt yet
	if r := alice.pullOne(delivery.Delivered, ""); r.Message == nil || r.MessageID != sent.MessageID {
		t.Errorf("result %+v", r)
	}
	if got := alice.inbox(); len(got) != 1 {
		t.Errorf("inbox %v", got)
	}
}

// A receiver that authenticates the sender from its pin ignores a proof, and
// recovery data whose permit is none does not harm the message
// (05#admission-recovery step 4).
func TestWorthlessAdmissionOfAPinnedPeer(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(r *recoverable)
	}{
		{"proof of nothing", func(r *recoverable) { r.content.Admission.Proof = wire.NewObject() }},
		{"source of nobody", func(r *recoverable) { r.content.Admission.Source = wire.NewObject() }},
		{"permit of nothing", func(r *recoverable) { r.content.Admission.Permit = wire.NewObject() }},
		{"permit of another issuer", func(r *recoverable) { r.content.Admission.Permit = r.content.Admission.Proof }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecoverable(t)
			befriend(r.from, r.to.opened())
			held, issued := r.to.permit(r.from, store.PermitHeld), r.to.permit(r.from, store.PermitIssued)
			r.world.now++
			r.content.Admission.Proof = newPermit(t, r.to.id, r.from.id.ACEID(), r.world.now).Value()
			good := newPermit(t, r.from.id, r.to.id.ACEID(), r.world.now)
			r.content.Admission.Permit = good.Value()
			c.spoil(r)
			if got := r.take(t); got.Outcome != delivery.Delivered || got.Contact != nil {
				t.Errorf("got %+v", got)
			}
			if string(r.to.permit(r.from, store.PermitIssued).Raw) != string(issued.Raw) {
				t.Error("the proof is on record as issued")
			}
			want := held.Raw
			if r.content.Admission.Permit.Equal(good.Value()) {
				want = good.Raw()
			}
			if string(r.to.permit(r.from, store.PermitHeld).Raw) != string(want) {
				t.Error("another permit is held")
			}
		})
	}
}

// opened makes an endpoint open to strangers.
func (e *endpoint) opened() *endpoint {
	e.t.Helper()
	e.publish("open")
	return e
}
