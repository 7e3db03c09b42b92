package delivery

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// deliver is steps 9 and 10 inside their transaction. A stop leaves behind only
// what holds whatever becomes of the packet: the prekey rules and the permit of
// its recovery data.
func (in *incoming) deliver(tx *store.Tx) error {
	if err := in.holdAdmission(tx); err != nil {
		return err
	}
	if err := in.deduplicate(tx); err != nil { // 9
		return err
	}
	if err := in.takeIn(tx); err != nil { // 10
		return err
	}
	return in.known.seen.commit(in.seen(), in.now)
}

// holdAdmission is 05#admission-recovery step 4: the permit of an authenticated
// sender's recovery data is held like a renewal when it is valid.
func (in *incoming) holdAdmission(tx *store.Tx) error {
	if in.candidate || in.recovery != nil || in.content.Admission == nil {
		return nil
	}
	permit, err := admission.VerifyPermit(in.content.Admission.Permit, in.state, in.packet.From, in.n.id.ACEID(), in.now)
	if err != nil {
		return nil
	}
	return in.n.hold(tx, in.packet.From, in.state, permit, in.now)
}

// deduplicate is step 9.
func (in *incoming) deduplicate(tx *store.Tx) error {
	verdict, err := in.known.seen.judge(in.seen())
	switch {
	case err != nil:
		return err
	case verdict == VerdictBeyondHorizon:
		return drop(fault.New(fault.ReplayHorizon, "packet.timestamp: at or below the horizon of the seen store"))
	case verdict == VerdictDuplicate:
		if in.accept, err = in.acceptedBefore(tx); err != nil {
			return err
		}
		return &stop{Duplicate, errSeen}
	}
	return nil
}

// acceptedBefore reports whether a duplicate is a contact request that was accepted
// and whose reply never left: its sender is held as admitted, and was issued no
// permit. Who died in between has only this packet to be reminded by. A request that
// was answered is answered no second time.
func (in *incoming) acceptedBefore(tx *store.Tx) (bool, error) {
	if in.content.Type != profile.ContactType || in.contact.Kind != admission.Request {
		return false, nil
	}
	return tx.ContactDueAPermit(in.packet.From, in.n.delegation())
}

// errSeen has no code: a duplicate is no failure.
var errSeen = errors.New("seen before")

// takeIn is step 10 for each kind of packet.
func (in *incoming) takeIn(tx *store.Tx) error {
	switch in.content.Type {
	case profile.ReceiptType:
		return in.takeReceipt(tx)
	case profile.ContactType:
		return in.takeContact(tx)
	}
	return in.takeMessage(tx)
}

// takeMessage stores the delivery record, which is the hand-over too: the
// application reads the inbox. It has the rule's commit in its transaction, so
// there is nothing left to complete after a crash.
func (in *incoming) takeMessage(tx *store.Tx) error {
	if err := in.checkRule(tx); err != nil {
		return err
	}
	m := store.Message{
		MessageID: in.packet.MessageID, Peer: in.packet.From, Type: in.content.Type, ThreadID: in.content.ThreadID,
		Body: in.content.Body.Canonical(), SentAt: in.packet.Timestamp, ReceivedAt: in.now,
	}
	withheld, code, err := in.withholds(tx)
	switch {
	case err != nil:
		return err
	case withheld:
		err = in.withhold(tx, m, code)
	default:
		err = in.handOver(tx, m)
	}
	if err != nil {
		return err
	}
	return in.commitRule(tx)
}

// handOver puts a message into the inbox, while there is room.
func (in *incoming) handOver(tx *store.Tx, m store.Message) error {
	waiting, err := tx.CountUnhandled()
	if err != nil {
		return err
	}
	if waiting >= in.n.capacity {
		return hold(fault.New(fault.ReceiverCapacity, "%d messages wait to be handled", waiting))
	}
	in.result.Message = &m
	return tx.AddMessage(m)
}

// receiptTarget returns the entry that a receipt answers, zero when there is
// none, and whether the same receipt was applied to it before.
func (in *incoming) receiptTarget(tx *store.Tx) (e store.OutboxEntry, applied bool, err error) {
	e, ok, err := tx.Outbox(in.receipt.MessageID)
	if err != nil || !ok || e.Peer != in.packet.From {
		return store.OutboxEntry{}, false, err
	}
	applied, err = tx.ReceiptApplied(e.MessageID, in.receipt.Outcome, in.receipt.Prekey)
	return e, applied, err
}

// takeReceipt holds a renewal and applies the receipt to the message it answers
// (06#outbox-sender). One that answers none is ignored.
func (in *incoming) takeReceipt(tx *store.Tx) error {
	if in.permit != nil {
		if err := in.n.hold(tx, in.packet.From, in.state, in.permit, in.now); err != nil {
			return err
		}
	}
	e, applied, err := in.receiptTarget(tx)
	if err != nil || e.MessageID == "" || applied {
		return err
	}
	effect := applyReceipt(&e, in.receipt, in.current, in.now)
	if !effect.applied {
		return nil
	}
	if effect.dropHeld {
		if _, err := dropHeld(tx, e.Peer, in.receipt.Prekey); err != nil {
			return err
		}
	}
	if e.State == store.Pending {
		missed := store.Audit{At: in.now, Event: audit.ReceiptUnknownPrekey, Code: in.receipt.Code, Peer: e.Peer, MessageID: e.MessageID}
		if err := tx.AddAudit(missed); err != nil {
			return err
		}
	} else {
		in.result.Receipt = &ReceiptEvent{From: in.packet.From, Body: in.receipt, At: in.now, Entry: e}
	}
	if err := tx.SetReceiptApplied(e.MessageID, in.receipt.Outcome, in.receipt.Prekey); err != nil {
		return err
	}
	if effect.commit {
		if err := in.n.commitSent(tx, e, in.now); err != nil {
			return err
		}
	}
	return tx.SaveOutbox(e)
}

// takeContact is the decision of 05#flow on a contact packet that verified.
func (in *incoming) takeContact(tx *store.Tx) error {
	row, _, err := tx.Contact(in.packet.From, in.now)
	if err != nil {
		return err
	}
	state := admission.State(row.State)
	same := row.Profile == in.contact.Profile
	switch kind := in.contact.Kind; {
	case state == admission.Blocked:
		return drop(fault.New(fault.NotPermitted, "sender is blocked"))
	case kind == admission.Request && (state == admission.Admitted || in.acceptedByRule()):
		in.accept = true
		return in.admit(tx, row)
	case kind == admission.Request:
		return in.holdRequest(tx)
	case kind == admission.Accepted && (state == admission.Admitted || state == admission.Pending && same):
		return in.admit(tx, row)
	case kind == admission.Rejected && state == admission.Pending && same:
		in.result.Contact = &store.Contact{Peer: in.packet.From, Profile: row.Profile}
		if err := note(tx, audit.ContactDeclined, in.packet.From, in.now); err != nil {
			return err
		}
		return tx.DeleteContact(in.packet.From)
	}
	return nil // any other reply is ignored
}

// acceptedByRule reports whether an acceptProfiles rule accepts the request
// without a decision: the digests are equal (05#flow step 2). That the requester
// lists the profile with this endpoint's digest was checked before.
func (in *incoming) acceptedByRule() bool {
	digest, ok := in.n.accept[in.contact.Profile]
	own, installed := in.n.profiles.Profile(in.contact.Profile)
	return ok && installed && digest == own.Digest
}

// admit pins the source, holds its permit and records the sender as admitted
// (05#flow steps 3 and 4). A row that is admitted already stays as it is.
func (in *incoming) admit(tx *store.Tx, row store.Contact) error {
	if err := in.n.admit(tx, in.packet.From, in.contact.Source, in.permit, in.now); err != nil {
		return err
	}
	if in.accept {
		if err := tx.DeleteRequest(in.packet.From); err != nil {
			return err
		}
	}
	if row.State == string(admission.Admitted) {
		return nil
	}
	row = store.Contact{Peer: in.packet.From, State: string(admission.Admitted), Profile: in.contact.Profile, Since: in.now}
	in.result.Contact = &row
	if in.accept {
		if err := note(tx, audit.ContactRequestAccepted, row.Peer, in.now); err != nil {
			return err
		}
	}
	if err := note(tx, audit.ContactAdmitted, row.Peer, in.now); err != nil {
		return err
	}
	return tx.SetContact(row)
}

func (n *Node) admit(tx *store.Tx, id string, source wire.Value, permit *admission.Permit, now int64) error {
	a, err := n.adopt(tx, id, source, now)
	if err != nil {
		return err
	}
	if err := permit.Verify(a.pin, id, n.id.ACEID(), now); err != nil {
		return err
	}
	return n.hold(tx, id, a.pin, permit, now)
}

// holdRequest holds a contact request for a decision, within the bounds of
// 05#flow step 2.
func (in *incoming) holdRequest(tx *store.Tx) error {
	request := store.Request{Peer: in.packet.From, Body: in.content.Body.Canonical(), ReceivedAt: in.now}
	in.result.Request = &request
	return in.n.holdRequest(tx, request)
}

func (n *Node) holdRequest(tx *store.Tx, q store.Request) error {
	kept, err := tx.RequestHeads(0)
	if err != nil {
		return err
	}
	held := make([]admission.HeldRequest, len(kept))
	for i, k := range kept {
		held[i] = admission.HeldRequest{From: k.Peer, ReceivedAt: k.ReceivedAt}
	}
	for _, leaving := range admission.Hold(held, q.Peer, q.ReceivedAt) {
		if err := tx.DeleteRequest(leaving.From); err != nil {
			return err
		}
	}
	if err := note(tx, audit.ContactRequestHeld, q.Peer, q.ReceivedAt); err != nil {
		return err
	}
	return tx.AddRequest(q)
}

// replyAccepted answers a request that step 10 accepted. Contact packets are not
// retried (06#receipts): when the reply cannot be sent for now, the request is
// held, so that an explicit accept sends it again.
func (in *incoming) replyAccepted(ctx context.Context) error {
	p, err := in.n.viewPeer(ctx, in.packet.From, in.now)
	if err == nil {
		err = in.n.sendContact(ctx, contactPacket{
			to: p, permit: in.permit, kind: admission.Accepted, profile: in.contact.Profile,
		}, in.now)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !isTransient(err) {
		return nil
	}
	return in.n.store.Update(ctx, func(tx *store.Tx) error { return in.holdRequest(tx) })
}
