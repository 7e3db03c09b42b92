package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// Approve lets a message go that was held for its owner: it is in the Outbox from
// then on, the last of it and created at now, because it was not there before. It
// comes behind what was queued meanwhile; what 06#outbox-sender and
// 08#sender-state-and-busy-threads ask of a message that is enqueued is asked
// now; and the time that rules see is later than that of the messages they have
// seen. Its retries end OFFLINE_WINDOW_SECONDS after its first attempt as those of
// any other. One that was approved already is returned as it is. Codes:
// invalid_argument for a message that is unknown or waits for no decision, and
// those of [Node.Enqueue], with which it stays held.
func (n *Node) Approve(ctx context.Context, messageID string, now int64) (entry store.OutboxEntry, err error) {
	err = n.decide(ctx, messageID, now, func(tx *store.Tx, e *store.OutboxEntry) error {
		if e.HeldAt > 0 && e.Reason != ReasonDenied && e.Reason != ReasonApprovalExpired && e.State != store.PendingApproval {
			entry = *e
			return nil
		}
		if e.State != store.PendingApproval {
			return fault.New(fault.InvalidArgument, "message %s waits for no approval", e.MessageID)
		}
		content, err := StoredContent(*e)
		if err != nil {
			return err
		}
		e.State, e.CreatedAt, e.NextAttemptAt = store.Pending, now, now
		if err := n.mayEnqueue(tx, *e, content.Body, now); err != nil {
			return err
		}
		if err := noteMessage(tx, audit.ApprovalGranted, e.Peer, e.MessageID, now); err != nil {
			return err
		}
		entry = *e
		return tx.Requeue(e.MessageID, now)
	})
	return entry, err
}

// Deny ends a message that was held for its owner: it is rejected, with the reason
// denied_by_owner, and nothing of it ever left. One that was denied already is
// returned as it is. Code: invalid_argument for a message that is unknown or waits
// for no decision.
func (n *Node) Deny(ctx context.Context, messageID string, now int64) (entry store.OutboxEntry, err error) {
	err = n.decide(ctx, messageID, now, func(tx *store.Tx, e *store.OutboxEntry) error {
		denied, err := deny(tx, e, now)
		if err != nil {
			return err
		}
		if !denied && e.Reason != ReasonDenied {
			return fault.New(fault.InvalidArgument, "message %s waits for no approval", e.MessageID)
		}
		entry = *e
		return nil
	})
	return entry, err
}

// decide runs a decision on an entry and saves what becomes of it. It comes too
// late for one whose time is over, which then is rejected all the same.
func (n *Node) decide(ctx context.Context, messageID string, now int64, decide func(*store.Tx, *store.OutboxEntry) error) error {
	if err := n.ExpireDue(ctx, now); err != nil {
		return err
	}
	return n.store.Update(ctx, func(tx *store.Tx) error {
		entry, err := findEntry(tx, messageID)
		if err != nil {
			return err
		}
		if err := decide(tx, &entry); err != nil {
			return err
		}
		return tx.SaveOutbox(entry)
	})
}

// deny ends a held entry by its owner's will and reports whether it did.
func deny(tx *store.Tx, e *store.OutboxEntry, now int64) (denied bool, err error) {
	if e.State != store.PendingApproval {
		return false, nil
	}
	e.State, e.SettledAt, e.Reason = store.Rejected, now, ReasonDenied
	return true, noteMessage(tx, audit.ApprovalDenied, e.Peer, e.MessageID, now)
}

// rejectOverdue ends the held entries about which nobody has decided in time.
func rejectOverdue(tx *store.Tx, now int64) error {
	overdue, err := tx.OutboxHeld(now)
	if err != nil {
		return err
	}
	for _, e := range overdue {
		e.State, e.SettledAt, e.Reason = store.Rejected, e.HeldUntil, ReasonApprovalExpired
		if err := noteMessage(tx, audit.ApprovalExpired, e.Peer, e.MessageID, now); err != nil {
			return err
		}
		if err := tx.SaveOutbox(e); err != nil {
			return err
		}
	}
	return nil
}
