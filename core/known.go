package core

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// KnownPeer is what the store holds of a peer.
type KnownPeer struct {
	Contact                                // State "" for a stranger
	Log         *kel.State                 // the pinned one, nil without
	PinnedAt    int64                      // when it was last verified, 0 without
	Descriptor  *descriptor.PublishedAgent // the cached one, nil without and when it may not be used
	Card        *descriptor.CardBundle     // nil without and when its key was replaced since
	Request     *ContactRequest            // that waits for a decision, nil without
	Outstanding int                        // messages for it without an outcome
}

// KnownPeer returns what the store holds of a peer. Nobody is asked. Codes:
// unknown_peer when that is nothing, storage_failed.
func (e *Endpoint) KnownPeer(ctx context.Context, aceID string) (KnownPeer, error) {
	now, err := e.now()
	if err != nil {
		return KnownPeer{}, err
	}
	var k KnownPeer
	if k.Log, err = e.node.PinnedLog(ctx, aceID, now); err != nil {
		return k, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error { return k.read(tx, aceID, now) })
	if err == nil && k.nothing() {
		err = fault.New(fault.UnknownPeer, "nothing is known of %.80q", aceID)
	}
	return k, err
}

func (k *KnownPeer) read(tx *store.Tx, id string, now int64) error {
	row, _, err := tx.Contact(id, now)
	if err != nil {
		return err
	}
	row.Peer = id
	if k.Contact, err = contactOf(tx, row); err != nil {
		return err
	}
	pin, _, err := tx.Pin(id)
	if err != nil {
		return err
	}
	k.PinnedAt = pin.FetchedAt
	if k.Outstanding, _, err = waitingFor(tx, id); err != nil {
		return err
	}
	return errors.Join(k.readDocuments(tx, id, now), k.readRequest(tx, id, now))
}

// readDocuments reads what the peer last published, as far as it may still be
// reported: a descriptor that is unexpired and ends at the pin (04#caching), and a
// card record that no dlg since has revoked (04#card-record).
func (k *KnownPeer) readDocuments(tx *store.Tx, id string, now int64) error {
	raw, err := tx.Descriptor(id)
	if err != nil {
		return err
	}
	if raw != nil {
		agent, err := descriptor.DecodeStored(raw)
		if err != nil {
			return err
		}
		if agent.Usable(now, k.Log) {
			k.Descriptor = agent
		}
	}
	kept, ok, err := tx.Card(id)
	if err != nil || !ok || kept.Raw == nil {
		return err
	}
	card, err := descriptor.DecodeStoredCard(kept.Raw)
	if err == nil && (k.Log == nil || card.KELEnd() == k.Log.LastHash()) {
		k.Card = card
	}
	return err
}

func (k *KnownPeer) readRequest(tx *store.Tx, id string, now int64) error {
	held, ok, err := tx.Request(id, now-wire.ContactRequestTTLSeconds)
	if err != nil || !ok {
		return err
	}
	r, err := requestOf(held)
	k.Request = &r
	return err
}

func (k *KnownPeer) nothing() bool {
	return k.State == "" && k.Name == "" && k.Log == nil && k.Card == nil && k.Request == nil && k.HeldPermit == 0 && k.IssuedPermit == 0
}
