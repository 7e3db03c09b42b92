package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// settledRetention is how long an ended message stays in the Outbox for its
// sender to look at. It is longer than any has to stay (06#outbox-sender).
const settledRetention = 30 * 86400

// minRetention is how long an ended message stays whatever its sender wants: as
// long as a receipt of it may come.
const minRetention = wire.OfflineWindowSeconds

// PruneSettled removes the messages that ended at least age seconds ago and
// returns how many there were. Code: invalid_argument for an age below
// OFFLINE_WINDOW_SECONDS.
func (n *Node) PruneSettled(ctx context.Context, age, now int64) (removed int64, err error) {
	if age < minRetention {
		return 0, fault.New(fault.InvalidArgument, "a message stays for %d days after its outcome", minRetention/86400)
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if removed, err = tx.DeleteSettled(now - age); err != nil {
			return err
		}
		return notePruned(tx, removed, now)
	})
	return removed, err
}

// Prune removes what has ended, and returns how many rows that were: pending
// entries and held requests whose time is over (05#flow), messages that ended
// long ago, and seeds whose retention has ended (04#prekey). Old rows of the audit
// log go with them, uncounted.
func (n *Node) Prune(ctx context.Context, now int64) (removed int64, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		contacts, err := tx.DeleteExpiredContacts(now)
		if err != nil {
			return err
		}
		requests, err := tx.DeleteRequests(now - wire.ContactRequestTTLSeconds)
		if err != nil {
			return err
		}
		messages, err := tx.DeleteSettled(now - settledRetention)
		if err != nil {
			return err
		}
		removed = contacts + requests + messages
		if err := notePruned(tx, removed, now); err != nil {
			return err
		}
		if err := tx.PruneAudit(now); err != nil {
			return err
		}
		return deleteEndedSeeds(tx, now)
	})
	return removed, err
}

func notePruned(tx *store.Tx, removed, now int64) error {
	if removed == 0 {
		return nil
	}
	return tx.AddAudit(store.Audit{At: now, Event: audit.StorePruned, Count: removed})
}
