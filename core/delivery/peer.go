package delivery

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// peer is what the store holds of one peer.
type peer struct {
	id    string
	row   store.Contact // zero for a stranger
	pin   *kel.State    // nil without a pin
	agent *descriptor.PublishedAgent
}

func (p peer) state() admission.State { return admission.State(p.row.State) }

// usable reports whether the cached descriptor may be encrypted to at now, which
// also takes a peer whose identity is usable (04#caching, 01#verifier-rules).
func (p peer) usable(now int64) bool {
	return p.agent != nil && p.agent.Usable(now, p.pin) && p.pin.Usable(now)
}

func (n *Node) loadPeer(tx *store.Tx, id string, now int64) (p peer, err error) {
	p.id = id
	if p.row, _, err = tx.Contact(id, now); err != nil {
		return p, err
	}
	if p.pin, err = n.loadPin(tx, id, now); err != nil {
		return p, err
	}
	raw, err := tx.Descriptor(id)
	if err != nil || raw == nil {
		return p, err
	}
	p.agent, err = n.agents.read(id, raw, descriptor.DecodeStored)
	return p, err
}

func (n *Node) viewPeer(ctx context.Context, id string, now int64) (p peer, err error) {
	err = n.store.View(ctx, func(tx *store.Tx) error {
		p, err = n.loadPeer(tx, id, now)
		return err
	})
	return p, err
}

// loadPin returns the pinned state of a peer, nil without one. A stored pin is
// verified again whenever it is loaded (01#pinning), at the time it verified at
// when the clock is behind that: a late clock corrupts nothing. Code:
// storage_failed.
func (n *Node) loadPin(tx *store.Tx, id string, now int64) (*kel.State, error) {
	pin, ok, err := tx.Pin(id)
	if err != nil || !ok {
		return nil, err
	}
	log, err := n.logs.read(id, pin.KEL, parseJSON)
	if err != nil {
		return nil, fault.Wrapf(fault.StorageFailed, err, "pin of %s", id)
	}
	state, err := n.verify.KELs.Verify(log, max(now, pin.FetchedAt))
	if err != nil {
		return nil, fault.Wrapf(fault.StorageFailed, err, "pin of %s", id)
	}
	if state.ACEID() != id {
		return nil, fault.New(fault.StorageFailed, "pin of %s is the log of %s", id, state.ACEID())
	}
	return state, nil
}

func parseJSON(raw []byte) (wire.Value, error) { return wire.Parse(raw, wire.MaxJSONDepth) }

// adopted is what became of a PublishedAgent that verified.
type adopted struct {
	agent   *descriptor.PublishedAgent
	pin     *kel.State // after it
	outcome kel.Outcome
	refused error // why the descriptor did not replace the cached one, or nil
}

// adopt verifies a PublishedAgent of the given peer under its pin and pins it.
// Reading the pin, judging by it and writing it are one exclusive transaction
// (01#pinning); which descriptor is kept is decided by 04#caching. Codes: those
// of 04#verification, invalid_authorization also for another identity.
func (n *Node) adopt(tx *store.Tx, id string, published wire.Value, now int64) (adopted, error) {
	pin, err := n.loadPin(tx, id, now)
	if err != nil {
		return adopted{}, err
	}
	agent, err := n.verifySource(id, published, pin, now)
	if err != nil {
		return adopted{}, err
	}
	outcome, state, err := kel.Reconcile(pin, agent.State())
	if err != nil {
		return adopted{}, err
	}
	a := adopted{agent: agent, pin: state, outcome: outcome}
	if err := n.noteAdopted(tx, id, pin, a, now); err != nil {
		return a, err
	}
	if err := tx.SetPin(id, store.Pin{KEL: state.Raw(), FetchedAt: now}); err != nil {
		return a, err
	}
	raw, err := tx.Descriptor(id)
	if err != nil {
		return a, err
	}
	var cached *descriptor.PublishedAgent
	if raw != nil {
		if cached, err = descriptor.DecodeStored(raw); err != nil {
			return a, err
		}
	}
	if a.refused = descriptor.Replaces(cached, agent, state); a.refused != nil {
		return a, nil
	}
	return a, tx.SetDescriptor(id, agent.Raw())
}

// verifySource verifies a PublishedAgent naming the given peer under a pin.
func (n *Node) verifySource(id string, published wire.Value, pin *kel.State, now int64) (*descriptor.PublishedAgent, error) {
	o := n.verify
	o.Pin = pin
	agent, err := descriptor.VerifyValue(published, now, o)
	if err != nil {
		return nil, err
	}
	if agent.ACEID != id {
		return nil, fault.New(fault.InvalidAuthorization, "descriptor names %s, not %s", agent.ACEID, id)
	}
	return agent, nil
}

// heldPermit returns the permit held from a peer while it verifies under the
// peer's current pin, else nil: one signed by a superseded key is never
// presented (04#caching).
func (n *Node) heldPermit(tx *store.Tx, p peer, now int64) (*admission.Permit, error) {
	permit, err := n.loadPermit(tx, p.id, store.PermitHeld)
	if err != nil || permit == nil || p.pin == nil {
		return nil, err
	}
	if n.checked.Verify(permit.Raw(), p.pin, p.id, n.id.ACEID(), now) != nil {
		return nil, nil
	}
	return permit, nil
}

// hold keeps a permit that verified under pin, unless a newer one that does is
// held.
func (n *Node) hold(tx *store.Tx, id string, pin *kel.State, permit *admission.Permit, now int64) error {
	held, err := n.heldPermit(tx, peer{id: id, pin: pin}, now)
	if err != nil || held != nil && held.IssuedAt > permit.IssuedAt {
		return err
	}
	before, err := n.loadPermit(tx, id, store.PermitHeld)
	if err == nil {
		err = noteHeld(tx, id, before, permit, now)
	}
	if err != nil {
		return err
	}
	return tx.SetPermit(id, store.PermitHeld, keptPermit(permit))
}

// issued is saveIssued for a permit that has just been signed.
func (n *Node) issued(tx *store.Tx, id string, permit *admission.Permit, now int64) error {
	if err := noteIssued(tx, id, permit, now); err != nil {
		return err
	}
	return n.saveIssued(tx, id, permit)
}

// saveIssued records a permit signed under the current delegation as the newest
// one issued to a peer.
func (n *Node) saveIssued(tx *store.Tx, id string, permit *admission.Permit) error {
	kept := keptPermit(permit)
	kept.Delegation = n.delegation()
	return tx.SetPermit(id, store.PermitIssued, kept)
}

func keptPermit(p *admission.Permit) store.Permit {
	return store.Permit{Raw: p.Raw(), IssuedAt: p.IssuedAt, ExpiresAt: p.ExpiresAt}
}

func (n *Node) loadPermit(tx *store.Tx, id string, d store.PermitDirection) (*admission.Permit, error) {
	kept, ok, err := tx.Permit(id, d)
	if err != nil || !ok {
		return nil, err
	}
	permit, err := n.permits.read(string(d)+" "+id, kept.Raw, decodePermit)
	if err != nil {
		return nil, fault.Wrapf(fault.StorageFailed, err, "%s permit of %s", d, id)
	}
	return permit, nil
}

func decodePermit(raw []byte) (*admission.Permit, error) {
	v, err := parseJSON(raw)
	if err != nil {
		return nil, err
	}
	return admission.DecodePermit(v)
}

// issuedPermit returns the newest permit issued to a peer and whether it is time
// for a fresh one: less than PERMIT_RENEWAL_SECONDS are left, or it does not
// verify under the current log (05#delivery-permits, Renewal).
func (n *Node) issuedPermit(tx *store.Tx, id string, now int64) (permit *admission.Permit, due bool, err error) {
	permit, err = n.loadPermit(tx, id, store.PermitIssued)
	if err != nil || permit == nil {
		return nil, true, err
	}
	valid := n.checked.Verify(permit.Raw(), n.id.State(), n.id.ACEID(), id, now) == nil
	return permit, permitDue(permit.ExpiresAt-now, valid), nil
}

func permitDue(remaining int64, valid bool) bool {
	return !valid || remaining < wire.PermitRenewalSeconds
}

// issue signs a permit for a peer. It counts as issued once the packet that
// carries it was sent: the caller then calls recordIssued.
func (n *Node) issue(id string, now int64) (*admission.Permit, error) {
	return admission.IssuePermit(n.id, id, now, wire.MaxPermitLifetime)
}

func (n *Node) recordIssued(ctx context.Context, id string, permit *admission.Permit, now int64) error {
	if permit == nil {
		return nil
	}
	return n.store.Update(ctx, func(tx *store.Tx) error { return n.issued(tx, id, permit, now) })
}

// isTransient reports whether repeating can help with err: transient and local
// failures (06#error-codes).
func isTransient(err error) bool {
	return err != nil && !errors.Is(err, context.Canceled) && fault.CodeOf(err).Retryable()
}
