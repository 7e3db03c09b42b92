package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// Shown is what the packet of a message's latest attempt has shown to a relay,
// as far as the store knows (06#security-considerations, Relay).
type Shown struct {
	MessageID, From, To string
	Attempts            int
	Relay               string // that took a packet last, "" for none
	Prekey              string // hex ID it was encrypted to, "" when nothing was
	PrekeyIsPeer        bool   // that is a peer prekey
	// PlaintextBytes is the length of the private content, 0 when it is damaged. An
	// attempt after the first may carry admission data as well
	// (05#admission-recovery): MayBeMore says so.
	PlaintextBytes int
	MayBeMore      bool
}

// Shown tells what a relay has seen of a message of the Outbox. Nothing is sealed
// or signed for it. Code: invalid_argument for an unknown message.
func (e *Endpoint) Shown(ctx context.Context, messageID string) (s Shown, err error) {
	var entry store.OutboxEntry
	err = e.store.View(ctx, func(tx *store.Tx) error {
		found, ok, err := tx.Outbox(messageID)
		if err == nil && !ok {
			err = fault.New(fault.InvalidArgument, "no message %.80q in the outbox", messageID)
		}
		entry = found
		return err
	})
	if err != nil {
		return s, err
	}
	s = Shown{
		MessageID: entry.MessageID, From: e.ACEID(), To: entry.Peer, Attempts: entry.Attempts, Relay: entry.Relay,
		Prekey: entry.Prekey, PrekeyIsPeer: entry.PrekeyIsPeer, MayBeMore: entry.Attempts > 1,
	}
	if entry.Damaged != nil {
		return s, nil
	}
	content, err := delivery.StoredContent(entry)
	if err != nil {
		return s, err
	}
	plaintext, err := content.Canonical() // with a prekey of zeros in the place of the one that was offered
	s.PlaintextBytes = len(plaintext)
	clear(plaintext)
	return s, err
}
