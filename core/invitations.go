package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Invitation is an invitation that was made.
type Invitation struct {
	Text      []byte // canonical JSON: a bearer credential, for a private channel
	Contact   Contact
	ExpiresAt int64
	Unblocked *BlockDecision // the block that it cleared, nil for none
}

// InviteOptions say how to invite.
type InviteOptions struct {
	Agent    wire.Value // the peer's PublishedAgent shared out of band, null: looked up
	Lifetime int64      // of the permit in seconds, 0: MAX_PERMIT_LIFETIME
}

// Invite admits a peer and makes it an invitation (05#invitations). That clears
// a block, and a relay that does not confirm this for now is told at upkeep.
// Codes: invalid_argument, those of Lookup, those of 04#verification, and those
// of 07#client-rules.
func (e *Endpoint) Invite(ctx context.Context, aceID string, o InviteOptions) (Invitation, error) {
	now, err := e.now()
	if err != nil {
		return Invitation{}, err
	}
	if o.Lifetime == 0 {
		o.Lifetime = wire.MaxPermitLifetime
	}
	if err := e.ensurePublished(ctx, now); err != nil {
		return Invitation{}, err
	}
	if o.Agent.Kind() == wire.Null {
		if _, err := e.Lookup(ctx, aceID); err != nil {
			return Invitation{}, err
		}
	}
	made, err := e.node.Invite(ctx, aceID, o.Agent, o.Lifetime, now)
	if err != nil {
		return Invitation{}, err
	}
	i := Invitation{Text: made.Invitation.Text(), ExpiresAt: made.Invitation.Permit.ExpiresAt}
	if made.Unblocked != nil {
		d, _ := e.registerDecision(ctx, *made.Unblocked, now) // d says whether the relay confirmed
		i.Unblocked = &d
	}
	i.Contact, err = e.viewContact(context.WithoutCancel(ctx), made.Contact)
	return i, err
}

// ImportInvitation takes an invitation in: it pins the inviter and holds its
// permit, with which Connect reaches it. The admission table does not change
// (05#invitations step 2). Codes: invalid_authorization, and those of
// 04#verification.
func (e *Endpoint) ImportInvitation(ctx context.Context, text []byte) (Contact, error) {
	now, err := e.now()
	if err != nil {
		return Contact{}, err
	}
	i, err := admission.DecodeInvitation(text)
	if err != nil {
		return Contact{}, err
	}
	inviter, err := e.node.Import(ctx, i, now)
	if err != nil {
		return Contact{}, err
	}
	var row store.Contact
	err = e.store.View(ctx, func(tx *store.Tx) error {
		row, _, err = tx.Contact(inviter, now)
		return err
	})
	if err != nil {
		return Contact{}, err
	}
	row.Peer = inviter
	return e.viewContact(ctx, row)
}

// Forget ends the contact with a peer and returns how many messages that waited
// for it are abandoned. What the peer was issued stays valid until it ends: only
// a block suspends it. Codes: invalid_argument, not_permitted for a blocked peer.
func (e *Endpoint) Forget(ctx context.Context, aceID string) (abandoned int, err error) {
	now, err := e.now()
	if err != nil {
		return 0, err
	}
	return e.node.Forget(ctx, aceID, now)
}
