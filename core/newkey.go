package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/store"
)

// NewKeyEffects is what a new signing key changes for the peers of an
// endpoint.
type NewKeyEffects struct {
	// Permits are the unexpired ones that it voids (05#delivery-permits).
	Permits int
	// Refreshes are the admitted peers that are sent a fresh permit.
	Refreshes int
	// Closed are the admitted peers that could not be reached again if they
	// replaced their signing keys at the same time
	// (06#security-considerations). An endpoint with an open card has none: its
	// peers can ask for contact.
	Closed []ClosedPeer
}

// ClosedPeer is an admitted peer that is, or may be, closed to strangers.
type ClosedPeer struct {
	ACEID, Name string
	Known       bool // its card record says so; else none is held
}

// NewKeyEffects tells, from the store alone, what a new signing key would
// change now. Code: storage_failed.
func (e *Endpoint) NewKeyEffects(ctx context.Context) (f NewKeyEffects, err error) {
	now, err := e.now()
	if err != nil {
		return f, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) (err error) {
		if d := e.config.Identity.State().Delegated(); d != nil {
			// Earlier delegations' permits are void already.
			if f.Permits, err = tx.CountPermits(store.PermitIssued, d.TS, now); err != nil {
				return err
			}
		}
		rows, err := tx.Contacts(now)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.State == string(admission.Admitted) {
				f.Refreshes++
				err = f.addClosed(tx, row.Peer, e.config.Card.Contact)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return f, err
}

// addClosed adds a peer that is not known to be open. One without a card record
// counts as closed (04#card-record).
func (f *NewKeyEffects) addClosed(tx *store.Tx, peer, own string) error {
	if own == descriptor.ContactOpen {
		return nil
	}
	kept, known, err := tx.Card(peer)
	if err != nil {
		return err
	}
	if known = known && kept.Raw != nil; known {
		card, err := descriptor.DecodeStoredCard(kept.Raw)
		if err != nil {
			return err
		}
		if card.Contact == descriptor.ContactOpen {
			return nil
		}
	}
	name, err := tx.Name(peer)
	f.Closed = append(f.Closed, ClosedPeer{ACEID: peer, Name: name, Known: known})
	return err
}
