package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// Permit tells of a delivery permit that is kept. The credential itself stays in
// the store.
type Permit struct {
	ACEID, Name         string
	Held                bool // by this identity, from the peer; else issued to the peer
	IssuedAt, ExpiresAt int64
	// Valid says whether it verifies now, under the issuer's current log.
	Valid bool
}

// Permits returns the newest permit issued to and held from each peer.
func (e *Endpoint) Permits(ctx context.Context) (list []Permit, err error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	kept, err := e.node.Permits(ctx, now)
	if err != nil {
		return nil, err
	}
	var names map[string]string
	err = e.store.View(ctx, func(tx *store.Tx) error {
		names, err = tx.Names()
		return err
	})
	for _, k := range kept {
		list = append(list, Permit{
			ACEID: k.Peer, Name: names[k.Peer], Held: k.Direction == store.PermitHeld,
			IssuedAt: k.IssuedAt, ExpiresAt: k.ExpiresAt, Valid: k.Valid,
		})
	}
	return list, err
}

// RenewPermit sends an admitted peer a request that carries a fresh permit and
// asks for one in return (05#delivery-permits). Codes: not_permitted for a peer
// that is not admitted, and those of Connect.
func (e *Endpoint) RenewPermit(ctx context.Context, aceID string) (Contact, error) {
	now, err := e.now()
	if err != nil {
		return Contact{}, err
	}
	var row store.Contact
	err = e.store.View(ctx, func(tx *store.Tx) error {
		row, _, err = tx.Contact(aceID, now)
		return err
	})
	if err != nil {
		return Contact{}, err
	}
	if row.State != string(admission.Admitted) {
		return Contact{}, fault.New(fault.NotPermitted, "%s is not admitted", aceID)
	}
	if err := e.ensurePublished(ctx, now); err != nil {
		return Contact{}, err
	}
	if err := e.refreshPermit(ctx, aceID, now); err != nil {
		return Contact{}, err
	}
	return e.viewContact(ctx, row)
}
