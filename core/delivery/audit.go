package delivery

import (
	"bytes"
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/store"
)

// note adds a row about a peer to the audit log, in the transaction of what it is
// about.
func note(tx *store.Tx, event audit.Event, peer string, now int64) error {
	return tx.AddAudit(store.Audit{At: now, Event: event, Peer: peer})
}

// noteMessage is note about a message of a peer, or to it.
func noteMessage(tx *store.Tx, event audit.Event, peer, messageID string, now int64) error {
	return tx.AddAudit(store.Audit{At: now, Event: event, Peer: peer, MessageID: messageID})
}

// refusals are the events of packets that are not taken in. One that was has no
// row of its own.
var refusals = map[Outcome]audit.Event{
	Dropped:     audit.MessageDropped,
	Rejected:    audit.MessageRejected,
	Duplicate:   audit.MessageDuplicate,
	Retry:       audit.MessageRetried,
	Quarantined: audit.MessageQuarantined,
}

// noteResult adds what became of a packet.
func noteResult(tx *store.Tx, r Result, now int64) error {
	return tx.AddAudit(store.Audit{At: now, Event: refusals[r.Outcome], Code: string(r.Code), Peer: r.From, MessageID: r.MessageID})
}

// pinEvents are the events of a pin that has changed.
var pinEvents = map[kel.Outcome]audit.Event{
	kel.Adopted:   audit.PinAdopted,
	kel.Extended:  audit.PinExtended,
	kel.Recovered: audit.PinRecovered,
}

// noteAdopted notes what a PublishedAgent has changed of the pin that was there
// before, and that the permit held of the peer is void under the new one.
func (n *Node) noteAdopted(tx *store.Tx, id string, before *kel.State, a adopted, now int64) error {
	event, changed := pinEvents[a.outcome]
	if !changed {
		return nil
	}
	if err := tx.AddAudit(store.Audit{At: now, Event: event, Peer: id, KELSeq: a.pin.Seq()}); err != nil {
		return err
	}
	held, err := n.heldPermit(tx, peer{id: id, pin: before}, now)
	if err != nil || held == nil || held.Verify(a.pin, id, n.id.ACEID(), now) == nil {
		return err
	}
	return tx.AddAudit(store.Audit{At: now, Event: audit.PermitVoided, Peer: id, ExpiresAt: held.ExpiresAt})
}

// noteConflict notes a failure that says that a log contradicts the pinned one,
// and returns the failure. The transaction that met it is undone by then.
func (n *Node) noteConflict(ctx context.Context, id string, failure error, now int64) error {
	if !errors.Is(failure, fault.KELConflict) {
		return failure
	}
	err := n.store.Update(ctx, func(tx *store.Tx) error {
		return tx.AddAudit(store.Audit{At: now, Event: audit.PinConflict, Code: string(fault.KELConflict), Peer: id})
	})
	if err != nil {
		return errors.Join(failure, err)
	}
	return failure
}

// noteHeld notes a permit of a peer that takes the place of the one held, nil for
// none. The same one comes again with each retry of the peer's.
func noteHeld(tx *store.Tx, id string, before, permit *admission.Permit, now int64) error {
	if before != nil && bytes.Equal(before.Raw(), permit.Raw()) {
		return nil
	}
	return tx.AddAudit(store.Audit{At: now, Event: audit.PermitReceived, Peer: id, ExpiresAt: permit.ExpiresAt})
}

// noteIssued notes a permit that was issued to a peer, before it is saved.
func noteIssued(tx *store.Tx, id string, permit *admission.Permit, now int64) error {
	_, earlier, err := tx.Permit(id, store.PermitIssued)
	if err != nil {
		return err
	}
	event := audit.PermitIssued
	if earlier {
		event = audit.PermitRenewed
	}
	return tx.AddAudit(store.Audit{At: now, Event: event, Peer: id, ExpiresAt: permit.ExpiresAt})
}

// noteUnsent notes that no receipt can be sent for a message of a peer. One that
// can be sent later is not noted here: its packet is fetched again.
func noteUnsent(tx *store.Tx, to, messageID string, failure error, now int64) error {
	return tx.AddAudit(store.Audit{At: now, Event: audit.ReceiptUnsent, Code: string(fault.CodeOf(failure)), Peer: to, MessageID: messageID})
}

// unsent notes a failure after which no receipt can be sent, and returns it.
func (n *Node) unsent(ctx context.Context, to, messageID string, failure error, now int64) error {
	if failure == nil || ctx.Err() != nil || isTransient(failure) {
		return failure
	}
	err := n.store.Update(ctx, func(tx *store.Tx) error { return noteUnsent(tx, to, messageID, failure, now) })
	if err != nil {
		return errors.Join(failure, err)
	}
	return failure
}
