package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/store"
)

// PinnedLog returns the log that is pinned for a peer (01#pinning). Codes:
// unknown_peer when none is, storage_failed.
func (e *Endpoint) PinnedLog(ctx context.Context, aceID string) (*kel.State, error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	state, err := e.node.PinnedLog(ctx, aceID, now)
	if err == nil && state == nil {
		err = fault.New(fault.UnknownPeer, "nothing is pinned for %s", aceID)
	}
	return state, err
}

// OwnDocument returns the identity's own PublishedAgent or CardBundle as last
// signed, canonical JSON, and nil when there is none.
func (e *Endpoint) OwnDocument(ctx context.Context, kind store.DocumentKind) ([]byte, error) {
	var own store.Document
	err := e.store.View(ctx, func(tx *store.Tx) (err error) {
		own, _, err = tx.Own(kind)
		return err
	})
	return own.Raw, err
}

// OwnCard returns the own card record as last signed, nil for none, and the URL of
// the relay that has taken it, "" for none.
func (e *Endpoint) OwnCard(ctx context.Context) (card *descriptor.CardBundle, relay string, err error) {
	var own store.Document
	err = e.store.View(ctx, func(tx *store.Tx) (err error) {
		own, _, err = tx.Own(store.OwnCard)
		return err
	})
	if err != nil || own.Raw == nil {
		return nil, "", err
	}
	card, err = descriptor.DecodeStoredCard(own.Raw)
	return card, own.Relay, err
}

// Snapshot copies the endpoint's store for a backup, into an empty file at path.
// The copy has no seeds, and nothing in it is sent again by itself. Codes:
// lock_busy, storage_failed.
func (e *Endpoint) Snapshot(ctx context.Context, path string) error {
	now, err := e.now()
	if err != nil {
		return err
	}
	return e.store.Snapshot(ctx, path, now)
}
