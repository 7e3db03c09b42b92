package delivery_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
)

// A pin is not corrupt because the clock is behind the time it was pinned at.
func TestClockBehindAPin(t *testing.T) {
	w, alice, bob := friends(t)
	w.now -= 3600
	_, err := bob.node.Enqueue(t.Context(), delivery.Message{To: alice.id.ACEID(), Type: profile.TextType, Body: textBody("x")}, w.now)
	if !errors.Is(err, fault.NotPermitted) { // the permit is from the future
		t.Errorf("Enqueue: %v", err)
	}
	w.now += 3600
	bob.send(alice, "y")
	alice.pullOne(delivery.Delivered, "")
}

// deciding is a network whose relay refuses every packet, after something else
// has happened to the sender.
type deciding struct {
	endpointNet
	meanwhile func()
}

func (n *deciding) Post(context.Context, string, []byte, []byte) error {
	n.meanwhile()
	return fault.New(fault.NotPermitted, "closed")
}

// A refused request takes back no decision that was made while it was under way.
func TestRefusedRequestKeepsALaterDecision(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	if _, err := bob.node.Lookup(t.Context(), alice.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	node, err := delivery.New(t.Context(), delivery.Config{
		Identity: bob.id, Store: bob.store, Profiles: bob.set, Home: relay,
		Net: &deciding{endpointNet{w, bob.id.ACEID()}, func() {
			bob.update(func(tx *store.Tx) error {
				return tx.SetContact(store.Contact{Peer: alice.id.ACEID(), State: string(admission.Blocked), Since: w.now})
			})
		}},
	}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	_, err = node.SendRequest(t.Context(), delivery.ContactRequest{To: alice.id.ACEID(), Profile: profile.TextID, Home: relay}, w.now)
	if !errors.Is(err, fault.NotPermitted) {
		t.Fatal(err)
	}
	bob.wantState(alice, string(admission.Blocked))
}

func (e *endpoint) held(from *endpoint) (held bool) {
	e.t.Helper()
	e.view(func(tx *store.Tx) (err error) {
		_, held, err = tx.Request(from.id.ACEID(), 0)
		return err
	})
	return held
}

// A request of an admitted peer is accepted without a decision, and leaves none
// to be made about an earlier one.
func TestRequestOfAnAdmittedPeerEndsTheHeldOne(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	alice.pullOne(delivery.Delivered, "")
	w.refuse = fault.New(fault.RelayUnavailable, "down")
	if _, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now); !errors.Is(err, fault.RelayUnavailable) {
		t.Fatal(err)
	}
	w.refuse = nil
	alice.wantState(bob, string(admission.Admitted))
	if !alice.held(bob) {
		t.Fatal("the request is not held until its reply is sent")
	}
	bob.connect(alice)
	alice.pullOne(delivery.Delivered, "")
	bob.pullOne(delivery.Delivered, "")
	bob.wantState(alice, string(admission.Admitted))
	if alice.held(bob) {
		t.Error("the request is still held")
	}
}

// A reply to a request whose permit has ended presents none.
func TestDeclineWithAnEndedPermit(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	permit, err := admission.IssuePermit(bob.id, alice.id.ACEID(), w.now, 60)
	if err != nil {
		t.Fatal(err)
	}
	source, err := descriptor.DecodeStored(w.agents[bob.id.ACEID()].Canonical())
	if err != nil {
		t.Fatal(err)
	}
	body := admission.Body(admission.Request, profile.TextID, "", source, permit)
	w.redeliver(sealTo(alice, bob.id, profile.ContactType, body, w.now))
	alice.pullOne(delivery.Delivered, "")
	w.now += 60
	if err := alice.node.RejectRequest(t.Context(), bob.id.ACEID(), w.now); fault.CodeOf(err) == "" {
		t.Errorf("declined: %v", err)
	}
	if len(w.posted) > 0 {
		t.Error("an ended permit was presented")
	}
}
