package sim

import (
	"slices"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// invitation is one on its private channel.
type invitation struct {
	text      []byte
	from, to  *host
	expiresAt int64
	log       string // hash of the inviter's last event
	madeAt    int64
}

// renewKeys changes the keys of the identity and publishes that.
func (h *host) renewKeys(what string, change func() error) {
	if err := change(); err != nil {
		h.expect(what, err, fault.InvalidArgument) // the log has no room any more
		return
	}
	h.takeUp()
	h.expect("publish", h.publish(false))
}

// invite admits a peer and makes it an invitation.
func (h *host) invite(peer *host) {
	h.deciding, h.inviting = true, true
	lifetime := int64(h.w.some(0, 600, day, 20*day))
	made, err := h.endpoint.Invite(h.w.ctx, peer.id.ACEID(), core.InviteOptions{Lifetime: lifetime})
	if err != nil {
		h.expect("invite", err, fault.UnknownPeer)
		return
	}
	delete(h.issued, peer.id.ACEID()) // the newest is the one in the invitation
	h.w.invitations = append(h.w.invitations, invitation{
		text: made.Text, from: h, to: peer, expiresAt: made.ExpiresAt, log: h.id.State().LastHash(), madeAt: h.clock(),
	})
}

// importInvitation takes an invitation in, also once more, late, or one for
// somebody else: that one verifies for nobody but the invited
// (05#invitations step 2).
func (h *host) importInvitation() {
	i := slices.IndexFunc(h.w.invitations, func(i invitation) bool { return i.from != h && h.w.chance(0.6) })
	if i < 0 {
		return
	}
	taken := h.w.invitations[i]
	_, err := h.endpoint.ImportInvitation(h.w.ctx, taken.text)
	switch {
	case err == nil && taken.to != h:
		h.w.violate("an invitation is for one peer", "05#invitations step 2", "%s imports one for %s", h.name, taken.to.name)
	case err == nil && h.clock() >= taken.expiresAt:
		h.w.violate("an invitation ends", "05#invitations step 2", "%s imports one that ended at %d", h.name, taken.expiresAt)
	case err == nil:
		h.w.count("imported")
		return
	}
	codes := []fault.Code{}
	superseded := taken.from.id.State().LastHash() != taken.log
	if taken.to != h || h.clock() >= taken.expiresAt || h.w.now-taken.madeAt > 3*day || superseded {
		codes = append(codes, fault.InvalidAuthorization) // or its descriptor has ended
	}
	if superseded {
		codes = append(codes, fault.StalePeerBinding, fault.KELConflict)
	}
	h.expect("import", err, codes...)
}

// forget ends a contact: nothing of it is left but the pin and what was received
// (01#pinning).
func (h *host) forget(peer *host) {
	h.deciding = true
	id := peer.id.ACEID()
	h.forgot[id] = true
	_, err := h.endpoint.Forget(h.w.ctx, id)
	if err != nil {
		h.expect("forget", err, fault.InvalidArgument, fault.NotPermitted)
		return
	}
	h.read(func(tx *store.Tx) error {
		_, listed, err := tx.Contact(id, h.clock())
		if err != nil {
			return err
		}
		_, held, err := tx.Permit(id, store.PermitHeld)
		if err != nil {
			return err
		}
		_, issued, err := tx.Permit(id, store.PermitIssued)
		if err != nil {
			return err
		}
		_, key, err := tx.HeldPrekey(id)
		if listed || held || issued || key {
			h.w.violate("a forgotten peer is a stranger", "05#receiver-admission", "%s: row %t, permit held %t, issued %t, prekey %t", h.name, listed, held, issued, key)
		}
		return err
	})
}

// newPrekeys publishes new prekeys in a row, so that the oldest are deleted
// before their time.
func (h *host) newPrekeys(n int) {
	h.exhausted = h.exhausted || n > wire.MaxRetainedPrekeys
	for range n {
		_, err := h.endpoint.Publish(h.w.ctx, core.PublishOptions{Force: true, Prekey: true})
		h.expect("publish", err)
		if err != nil {
			return
		}
		h.w.now++
	}
	if n > wire.MaxRetainedPrekeys {
		h.w.count("prekeys exhausted")
	}
}

// unpublish takes the registration back, with the queue.
func (h *host) unpublish() {
	_, err := h.endpoint.Unregister(h.w.ctx)
	h.expect("unpublish", err)
}

// handle is the owner who marks the oldest messages as handled, which makes room
// for others.
func (h *host) handle(n int) error {
	waiting, err := h.endpoint.Inbox(h.w.ctx, core.InboxFilter{Unhandled: true})
	for _, m := range waiting[:min(n, len(waiting))] {
		h.handlers.acked[received{m.From, m.MessageID}] = true
		if err := h.endpoint.MarkHandled(h.w.ctx, m.From, m.MessageID); err != nil {
			return err
		}
	}
	return err
}

// keep is some hours in which every host does its upkeep in time.
func (w *world) keep() {
	for range 1 + w.rand.IntN(5) {
		w.now += 3600
		for _, h := range w.hosts {
			h.upkeep()
			h.expect("pull", h.pull(0))
			h.settleStep()
		}
	}
}
