package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Block decides that a peer is blocked (05#blocks): from now on its packets are
// dropped. The contact request held of it is discarded, and so is the prekey
// held (04#peer-prekeys). What it was issued and what it issued stays. The
// decision is returned to be registered at the relay. Code: invalid_argument.
func (n *Node) Block(ctx context.Context, id string, now int64) (decision store.Block, err error) {
	if err := n.checkOther(id); err != nil {
		return decision, err
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if decision, err = decide(tx, id, true, now); err != nil {
			return err
		}
		if err := tx.DeleteRequest(id); err != nil {
			return err
		}
		if err := tx.DropHeldPrekey(id); err != nil {
			return err
		}
		return tx.SetContact(store.Contact{Peer: id, State: string(admission.Blocked), Since: now})
	})
	return decision, err
}

// Unblock decides that a peer is blocked no longer: it is a stranger then
// (05#blocks). A peer that is not held as blocked keeps its row; the decision
// goes to the relay all the same, which may hold a block that this store has
// lost. Code: invalid_argument.
func (n *Node) Unblock(ctx context.Context, id string, now int64) (decision store.Block, err error) {
	if err := n.checkOther(id); err != nil {
		return decision, err
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		row, _, err := tx.Contact(id, now)
		if err != nil {
			return err
		}
		if decision, err = decide(tx, id, false, now); err != nil || row.State != string(admission.Blocked) {
			return err
		}
		return tx.DeleteContact(id)
	})
	return decision, err
}

// decide records a block decision, which no relay has seen yet.
func decide(tx *store.Tx, id string, blocked bool, now int64) (store.Block, error) {
	earlier, ok, err := tx.Block(id)
	if err != nil {
		return store.Block{}, err
	}
	previous := int64(admission.NoRevision)
	if ok {
		previous = earlier.Revision
	}
	revision, err := admission.NextRevision(previous, now)
	if err != nil {
		return store.Block{}, err
	}
	decision := store.Block{Peer: id, Blocked: blocked, Revision: revision}
	event := audit.ContactUnblocked
	if blocked {
		event = audit.ContactBlocked
	}
	if err := note(tx, event, id, now); err != nil {
		return decision, err
	}
	return decision, tx.SetBlock(decision)
}

func (n *Node) checkOther(id string) error {
	if !wire.IsACEID(id) || id == n.id.ACEID() {
		return fault.New(fault.InvalidArgument, "%.80q is not the ACE ID of another agent", id)
	}
	return nil
}
