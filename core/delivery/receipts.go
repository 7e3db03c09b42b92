package delivery

import (
	"context"
	"slices"
)

// sending posts the receipts of a chunk, in order, beside the next chunk.
type sending struct {
	left   []*taken // of the chunk, those not waited for
	sent   chan error
	cancel context.CancelFunc
}

// startSending begins to post the receipts of entries that were committed. It
// ends at the first that fails for now: the entries from there on are fetched
// again. Who starts it stops it.
func (n *Node) startSending(ctx context.Context, entries []*taken) *sending {
	ctx, cancel := context.WithCancel(ctx)
	s := &sending{left: entries, sent: make(chan error, len(entries)), cancel: cancel}
	if !slices.ContainsFunc(entries, func(t *taken) bool { return t.receipt != nil }) {
		close(s.sent)
		return s
	}
	go func() {
		defer close(s.sent)
		for _, t := range entries {
			var err error
			if t.receipt != nil {
				err = receiptFailure(ctx, n.postReceipt(ctx, t.receipt))
			}
			s.sent <- err
			if err != nil {
				return
			}
		}
	}()
	return s
}

// next waits for the receipt of the next entry and returns that entry.
func (s *sending) next() (*taken, error) {
	t := s.left[0]
	s.left = s.left[1:]
	return t, <-s.sent
}

// stop ends the posting, and returns when it has ended.
func (s *sending) stop() {
	s.cancel()
	for range s.sent {
	}
}
