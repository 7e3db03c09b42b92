// Package audit is the vocabulary of the audit log: what an endpoint notes of its
// own decisions, and of packets that it did not take in.
//
// A row of the log names one event of [Events], a time, and where they apply a
// code, a peer, a message and a few numbers. It never has content, names, notes
// or secrets. A message that was taken in has no row: it is its own record.
package audit

import (
	"path"
	"slices"
)

// Event is what a row of the log is about.
type Event string

// The events. What each means is said in [Events].
const (
	MessageDropped     Event = "message.dropped"
	MessageRejected    Event = "message.rejected"
	MessageDuplicate   Event = "message.duplicate_ignored"
	MessageRetried     Event = "message.retried"
	MessageQuarantined Event = "message.quarantined"

	MessageWithheld    Event = "message.withheld"
	QuarantineReleased Event = "quarantine.released"
	QuarantineDropped  Event = "quarantine.dropped"

	ApprovalHeld    Event = "approval.held"
	ApprovalGranted Event = "approval.granted"
	ApprovalDenied  Event = "approval.denied"
	ApprovalExpired Event = "approval.expired"

	ReceiptUnsent        Event = "receipt.unsent"
	ReceiptUnknownPrekey Event = "receipt.unknown_prekey"

	PinAdopted   Event = "pin.adopted"
	PinExtended  Event = "pin.extended"
	PinRecovered Event = "pin.recovered"
	PinConflict  Event = "pin.conflict"

	PermitIssued   Event = "permit.issued"
	PermitRenewed  Event = "permit.renewed"
	PermitReceived Event = "permit.received"
	PermitVoided   Event = "permit.voided"

	ContactRequested       Event = "contact.requested"
	ContactRequestRefused  Event = "contact.request_refused"
	ContactRequestHeld     Event = "contact.request_held"
	ContactRequestAccepted Event = "contact.request_accepted"
	ContactRequestRejected Event = "contact.request_rejected"
	ContactAdmitted        Event = "contact.admitted"
	ContactDeclined        Event = "contact.declined"
	ContactForgotten       Event = "contact.forgotten"
	ContactBlocked         Event = "contact.blocked"
	ContactUnblocked       Event = "contact.unblocked"

	KeyDelegated Event = "key.delegated"
	KeyRotated   Event = "key.rotated"
	KeyRecovered Event = "key.recovered"

	RelayRegistered   Event = "relay.registered"
	RelayUnregistered Event = "relay.unregistered"

	DescriptorPublished Event = "descriptor.published"
	CardPublished       Event = "card.published"

	StorePruned    Event = "store.pruned"
	BackupCreated  Event = "backup.created"
	BackupRestored Event = "backup.restored"

	PassphraseRefused Event = "passphrase.refused"
	PassphraseChanged Event = "passphrase.changed"
)

// Described is an event and what it means, in one sentence.
type Described struct {
	Event   Event
	Meaning string
}

// Events returns the whole vocabulary, related events together.
func Events() []Described {
	return []Described{
		{MessageDropped, "A packet was dropped without an answer, for the reason that the code gives."},
		{MessageRejected, "An authenticated packet was refused, and its sender is told so with the code."},
		{MessageDuplicate, "A packet that was taken in or refused before came again and was ignored."},
		{MessageRetried, "A packet could not be settled for now and is fetched again; after it was taken in, its receipt could not be sent."},
		{MessageQuarantined, "A packet was given up after too many fetches and put into quarantine."},
		{MessageWithheld, "A message was taken in, and your policy set it aside in quarantine, or with the code invalid_argument a rule of it that cannot be followed."},
		{QuarantineReleased, "You released a message from quarantine into the inbox."},
		{QuarantineDropped, "You removed a packet or a message from quarantine or, with the code receiver_capacity, a message was removed that there was no room for."},
		{ApprovalHeld, "A message of yours is held for your approval, as your policy asks."},
		{ApprovalGranted, "You approved a message that was held."},
		{ApprovalDenied, "You denied a message that was held, or ended it otherwise."},
		{ApprovalExpired, "A message that was held was rejected because you did not decide in time."},
		{ReceiptUnsent, "A message was taken in or refused, and no receipt can be sent for the reason that the code gives."},
		{ReceiptUnknownPrekey, "A receipt said that the prekey of an attempt is not known any more, so the next attempt uses the published one."},
		{PinAdopted, "The key event log of a peer was pinned for the first time."},
		{PinExtended, "The pinned log of a peer has new events."},
		{PinRecovered, "A peer has taken its identity back with its next root, and its log replaced the pinned one."},
		{PinConflict, "A log was shown for a peer that contradicts the pinned one, or is that of somebody else, and was refused."},
		{PermitIssued, "A peer was issued its first permit, or the first since it was forgotten."},
		{PermitRenewed, "A peer was issued another permit in place of its last one."},
		{PermitReceived, "A permit was received of a peer and is held."},
		{PermitVoided, "Permits are void because their issuer has another signing key: the one held of the peer or, without a peer, as many as you had issued."},
		{ContactRequested, "A contact request to a peer was recorded as pending, to be sent."},
		{ContactRequestRefused, "A relay refused your contact request for good, and the peer is as it was before."},
		{ContactRequestHeld, "A contact request of a peer is held for your decision."},
		{ContactRequestAccepted, "A contact request of a peer was accepted, by you or by a rule of yours."},
		{ContactRequestRejected, "You rejected a contact request of a peer."},
		{ContactAdmitted, "A peer was recorded as admitted."},
		{ContactDeclined, "A peer declined your contact request."},
		{ContactForgotten, "You ended the contact with a peer."},
		{ContactBlocked, "You blocked a peer."},
		{ContactUnblocked, "You lifted the block of a peer."},
		{KeyDelegated, "You replaced the signing key."},
		{KeyRotated, "You replaced the root, the next root and the signing key."},
		{KeyRecovered, "You took the identity back with its next root."},
		{RelayRegistered, "A relay registered the identity."},
		{RelayUnregistered, "You took the identity from its relay."},
		{DescriptorPublished, "A relay has taken a new descriptor."},
		{CardPublished, "A relay has taken a new card record."},
		{StorePruned, "What had ended long ago was removed from the store, by you or by upkeep."},
		{BackupCreated, "You made a backup that is read back and checked."},
		{BackupRestored, "The identity was made of a backup."},
		{PassphraseRefused, "A passphrase was given that does not open the keys."},
		{PassphraseChanged, "You changed the passphrase of the keys, or removed it."},
	}
}

// Known reports whether e is one of [Events].
func (e Event) Known() bool {
	return slices.ContainsFunc(Events(), func(d Described) bool { return d.Event == e })
}

// Match returns the events that a pattern stands for: a name, or one with * for
// any characters, as in pin.*. It returns none for a pattern that fits none.
func Match(pattern string) (matching []Event) {
	for _, d := range Events() {
		if fits, err := path.Match(pattern, string(d.Event)); err == nil && fits {
			matching = append(matching, d.Event)
		}
	}
	return matching
}
