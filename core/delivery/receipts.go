package delivery

import "context"

// sending posts the receipts of a chunk, in order.
type sending struct {
	n    *Node
	ctx  context.Context
	left []*taken // of the chunk, those not waited for

	sent   chan error // nil: each is posted when it is waited for
	cancel context.CancelFunc
}

// startSending makes the sending of a chunk that was committed. When another
// chunk follows, the receipts are posted beside it, until the first that fails
// for now: the entries from there on are fetched again. Who starts it stops it.
func (n *Node) startSending(ctx context.Context, entries []*taken, beside bool) *sending {
	s := &sending{n: n, ctx: ctx, left: entries, cancel: func() {}}
	if beside {
		s.ctx, s.cancel = context.WithCancel(ctx)
		s.sent = make(chan error, len(entries))
		go s.post(entries)
	}
	return s
}

func (s *sending) post(entries []*taken) {
	defer close(s.sent)
	for _, t := range entries {
		err := s.postOne(t)
		s.sent <- err
		if err != nil {
			return
		}
	}
}

func (s *sending) postOne(t *taken) error {
	if t.receipt == nil {
		return nil
	}
	return receiptFailure(s.ctx, s.n.postReceipt(s.ctx, t.receipt))
}

// next waits for the receipt of the next entry and returns that entry.
func (s *sending) next() (*taken, error) {
	t := s.left[0]
	s.left = s.left[1:]
	if s.sent == nil {
		return t, s.postOne(t)
	}
	return t, <-s.sent
}

// stop ends the posting, and returns when it has ended.
func (s *sending) stop() {
	s.cancel()
	if s.sent == nil {
		return
	}
	for range s.sent {
	}
}
