package delivery

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// ErrNotItsTurn says that a message was not attempted, because another process
// makes the first attempt of one that was queued for the same peer before. Its
// code is lock_busy.
var ErrNotItsTurn = errors.New("a message queued before has its first attempt now")

// takeTurn claims a message for an attempt, behind the first attempts of those
// that were queued for the same peer before. The relay then gets the messages of
// one peer in their order as far as it takes each when it is first offered; a
// retry holds up nobody. What those attempts fail with is in their entries. A
// message whose first attempt another process makes meanwhile is left alone: the
// second one has its time.
func (n *Node) takeTurn(ctx context.Context, messageID string, now int64, is due) (store.OutboxEntry, bool, error) {
	for {
		entry, claimed, ahead, err := n.claim(ctx, messageID, now, is)
		if err != nil || ahead == "" {
			return entry, claimed, err
		}
		if err := n.attemptAhead(ctx, ahead, now); err != nil {
			return entry, false, err
		}
		is = isFirst
	}
}

// attemptAhead makes the first attempt of a message that another one waits for,
// unless somebody has made it since: a second one has its time.
func (n *Node) attemptAhead(ctx context.Context, messageID string, now int64) error {
	entry, claimed, _, err := n.claim(ctx, messageID, now, isFirst) // nothing is ahead of it
	if errors.Is(err, fault.LockBusy) {
		return fault.Wrapf(fault.LockBusy, ErrNotItsTurn, "message %s", messageID)
	}
	if err != nil || !claimed {
		return err
	}
	entry, err = n.attemptClaimed(ctx, entry, now)
	if ctx.Err() != nil || entry.Attempts == 0 {
		return err // it could not be counted, so that it is ahead still
	}
	return nil
}

func isFirst(e store.OutboxEntry) bool { return e.Attempts == 0 }

// messageAhead returns the message whose first attempt has to be made before that
// of an entry that is due, "" for none.
func messageAhead(tx *store.Tx, e store.OutboxEntry, is due) (string, error) {
	if e.State != store.Pending || e.Attempts > 0 || !is(e) {
		return "", nil
	}
	return tx.OutboxAhead(e.Peer, e.MessageID)
}
