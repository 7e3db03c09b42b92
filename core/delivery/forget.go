package delivery

import (
	"context"
	"math"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// Forget ends the contact with a peer: its row, the contact request and the
// permits held of it, its prekey and its petname go, and messages that wait for
// it are abandoned, or denied where the owner was asked. The pin stays (01#pinning), and so do messages received. The
// peer is a stranger then, whose unexpired permit re-admits it with its next
// retry (05#admission-recovery): only a block suspends one. Codes:
// invalid_argument for a peer that there is no contact with, not_permitted for a
// blocked one, whose row only unblocking clears (05#blocks).
func (n *Node) Forget(ctx context.Context, id string, now int64) (abandoned int, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if err := checkForget(tx, id, now); err != nil {
			return err
		}
		if abandoned, err = abandonAll(tx, id, now); err != nil {
			return err
		}
		for _, remove := range []func(string) error{tx.DeleteContact, tx.DeleteRequest, tx.DeletePermits, tx.DropHeldPrekey} {
			if err := remove(id); err != nil {
				return err
			}
		}
		row := store.Audit{At: now, Event: audit.ContactForgotten, Peer: id, Count: int64(abandoned)}
		if err := tx.AddAudit(row); err != nil {
			return err
		}
		return tx.SetName(id, "")
	})
	return abandoned, err
}

func checkForget(tx *store.Tx, id string, now int64) error {
	row, listed, err := tx.Contact(id, now)
	if err != nil {
		return err
	}
	if row.State == string(admission.Blocked) {
		return fault.New(fault.NotPermitted, "%s is blocked", id)
	}
	_, asked, err := tx.Request(id, 0)
	if err != nil {
		return err
	}
	_, held, err := tx.Permit(id, store.PermitHeld)
	if err != nil || listed || asked || held {
		return err
	}
	name, err := tx.Name(id)
	if err == nil && name == "" {
		err = fault.New(fault.InvalidArgument, "there is no contact with %s", id)
	}
	return err
}

func abandonAll(tx *store.Tx, id string, now int64) (abandoned int, err error) {
	pending, err := tx.OutboxPending(math.MaxInt64)
	if err != nil {
		return 0, err
	}
	held, err := tx.OutboxHeld(math.MaxInt64)
	if err != nil {
		return 0, err
	}
	for _, e := range append(pending, held...) {
		if e.Peer != id {
			continue
		}
		denied, err := deny(tx, &e, now)
		if err != nil {
			return 0, err
		}
		if denied || abandon(&e, now) {
			abandoned++
		}
		if err := tx.SaveOutbox(e); err != nil {
			return 0, err
		}
	}
	return abandoned, nil
}
