package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// Handling is what came of the attempts to hand a message to a handler.
type Handling struct {
	MessageID, From string
	Attempts        int    // begun, the one under way included
	Failures        int    // attempts that ended and failed
	Running         bool   // begun and not ended: under way, or cut off by the end of its process
	StartedAt       int64  // of the last attempt
	LastExit        int    // status of the last failure, 128 and the number for a signal
	LastError       string // what went wrong with it, in our words
	NextAttemptAt   int64  // of the next attempt, when none is under way
	GivenUp         bool   // there will be none
}

// Handlings returns the attempts at messages that are not marked as handled, in
// no order. A message that nobody has tried to hand on has none.
func (e *Endpoint) Handlings(ctx context.Context) (list []Handling, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		stored, err := tx.Handlings()
		for _, h := range stored {
			list = append(list, handlingOf(h))
		}
		return err
	})
	return list, err
}

func handlingOf(h store.Handling) Handling {
	return Handling{
		MessageID: h.MessageID, From: h.Peer, Attempts: h.Attempts, Failures: h.Failures, Running: h.Running, StartedAt: h.StartedAt,
		LastExit: h.LastExit, LastError: h.LastError, NextAttemptAt: h.NextAttemptAt, GivenUp: h.GivenUp,
	}
}

// Waiting is a message that waits to be handed to a handler.
type Waiting struct{ MessageID, From, Type string }

// HandlerQueue is a position in the messages that wait for a handler. The zero
// value is before all of them.
type HandlerQueue struct {
	seq   int64
	again int64
}

// waitingPage bounds what one look at the queue returns.
const waitingPage = 1000

// Waiting returns the messages behind a position that are neither handled nor
// given up, oldest first, and moves the position behind them. There may be more
// when it returns any. When a message came back that was handled or given up
// before, it begins anew, and says so: what it returned earlier is then returned
// again.
func (e *Endpoint) Waiting(ctx context.Context, at *HandlerQueue) (list []Waiting, anew bool, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		again, err := tx.UnhandledAgain()
		if err != nil {
			return err
		}
		anew = at.seq != 0 && again != at.again
		if anew {
			at.seq = 0
		}
		at.again = again
		stored, err := tx.Unhandled(at.seq, waitingPage)
		for _, u := range stored {
			list = append(list, Waiting{u.MessageID, u.Peer, u.Type})
			at.seq = u.Seq
		}
		return err
	})
	return list, anew, err
}

// BeginHandling notes that an attempt at a message begins, before it does: an
// attempt that its process does not survive counts as begun, so that the handler
// of the next one can tell that it may not be the first. It reports with ok
// whether the attempt is to be made. It is not when the message is handled or
// given up, as one is that is damaged; then wait is 0. It is not yet when wait says
// how many seconds it is until it is due. Codes: lock_busy, storage_failed.
func (e *Endpoint) BeginHandling(ctx context.Context, from, messageID string) (m Message, h Handling, wait int64, ok bool, err error) {
	now, err := e.now()
	if err != nil {
		return m, h, 0, false, err
	}
	err = e.store.Update(ctx, func(tx *store.Tx) error {
		stored, found, err := unhandled(tx, from, messageID)
		if err != nil || !found {
			return err
		}
		row, err := tx.Handling(from, messageID)
		if err != nil || row.GivenUp {
			return err
		}
		if stored.Damaged != nil {
			row.GivenUp, row.LastError = true, "its body does not open"
			return tx.SetHandling(row)
		}
		if wait = untilDue(row, now); wait > 0 {
			return nil
		}
		name, err := tx.Name(from)
		if err != nil {
			return err
		}
		if m, err = messageOf(stored, name); err != nil {
			return err
		}
		row.Attempts++
		row.Running, row.StartedAt, row.NextAttemptAt = true, now, now
		h, ok = handlingOf(row), true
		return tx.SetHandling(row)
	})
	return m, h, wait, ok && err == nil, err
}

// untilDue returns the seconds until the next attempt. One that is farther away
// than the longest delay is due: the clock was set back.
func untilDue(row store.Handling, now int64) int64 {
	wait := row.NextAttemptAt - now
	if wait < 0 || wait > handlerDelayMost {
		return 0
	}
	return wait
}

// unhandled returns the message of a sender with an ID and whether there is one
// that is not handled.
func unhandled(tx *store.Tx, from, messageID string) (m store.Message, found bool, err error) {
	list, err := tx.MessagesWithPrefix(messageID, from, 1)
	if err != nil || len(list) == 0 || list[0].Handled {
		return m, false, err
	}
	return list[0], true, nil
}

// HandlerFailure is how an attempt failed.
type HandlerFailure struct {
	Exit     int    // status, 128 and the number for a signal
	Reason   string // in our words
	Attempts int    // failures after which the message is given up, 0 for never
}

// FailHandling notes that an attempt has failed, and when the next one is due: a
// second after the first failure, twice as long after each further one, five
// minutes at most.
func (e *Endpoint) FailHandling(ctx context.Context, from, messageID string, f HandlerFailure) (Handling, error) {
	return e.endHandling(ctx, from, messageID, func(row *store.Handling, now int64) {
		row.Failures++
		row.LastExit, row.LastError = f.Exit, f.Reason
		row.NextAttemptAt = now + handlerDelay(row.Failures)
		row.GivenUp = f.Attempts > 0 && row.Failures >= f.Attempts
	})
}

// InterruptHandling notes that an attempt was ended from outside, which says
// nothing of the message: the next one is due at once.
func (e *Endpoint) InterruptHandling(ctx context.Context, from, messageID string) (Handling, error) {
	return e.endHandling(ctx, from, messageID, func(*store.Handling, int64) {})
}

// endHandling changes the row of an attempt that has ended. A message that was
// marked as handled meanwhile stays so.
func (e *Endpoint) endHandling(ctx context.Context, from, messageID string, change func(*store.Handling, int64)) (h Handling, err error) {
	now, err := e.now()
	if err != nil {
		return h, err
	}
	err = e.store.Update(ctx, func(tx *store.Tx) error {
		_, found, err := unhandled(tx, from, messageID)
		if err != nil || !found {
			return err
		}
		row, err := tx.Handling(from, messageID)
		if err != nil {
			return err
		}
		row.Running = false
		change(&row, now)
		h = handlingOf(row)
		return tx.SetHandling(row)
	})
	return h, err
}

// handlerDelayMost is the longest time between two attempts, in seconds.
const handlerDelayMost = 300

// handlerDelay returns the seconds to the next attempt after so many failures.
func handlerDelay(failures int) int64 {
	return min(int64(1)<<min(max(failures-1, 0), 16), handlerDelayMost)
}

// UnmarkHandled takes away the mark of the message that from has sent with an ID,
// and forgets the attempts at it. Code: invalid_argument for an unknown one.
func (e *Endpoint) UnmarkHandled(ctx context.Context, from, messageID string) error {
	return e.store.Update(ctx, func(tx *store.Tx) error {
		found, err := tx.UnsetHandled(from, messageID)
		if err == nil && !found {
			err = fault.New(fault.InvalidArgument, "no message %.80q in the inbox", messageID)
		}
		return err
	})
}

// MarkAllHandled sets the mark of all messages of a peer, or with "" of everybody,
// and returns how many had none.
func (e *Endpoint) MarkAllHandled(ctx context.Context, from string) (n int64, err error) {
	err = e.store.Update(ctx, func(tx *store.Tx) error {
		n, err = tx.SetAllHandled(from)
		return err
	})
	return n, err
}

// LockHandlers takes the role of handing messages to handlers, which one process
// has at a time. Code: lock_busy, which names the holder.
func (e *Endpoint) LockHandlers() (release func() error, err error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	return e.store.LockHandlers(e.config.ReceiveBy, now)
}
