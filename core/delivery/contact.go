package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// contactPacket is an ace:contact:1 to send.
type contactPacket struct {
	to      peer              // with the descriptor to encrypt to
	permit  *admission.Permit // of the peer, nil for the stranger path
	relays  []string          // nil: those of the descriptor
	kind    string
	profile string
	note    string
}

// sendContact makes the single attempt of a contact packet, to the published
// prekey of the peer (06#receipts), and records the permit it carries as issued.
// Codes: identity_unavailable without an own descriptor, those of a permit that
// is not valid any more, and those of lookups and relays.
func (n *Node) sendContact(ctx context.Context, c contactPacket, now int64) error {
	source, err := n.needOwnAgent(ctx, now)
	if err != nil {
		return err
	}
	if c.to, err = n.ensureAgent(ctx, c.to, now); err != nil {
		return err
	}
	if c.permit != nil {
		// 04#caching: the pin may have moved since the permit was chosen.
		if err := c.permit.Verify(c.to.pin, c.to.id, n.id.ACEID(), now); err != nil {
			return err
		}
	}
	var reply *admission.Permit
	if c.kind != admission.Rejected {
		if reply, err = n.issue(c.to.id, now); err != nil {
			return err
		}
	}
	content := n.coreContent(profile.ContactType, admission.Body(c.kind, c.profile, c.note, source, reply))
	sealed, err := n.seal(ctx, c.to.id, suite.NewMessageID(), content, c.to.agent.Prekey, now)
	if err != nil {
		return err
	}
	relays := c.relays
	if relays == nil {
		relays = c.to.agent.Relays
	}
	if _, err := n.postCore(ctx, c.to.id, relays, sealed, c.permit); err != nil {
		return err
	}
	return n.recordIssued(ctx, c.to.id, reply, now)
}

// ContactRequest is a request to connect (05#flow step 1).
type ContactRequest struct {
	To      string // ACE ID of a peer that was looked up
	Profile string // "": the recorded one, else one that both list
	Note    string // at most MAX_NOTE_BYTES
	// Home is the home relay of the peer's card record, whose contact is open.
	// It is used when no permit of the peer is held.
	Home string
}

// CanSend reports whether a request may be sent with a permit held from the
// peer, and fails with not_permitted for a blocked peer.
func (n *Node) CanSend(ctx context.Context, id string, now int64) (withPermit bool, err error) {
	err = n.store.View(ctx, func(tx *store.Tx) error {
		p, err := n.loadPeer(tx, id, now)
		if err != nil {
			return err
		}
		if p.state() == admission.Blocked {
			return fault.New(fault.NotPermitted, "%s is blocked", id)
		}
		permit, err := n.heldPermit(tx, p, now)
		withPermit = permit != nil
		return err
	})
	return withPermit, err
}

// SendRequest records a peer as pending and sends it a contact request
// (05#flow step 1). To a peer held as admitted the request is a permit refresh:
// its row stays. A relay that refuses the request for good leaves the table as
// it was. Codes: invalid_argument, not_permitted, identity_unavailable, and
// those of lookups and relays.
func (n *Node) SendRequest(ctx context.Context, q ContactRequest, now int64) (store.Contact, error) {
	if len(q.Note) > wire.MaxNoteBytes {
		return store.Contact{}, fault.New(fault.InvalidArgument, "note has %d bytes, more than %d", len(q.Note), wire.MaxNoteBytes)
	}
	p, err := n.viewPeer(ctx, q.To, now)
	if err != nil {
		return store.Contact{}, err
	}
	if p, err = n.ensureAgent(ctx, p, now); err != nil {
		return store.Contact{}, err
	}
	if q.Profile, err = n.contactProfile(p, q.Profile); err != nil {
		return store.Contact{}, err
	}
	row, permit, err := n.recordPending(ctx, p, q, now)
	if err != nil {
		return store.Contact{}, err
	}
	packet := contactPacket{to: p, permit: permit, kind: admission.Request, profile: q.Profile, note: q.Note}
	if permit == nil {
		packet.relays = []string{q.Home}
	}
	if err := n.sendContact(ctx, packet, now); err != nil {
		if ctx.Err() == nil && !isTransient(err) {
			return p.row, n.undoPending(ctx, p, row, err, now)
		}
		return row, err
	}
	return row, nil
}

func (n *Node) recordPending(ctx context.Context, p peer, q ContactRequest, now int64) (row store.Contact, permit *admission.Permit, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if row, _, err = tx.Contact(p.id, now); err != nil {
			return err
		}
		if permit, err = n.heldPermit(tx, p, now); err != nil {
			return err
		}
		switch {
		case row.State == string(admission.Blocked):
			return fault.New(fault.NotPermitted, "%s is blocked", p.id)
		case permit == nil && q.Home == "":
			return fault.New(fault.NotPermitted, "no permit of %s is held, and its card record is not open", p.id)
		case row.State == string(admission.Admitted):
			return nil
		}
		row = store.Contact{
			Peer: p.id, State: string(admission.Pending), Profile: q.Profile, Since: now, ExpiresAt: now + wire.OfflineWindowSeconds,
		}
		if err := note(tx, audit.ContactRequested, p.id, now); err != nil {
			return err
		}
		return tx.SetContact(row)
	})
	return row, permit, err
}

// undoPending puts the row back that the peer had before a request that was
// refused, and returns why it was. A row that is not the pending one any more
// was decided meanwhile and stays.
func (n *Node) undoPending(ctx context.Context, p peer, pending store.Contact, refused error, now int64) error {
	err := n.store.Update(ctx, func(tx *store.Tx) error {
		row, _, err := tx.Contact(p.id, pending.Since)
		if err != nil || row != pending {
			return err
		}
		undone := store.Audit{At: now, Event: audit.ContactRequestRefused, Code: string(fault.CodeOf(refused)), Peer: p.id}
		if err := tx.AddAudit(undone); err != nil {
			return err
		}
		if p.row.State == "" {
			return tx.DeleteContact(p.id)
		}
		return tx.SetContact(p.row)
	})
	if err != nil {
		return err
	}
	return refused
}

func (n *Node) findRequest(tx *store.Tx, from string, now int64) (*admission.Contact, error) {
	q, ok, err := tx.Request(from, now-wire.ContactRequestTTLSeconds)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fault.New(fault.InvalidArgument, "no contact request of %.80q is held", from)
	}
	return DecodeRequest(q)
}

// DecodeRequest reads a held request back. Code: storage_failed.
func DecodeRequest(q store.Request) (*admission.Contact, error) {
	if q.Damaged != nil {
		return nil, q.Damaged
	}
	body, err := wire.Parse(q.Body, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrapf(fault.StorageFailed, err, "contact request of %s", q.Peer)
	}
	c, err := admission.DecodeContact(body)
	if err != nil {
		return nil, fault.Wrapf(fault.StorageFailed, err, "contact request of %s", q.Peer)
	}
	return c, nil
}

// AcceptRequest accepts a held contact request (05#flow step 3): it pins the
// source, holds the requester's permit, records the requester as admitted and
// replies. When the reply cannot be sent, the request stays held, so that
// accepting it again sends the reply again. Codes: invalid_argument when no
// request is held, not_permitted for a blocked peer, those of 04#verification
// and of permits, identity_unavailable, and those of relays.
func (n *Node) AcceptRequest(ctx context.Context, from string, now int64) (store.Contact, error) {
	c, permit, err := n.openRequest(ctx, from, now)
	if err != nil {
		return store.Contact{}, err
	}
	row, err := n.admitRequester(ctx, from, c, permit, now)
	if err != nil {
		return store.Contact{}, err
	}
	p, err := n.viewPeer(ctx, from, now)
	if err != nil {
		return row, err
	}
	if err := n.sendContact(ctx, contactPacket{to: p, permit: permit, kind: admission.Accepted, profile: c.Profile}, now); err != nil {
		return row, err
	}
	return row, n.store.Update(ctx, func(tx *store.Tx) error { return tx.DeleteRequest(from) })
}

func (n *Node) openRequest(ctx context.Context, from string, now int64) (c *admission.Contact, permit *admission.Permit, err error) {
	err = n.store.View(ctx, func(tx *store.Tx) error {
		c, err = n.findRequest(tx, from, now)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	permit, err = admission.DecodePermit(c.Permit)
	return c, permit, fault.Wrapf(fault.StorageFailed, err, "contact request of %s", from)
}

// admitRequester is AcceptRequest's transaction. A source whose descriptor has
// expired while the request was held is looked up instead.
func (n *Node) admitRequester(ctx context.Context, from string, c *admission.Contact, permit *admission.Permit, now int64) (row store.Contact, err error) {
	accept := func(tx *store.Tx, source wire.Value) error {
		if row, _, err = tx.Contact(from, now); err != nil {
			return err
		}
		if row.State == string(admission.Blocked) {
			return fault.New(fault.NotPermitted, "%s is blocked", from)
		}
		if err := n.admit(tx, from, source, permit, now); err != nil {
			return err
		}
		if err := note(tx, audit.ContactRequestAccepted, from, now); err != nil {
			return err
		}
		if row.State == string(admission.Admitted) {
			return tx.SetContact(row)
		}
		if err := note(tx, audit.ContactAdmitted, from, now); err != nil {
			return err
		}
		row = store.Contact{Peer: from, State: string(admission.Admitted), Profile: c.Profile, Since: now}
		return tx.SetContact(row)
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error { return accept(tx, c.Source) })
	if fault.CodeOf(err) != fault.InvalidAuthorization {
		return row, n.noteConflict(ctx, from, err, now)
	}
	found, lookupErr := n.Lookup(ctx, from, now)
	if lookupErr != nil {
		return row, err
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error { return accept(tx, found.Agent.Value()) })
	return row, err
}

// RejectRequest declines a held contact request. The reply, one attempt whose
// failure is reported, is sealed to the requester's source without pinning it. A
// permit that is not valid any more is not presented (04#caching), and without
// one there is no reply.
// Codes: invalid_argument when no request is held, and those of AcceptRequest.
func (n *Node) RejectRequest(ctx context.Context, from string, now int64) error {
	c, permit, err := n.openRequest(ctx, from, now)
	if err != nil {
		return err
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if err := note(tx, audit.ContactRequestRejected, from, now); err != nil {
			return err
		}
		return tx.DeleteRequest(from)
	})
	if err != nil {
		return err
	}
	p, err := n.viewPeer(ctx, from, now)
	if err != nil {
		return err
	}
	source, err := n.verifySource(from, c.Source, p.pin, now)
	if err != nil {
		return err
	}
	p.agent, p.pin = source, source.State()
	return n.sendContact(ctx, contactPacket{to: p, permit: permit, kind: admission.Rejected, profile: c.Profile}, now)
}
