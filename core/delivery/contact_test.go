package delivery_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
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
	w.redeliver(bob.request(alice, profile.TextID, 60))
	alice.pullOne(delivery.Delivered, "")
	w.now += 60
	if err := alice.node.RejectRequest(t.Context(), bob.id.ACEID(), w.now); fault.CodeOf(err) == "" {
		t.Errorf("declined: %v", err)
	}
	if len(w.posted) > 0 {
		t.Error("an ended permit was presented")
	}
}

// The permit of a request is not presented once its issuer has another signing
// key, which may show only when the reply is due (04#caching).
func TestAcceptWithAPermitOfASupersededKey(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	// The source of the request is valid for long, and older than what alice looks
	// up, so that it does not become the descriptor she replies to.
	request := bob.request(alice, profile.TextID, 10*86400)
	w.now++
	newer, err := descriptor.Build(bob.id, descriptor.Fields{
		ExpiresAt: w.now + 60, Relays: []string{relay}, Prekey: newPrekey(),
	}, w.now, -1, descriptor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.agents[bob.id.ACEID()] = newer.Value()
	if _, err := alice.node.Lookup(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	w.now += 60
	w.redeliver(request)
	alice.pullOne(delivery.Delivered, "")
	bob.delegate(bob.id.State())
	bob.open()
	bob.publish("")
	if _, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now); !errors.Is(err, fault.StalePeerBinding) {
		t.Errorf("accepted: %v", err)
	}
	if len(w.posted) != 0 {
		t.Error("a permit of a superseded key was presented")
	}
}

// What a stranger's packet carries is not recorded, although the stranger was
// looked up before: it was not authenticated by that pin (04#peer-prekeys).
func TestStrangersPrekeyIsNotHeld(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	if _, err := alice.node.Lookup(t.Context(), bob.id.ACEID(), w.now); err != nil {
		t.Fatal(err)
	}
	w.redeliver(sealTo(alice, bob.id, profile.TextType, textBody("x"), w.now))
	alice.pullOne(delivery.Dropped, fault.NotPermitted)
	alice.view(func(tx *store.Tx) error {
		if _, held, err := tx.HeldPrekey(bob.id.ACEID()); held || err != nil {
			t.Errorf("held: %v", err)
		}
		return nil
	})
}

// The window of step 5 holds for contact candidates too.
func TestOldRequestOfAStranger(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	w.now += wire.OfflineWindowSeconds + 1
	alice.pullOne(delivery.Dropped, fault.StaleTimestamp)
}

// request is a contact request from an endpoint that names any profile.
func (e *endpoint) request(to *endpoint, profileID string, lifetime int64) *packet.Packet {
	e.t.Helper()
	return sealTo(to, e.id, profile.ContactType, e.requestBody(to, profileID, lifetime), e.world.now)
}

func (e *endpoint) requestBody(to *endpoint, profileID string, lifetime int64) wire.Value {
	e.t.Helper()
	permit, err := admission.IssuePermit(e.id, to.id.ACEID(), e.world.now, lifetime)
	if err != nil {
		e.t.Fatal(err)
	}
	source, err := descriptor.DecodeStored(e.world.agents[e.id.ACEID()].Canonical())
	if err != nil {
		e.t.Fatal(err)
	}
	return admission.Body(admission.Request, profileID, "", source, permit)
}

// A request is dropped when its packet was not signed by the source it carries,
// or when the two do not share the profile it names.
func TestRequestsThatAreNotHeld(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
	forged := *bob.request(alice, profile.TextID, 60)
	forged.Signature.Value = bytes.Clone(forged.Signature.Value)
	forged.Signature.Value[0] ^= 1
	for _, c := range []struct {
		packet *packet.Packet
		code   fault.Code
	}{
		{&forged, fault.InvalidSignature},
		{bob.request(alice, "ace:delegation:1", 60), fault.InvalidBody},
	} {
		if r := alice.take(c.packet); r.Outcome != delivery.Dropped || r.Code != c.code {
			t.Errorf("got %+v, want %s", r, c.code)
		}
	}
	if alice.held(bob) {
		t.Error("a request is held")
	}
	if r := alice.take(bob.request(alice, profile.TextID, 60)); r.Request == nil {
		t.Errorf("a good request: %+v", r)
	}
}

// A reply counts only from a peer that is pending for the profile it names.
func TestReplyForAnotherProfile(t *testing.T) {
	for _, accept := range []bool{true, false} {
		w := newWorld()
		alice, bob := w.newEndpoint(t, "open", nil), w.newEndpoint(t, "", nil)
		row := bob.connect(alice)
		row.Profile = "ace:delegation:1"
		bob.update(func(tx *store.Tx) error { return tx.SetContact(row) })
		alice.pullOne(delivery.Delivered, "")
		var err error
		if accept {
			_, err = alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now)
		} else {
			err = alice.node.RejectRequest(t.Context(), bob.id.ACEID(), w.now)
		}
		if err != nil {
			t.Fatal(err)
		}
		bob.pullOne(delivery.Delivered, "")
		bob.wantState(alice, string(admission.Pending))
		if bob.permit(alice, store.PermitHeld).Raw != nil {
			t.Error("a permit of an ignored reply is held")
		}
	}
}

// An acceptProfiles rule with another digest accepts nothing.
func TestAcceptRuleOfAnotherDigest(t *testing.T) {
	w := newWorld()
	rules := map[string]string{profile.TextID: strings.Repeat("0", 64)}
	alice, bob := w.newEndpoint(t, "open", rules), w.newEndpoint(t, "", nil)
	bob.connect(alice)
	if r := alice.pullOne(delivery.Delivered, ""); r.Request == nil || r.Contact != nil {
		t.Errorf("result %+v", r)
	}
}

// Nothing of a blocked peer is taken in or answered, and none is asked for
// contact.
func TestBlockedPeer(t *testing.T) {
	w, alice, bob := friends(t)
	blocked := store.Contact{Peer: bob.id.ACEID(), State: string(admission.Blocked), Since: w.now}
	alice.update(func(tx *store.Tx) error { return tx.SetContact(blocked) })
	bob.send(alice, "x")
	alice.pullOne(delivery.Dropped, fault.NotPermitted)
	bob.connect(alice)
	posted := len(w.posted)
	alice.pullOne(delivery.Dropped, fault.NotPermitted)
	_, err := alice.node.SendRequest(t.Context(), delivery.ContactRequest{To: bob.id.ACEID(), Profile: profile.TextID, Home: relay}, w.now)
	if !errors.Is(err, fault.NotPermitted) || len(w.posted) != posted {
		t.Errorf("connect: %v, %d packets posted", err, len(w.posted)-posted)
	}
	alice.update(func(tx *store.Tx) error {
		body := bob.requestBody(alice, profile.TextID, 60)
		return tx.AddRequest(store.Request{Peer: bob.id.ACEID(), Body: body.Canonical(), ReceivedAt: w.now})
	})
	if _, err := alice.node.AcceptRequest(t.Context(), bob.id.ACEID(), w.now); !errors.Is(err, fault.NotPermitted) {
		t.Errorf("accept: %v", err)
	}
	alice.wantState(bob, string(admission.Blocked))
}

// A permit that comes late takes no newer one's place.
func TestNewestPermitIsHeld(t *testing.T) {
	w, alice, bob := friends(t)
	late := bob.request(alice, profile.TextID, 3600)
	w.now += 10
	bob.connect(alice)
	alice.pullOne(delivery.Delivered, "")
	newest := alice.permit(bob, store.PermitHeld)
	if r := alice.take(late); r.Outcome != delivery.Delivered {
		t.Fatalf("result %+v", r)
	}
	if got := alice.permit(bob, store.PermitHeld); newest.IssuedAt != w.now || got.IssuedAt != newest.IssuedAt {
		t.Errorf("held: issued at %d, the newest at %d", got.IssuedAt, newest.IssuedAt)
	}
}
