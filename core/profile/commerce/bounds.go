package commerce

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
)

// The bounds and the retention of commerce#bounds-and-retention.
const (
	maxOpenThreads = 1000 // per peer

	// maxHistory bounds a history. Only counter-offers can make one long, so they
	// alone are refused, and a thread that is full still comes to its end.
	maxHistory = 1000

	retentionSeconds = 2_592_000
)

// checkBounds refuses a message that a bound has no room for. Nothing is ever
// discarded to make room.
func checkBounds(threads profile.Threads, t profile.Thread, peer, messageType string) error {
	switch {
	case messageType == Offer && t.Length >= maxHistory:
		return fault.New(LimitExceeded, "the thread has %d messages", t.Length)
	case messageType != RFQ:
		return nil
	}
	open, err := threads.CountOpen(peer)
	if err == nil && open >= maxOpenThreads {
		err = fault.New(LimitExceeded, "%d threads with the peer are open", open)
	}
	return err
}

// DeletableBefore returns the time before which the head of a thread has to be
// for the thread to be deleted: a thread in a final state, or one in which the
// local agent has sent nothing. Any other is kept.
func DeletableBefore(now int64) int64 { return now - retentionSeconds }
