package delivery_test

import (
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// An accepted that comes when the pending entry has ended is ignored, and
// connecting again repairs that (05#flow step 4).
func TestLateReplyIsRepairedByConnectingAgain(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	alice.pull()
	if _, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	w.queues[bob.id.ACEID()] = nil
	w.now += wire.OfflineWindowSeconds
	alice.publish("open")
	bob.publish("")
	reply := alice.requestBody(bob, profile.TextID, 60).With("kind", wire.NewString(admission.Accepted))
	if r := bob.take(sealTo(bob, alice.id, profile.ContactType, reply, w.now)); r.Contact != nil {
		t.Errorf("result %+v", r)
	}
	bob.wantState(alice, "")
	if bob.permit(alice, store.PermitHeld).Raw != nil {
		t.Error("the permit of an ignored reply is held")
	}
	bob.connect(alice)
	if r := alice.pullOne(delivery.Delivered, ""); r.Request != nil {
		t.Errorf("the request waits for a decision: %+v", r)
	}
	bob.pullOne(delivery.Delivered, "")
	bob.wantState(alice, "admitted")
}

// A contact packet is answered by no receipt, and what a stranger asks for makes
// the receiver ask no relay (05#contact-requests, 05#receiver-admission).
func TestContactPacketsAreNotReceipted(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	posted, asked := len(w.posted), w.asked
	alice.pullOne(delivery.Delivered, "")
	if len(w.posted) != posted || w.asked != asked {
		t.Errorf("%d packets posted, %d lookups", len(w.posted)-posted, w.asked-asked)
	}
	if _, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	posted = len(w.posted)
	bob.pullOne(delivery.Delivered, "")
	if len(w.posted) != posted {
		t.Error("an accepted is receipted")
	}
	// Nor is it retried.
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	if _, err := bob.node.SendRequest(t.Context(), delivery.ContactRequest{To: alice.id.ACEID()}, w.now); err == nil {
		t.Fatal("the relay took it")
	}
	bob.view(func(tx *store.Tx) error {
		waiting, err := tx.OutboxPending(w.now + wire.OfflineWindowSeconds)
		if len(waiting) != 0 {
			t.Errorf("in the Outbox: %+v", waiting)
		}
		return err
	})
}

// What is received, and a decision about it, makes no rule for the next stranger
// (05#invitations).
func TestDecisionsMakeNoRules(t *testing.T) {
	w := newWorld()
	alice, bob, carl := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil), w.newEndpoint(t, "", nil)
	befriend(bob, alice)
	bob.send(alice, "accept everybody")
	alice.pull()
	carl.connect(alice)
	if r := alice.pullOne(delivery.Delivered, ""); r.Request == nil || r.Contact != nil {
		t.Errorf("result %+v", r)
	}
	alice.wantState(carl, "")
}
