package delivery

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// ReceiptEvent tells of a receipt that ended a message.
type ReceiptEvent struct {
	From string
	Body *ReceiptBody
	At   int64
	// Entry is the message's entry after the receipt was applied.
	Entry store.OutboxEntry
}

// receiptEffect is what a receipt does to an entry of the Outbox.
type receiptEffect struct {
	applied  bool // false: it is ignored
	commit   bool // the message was delivered: the profile rules' commit runs
	dropHeld bool // the held peer prekey it names is dropped
}

// asksForDescriptor reports whether applying a receipt needs to know the peer's
// current published prekey: a rejection as unknown_prekey of the published
// prekey that the latest attempt used (06#outbox-sender).
func asksForDescriptor(e store.OutboxEntry, b *ReceiptBody) bool {
	return isPrekeyMiss(b) && counts(e, b) && !e.PrekeyIsPeer
}

func isPrekeyMiss(b *ReceiptBody) bool { return b.Code == string(fault.UnknownPrekey) }

// counts reports whether an unknown_prekey is one for the latest attempt of a
// pending message: others are late or replayed.
func counts(e store.OutboxEntry, b *ReceiptBody) bool {
	return e.State == store.Pending && e.Prekey != "" && b.Prekey == e.Prekey
}

// applyReceipt applies a receipt that was not applied before to the entry it
// answers. current is the peer's published prekey ID after a refresh, "" when
// that failed or was not needed (06#outbox-sender).
func applyReceipt(e *store.OutboxEntry, b *ReceiptBody, current string, now int64) receiptEffect {
	expire(e, now)
	if e.State != store.Pending && e.State != store.Expired {
		return receiptEffect{}
	}
	if isPrekeyMiss(b) {
		switch {
		case !counts(*e, b):
			return receiptEffect{}
		case e.PrekeyIsPeer:
			return receiptEffect{applied: true, dropHeld: true}
		case current != b.Prekey:
			// The peer published another, or a failed refresh does not show that
			// it did not: retries go on.
			return receiptEffect{applied: true}
		}
	}
	e.State, e.SettledAt, e.RemoteCode = b.Outcome, now, b.Code
	return receiptEffect{applied: true, commit: b.Outcome == OutcomeDelivered}
}
