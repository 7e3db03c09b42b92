package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Invited is a peer that was invited.
type Invited struct {
	Invitation *admission.Invitation
	Contact    store.Contact
	// Unblocked is the decision that cleared a block, to be registered at the
	// relay, or nil.
	Unblocked *store.Block
}

// Invite creates an invitation for a peer (05#invitations step 1): it records
// the peer as admitted, which clears a block, and issues it a permit that is
// valid for lifetime seconds. The peer is one that was looked up, or whose
// PublishedAgent is given, which is then pinned; agent is null otherwise. Codes:
// invalid_argument, unknown_peer without a pin, identity_unavailable without an
// own descriptor, and those of 04#verification.
func (n *Node) Invite(ctx context.Context, id string, agent wire.Value, lifetime, now int64) (i Invited, err error) {
	if err := n.checkOther(id); err != nil {
		return i, err
	}
	own, err := n.needOwnAgent(ctx, now)
	if err != nil {
		return i, err
	}
	permit, err := admission.IssuePermit(n.id, id, now, lifetime)
	if err != nil {
		return i, err
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		i = Invited{Invitation: admission.NewInvitation(own, permit)}
		if err := n.pinInvitee(tx, id, agent, now); err != nil {
			return err
		}
		if i.Contact, i.Unblocked, err = admitInvitee(tx, id, now); err != nil {
			return err
		}
		return n.issued(tx, id, permit, now)
	})
	return i, n.noteConflict(ctx, id, err, now)
}

func (n *Node) pinInvitee(tx *store.Tx, id string, agent wire.Value, now int64) error {
	if agent.Kind() != wire.Null {
		_, err := n.adopt(tx, id, agent, now)
		return err
	}
	pin, err := n.loadPin(tx, id, now)
	if err == nil && pin == nil {
		err = fault.New(fault.UnknownPeer, "%s was never looked up", id)
	}
	return err
}

func admitInvitee(tx *store.Tx, id string, now int64) (row store.Contact, unblocked *store.Block, err error) {
	if row, _, err = tx.Contact(id, now); err != nil {
		return row, nil, err
	}
	switch admission.State(row.State) {
	case admission.Admitted:
		return row, nil, nil
	case admission.Blocked:
		decision, err := decide(tx, id, false, now)
		if err != nil {
			return row, nil, err
		}
		unblocked = &decision
	}
	// A new row records no profile; that of a pending one stays.
	row = store.Contact{Peer: id, State: string(admission.Admitted), Profile: row.Profile, Since: now}
	if err := note(tx, audit.ContactAdmitted, id, now); err != nil {
		return row, nil, err
	}
	return row, unblocked, tx.SetContact(row)
}

// Import takes an invitation in (05#invitations step 2): it verifies the agent
// under the inviter's pin and the permit under the agent, pins the one and holds
// the other. The admission table does not change. Codes: those of
// 04#verification, invalid_authorization.
func (n *Node) Import(ctx context.Context, i *admission.Invitation, now int64) (inviter string, err error) {
	inviter = i.Inviter()
	if !wire.IsACEID(inviter) || inviter == n.id.ACEID() {
		return "", fault.New(fault.InvalidAuthorization, "invitation.agent: names %.80q, which is not another agent", inviter)
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		a, err := n.adopt(tx, inviter, i.Agent, now)
		if err != nil {
			return err
		}
		if err := i.Permit.Verify(a.pin, inviter, n.id.ACEID(), now); err != nil {
			return fault.Wrapf(fault.InvalidAuthorization, err, "invitation.permit")
		}
		return n.hold(tx, inviter, a.pin, i.Permit, now)
	})
	return inviter, n.noteConflict(ctx, inviter, err, now)
}
