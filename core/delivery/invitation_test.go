package delivery_test

import (
	"errors"
	"testing"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// An invitation leads to a contact with somebody who is closed to strangers
// (05#invitations).
func TestInvitation(t *testing.T) {
	w := newWorld()
	alice, bob := w.newEndpoint(t, "closed", nil), w.newEndpoint(t, "", nil)
	made, err := alice.node.Invite(t.Context(), bob.id.ACEID(), w.agents[bob.id.ACEID()], 3600, w.now)
	if err != nil || made.Contact.State != string(admission.Admitted) || made.Unblocked != nil {
		t.Fatalf("made %+v: %v", made, err)
	}
	read, err := admission.DecodeInvitation(made.Invitation.Text())
	if err != nil {
		t.Fatal(err)
	}
	inviter, err := bob.node.Import(t.Context(), read, w.now)
	if err != nil || inviter != alice.id.ACEID() {
		t.Fatalf("imported %q: %v", inviter, err)
	}
	bob.wantState(alice, "")
	if due, err := alice.node.PermitsDue(t.Context(), w.now); len(due) != 0 || err != nil {
		t.Errorf("the invitation's permit does not count as issued: %v, %v", due, err)
	}
	if _, err := bob.node.SendRequest(t.Context(), delivery.ContactRequest{To: inviter, Profile: profile.TextID}, w.now); err != nil {
		t.Fatal(err)
	}
	alice.pullOne(delivery.Delivered, "")
	bob.pullOne(delivery.Delivered, "")
	bob.wantState(alice, string(admission.Admitted))
	alice.send(bob, "welcome")
	bob.pullOne(delivery.Delivered, "")

	w.now += 5
	again, err := alice.node.Invite(t.Context(), bob.id.ACEID(), wire.Value{}, 3600, w.now)
	if err != nil || again.Contact != made.Contact {
		t.Errorf("invited again: %+v, before %+v: %v", again.Contact, made.Contact, err)
	}
}

func TestInvitationsThatAreNotMade(t *testing.T) {
	w := newWorld()
	alice, bob, hidden := w.newEndpoint(t, "closed", nil), w.newEndpoint(t, "", nil), w.newIdentity(t)
	hidden.open()
	for _, c := range []struct {
		name     string
		by       *endpoint
		to       string
		agent    wire.Value
		lifetime int64
		code     fault.Code
	}{
		{"nobody knows", alice, bob.id.ACEID(), wire.Value{}, 60, fault.UnknownPeer},
		{"agent of another", alice, bob.id.ACEID(), w.agents[alice.id.ACEID()], 60, fault.InvalidAuthorization},
		{"itself", alice, alice.id.ACEID(), w.agents[alice.id.ACEID()], 60, fault.InvalidArgument},
		{"too long", alice, bob.id.ACEID(), w.agents[bob.id.ACEID()], wire.MaxPermitLifetime + 1, fault.InvalidArgument},
		{"not published", hidden, bob.id.ACEID(), w.agents[bob.id.ACEID()], 60, fault.IdentityUnavailable},
	} {
		if _, err := c.by.node.Invite(t.Context(), c.to, c.agent, c.lifetime, w.now); !errors.Is(err, c.code) {
			t.Errorf("%s: %v", c.name, err)
		}
		c.by.wantState(bob, "")
		if c.by.pin(bob) != "" || c.by.permit(bob, store.PermitIssued).Raw != nil {
			t.Errorf("%s: something was recorded", c.name)
		}
	}
}

// What does not verify pins nothing and is not held (05#invitations step 2).
func TestInvitationsThatAreNotImported(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, w *world, i *admission.Invitation, alice, bob *endpoint)
	}{
		{"permit for another", func(t *testing.T, w *world, i *admission.Invitation, alice, _ *endpoint) {
			i.Permit = newPermit(t, alice.id, w.newIdentity(t).id.ACEID(), w.now)
		}},
		{"permit of another", func(t *testing.T, w *world, i *admission.Invitation, _, bob *endpoint) {
			i.Permit = newPermit(t, w.newIdentity(t).id, bob.id.ACEID(), w.now)
		}},
		{"permit of a superseded key", func(t *testing.T, w *world, i *admission.Invitation, alice, _ *endpoint) {
			w.now++
			alice.delegate(alice.id.State())
			alice.open()
			alice.publish("")
			i.Agent = w.agents[alice.id.ACEID()]
		}},
		{"permit that has ended", func(_ *testing.T, w *world, _ *admission.Invitation, _, _ *endpoint) { w.now += 3600 }},
		{"agent that has expired", func(_ *testing.T, w *world, _ *admission.Invitation, _, _ *endpoint) { w.now += 86400 }},
		{"agent that names nobody", func(_ *testing.T, _ *world, i *admission.Invitation, _, _ *endpoint) { i.Agent = wire.NewObject() }},
		{"one's own agent", func(_ *testing.T, w *world, i *admission.Invitation, _, bob *endpoint) {
			i.Agent = w.agents[bob.id.ACEID()]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			alice, bob := w.newEndpoint(t, "closed", nil), w.newEndpoint(t, "", nil)
			agent, err := descriptor.DecodeStored(w.agents[alice.id.ACEID()].Canonical())
			if err != nil {
				t.Fatal(err)
			}
			i := admission.NewInvitation(agent, newPermit(t, alice.id, bob.id.ACEID(), w.now))
			c.spoil(t, w, i, alice, bob)
			if _, err := bob.node.Import(t.Context(), i, w.now); !errors.Is(err, fault.InvalidAuthorization) {
				t.Errorf("imported: %v", err)
			}
			if bob.pin(alice) != "" || bob.permit(alice, store.PermitHeld).Raw != nil {
				t.Error("something was recorded")
			}
		})
	}
}
