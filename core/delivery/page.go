package delivery

import "context"

// settling is a page on its way.
type settling struct {
	n       *Node
	clock   func() int64
	receive receiver
	on      func(Result)

	page  Page
	ended bool // an entry is to be fetched again, and with it all behind it
}

// receiver processes one entry alone.
type receiver func(ctx context.Context, e Entry, now int64) (Result, error)

// run processes entries in stream order, in chunks. While one is in its
// transaction, the receipts of the one before are posted.
func (s *settling) run(ctx context.Context, entries []Entry) error {
	before := s.n.startSending(ctx, nil, false)
	defer func() { before.stop() }()
	for len(entries) > 0 {
		c := s.n.processChunk(ctx, entries[:min(chunkSize, len(entries))], s.clock)
		if err := s.settle(ctx, before); err != nil || s.ended {
			s.tellNews(c.taken)
			return err
		}
		before.stop()
		entries = entries[len(c.taken):]
		before = s.n.startSending(ctx, c.taken, len(entries) > 0 && !c.barrier)
		if !c.barrier {
			continue
		}
		if err := s.settle(ctx, before); err != nil || s.ended {
			return err
		}
		for _, e := range entries[:c.alone] {
			if err := s.alone(ctx, e); err != nil || s.ended {
				return err
			}
		}
		entries = entries[c.alone:]
	}
	return s.settle(ctx, before)
}

// settle waits for the receipts of a chunk and tells its results.
func (s *settling) settle(ctx context.Context, receipts *sending) error {
	for len(receipts.left) > 0 {
		t, failed := receipts.next()
		err := s.settleTaken(ctx, t, failed)
		if err == nil && s.ended && failed != nil {
			err = s.n.countFetchesBehind(ctx, t, receipts.left)
		}
		if err != nil || s.ended {
			s.tellNews(receipts.left)
			return err
		}
		if failed != nil { // the entry was given up: those behind it go on
			receipts.stop()
			*receipts = *s.n.startSending(ctx, receipts.left, false)
		}
	}
	return nil
}

// settleTaken is step 11 for an entry of a chunk, whose receipt was sent or has
// failed.
func (s *settling) settleTaken(ctx context.Context, t *taken, failed error) error {
	var err error
	if t.answer {
		err = t.in.answer(ctx)
	} else {
		err = t.in.answered(ctx, failed)
	}
	r := &t.in.result
	if err == nil && (t.retried || r.Outcome == Retry) {
		err = s.n.countFetch(ctx, t.entry, r, t.in.now)
	}
	return s.tell(t.entry, *r, err)
}

// alone processes an entry in transactions of its own.
func (s *settling) alone(ctx context.Context, e Entry) error {
	now := s.clock()
	r, err := s.receive(ctx, e, now)
	if err == nil {
		err = s.n.countFetch(ctx, e, &r, now)
	}
	return s.tell(e, r, err)
}

// tell tells a result, and moves the end of the prefix that may be acknowledged.
// What is durable is told also when the entry is to be fetched again.
func (s *settling) tell(e Entry, r Result, err error) error {
	s.on(r)
	if err != nil {
		return err
	}
	s.page.Last = r.Outcome
	if !r.Outcome.Final() {
		s.ended, s.page.Code, s.page.Unreceipted = true, r.Code, r.Unreceipted
		return nil
	}
	s.page.Through = e.StreamID
	return nil
}

// tellNews tells what durably came of entries that are fetched again because
// one before them is. Everything else about them is told then.
func (s *settling) tellNews(entries []*taken) {
	for _, t := range entries {
		r := t.in.result
		if r.Message != nil || r.Receipt != nil || r.Request != nil || r.Contact != nil {
			s.on(r)
		}
	}
}
