package delivery

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/store"
)

// chunkSize bounds how many packets are processed in one transaction. It keeps
// other writers of the store waiting for about ten milliseconds.
const chunkSize = 64

// errAlone says that a packet needs the network, before anything of it was
// written. It is processed by itself, in transactions of its own.
var errAlone = errors.New("the packet needs the network")

// chunk is some entries of a page that one transaction has processed, in order
// and each with what the one before had changed.
type chunk struct {
	n     *Node
	known *known
	taken []*taken
	// barrier says that what follows may depend on what becomes of these entries
	// after the transaction.
	barrier bool
	alone   int // so many entries behind it are to be processed alone
}

// taken is an entry of a chunk.
type taken struct {
	in      *incoming
	entry   Entry
	receipt *outgoingReceipt // to be sent, nil for none
	answer  bool             // step 11 needs the network before it writes, or is no receipt
	retried bool             // earlier fetches of it ended in retry
}

// processChunk processes entries in one transaction. It ends before one that has
// to be processed alone, and behind one whose outcome holds up the rest. When
// the transaction fails, nothing is changed, and each goes alone: the failure
// is then that of one.
func (n *Node) processChunk(ctx context.Context, entries []Entry, clock func() int64) *chunk {
	c := &chunk{n: n}
	err := n.store.Update(ctx, func(tx *store.Tx) (err error) {
		if c.known, err = n.takeKnown(tx); err != nil {
			return err
		}
		for _, e := range entries {
			if err := c.take(ctx, tx, e, clock()); err != nil {
				return err
			}
			if c.barrier {
				break
			}
		}
		c.known.version, err = tx.Version()
		return err
	})
	if err != nil {
		return &chunk{n: n, barrier: true, alone: len(entries)}
	}
	c.known.seen.tx = nil
	n.last.Store(c.known)
	for _, t := range c.taken {
		t.in.tx, t.in.known = nil, nil
	}
	return c
}

// take is steps 1 to 10 for one entry, and what has to be stored before step 11.
func (c *chunk) take(ctx context.Context, tx *store.Tx, e Entry, now int64) error {
	c.known.at(now)
	in := &incoming{n: c.n, now: now, tx: tx, known: c.known}
	err := in.run(ctx, e.Packet)
	var s *stop
	switch {
	case errors.Is(err, errAlone):
		c.barrier, c.alone = true, 1
		return nil
	case err != nil && !errors.As(err, &s):
		return err
	}
	if err := in.conclude(ctx, err); err != nil {
		return err
	}
	t := &taken{in: in, entry: e}
	if t.retried, err = tx.Retried(e.StreamID); err != nil {
		return err
	}
	c.taken = append(c.taken, t)
	if in.changesPeer() {
		c.known.forget(in.packet.From)
	}
	return c.prepareAnswer(tx, t)
}

// prepareAnswer stores what step 11 needs stored. A descriptor that has to be
// refreshed first, and the reply to a contact request, are left for later.
func (c *chunk) prepareAnswer(tx *store.Tx, t *taken) error {
	in := t.in
	if !in.result.Outcome.Final() {
		c.barrier = true
		return nil
	}
	if in.replyDue() {
		t.answer, c.barrier = true, true
		return nil
	}
	body, due := in.receiptBody()
	if !due {
		return nil
	}
	p, err := in.loadPeer(tx)
	if err != nil {
		return err
	}
	if !p.usable(in.now) {
		t.answer, c.barrier = true, true
		return nil
	}
	t.receipt, err = c.n.prepareReceipt(tx, c.known.of(p.id), p, body, in.now)
	switch {
	case isTransient(err):
		return err
	case err != nil:
		t.receipt = nil // there is no route: no receipt is sent
		return noteUnsent(tx, p.id, body.MessageID, err, in.now)
	case t.receipt.renewal != nil:
		c.barrier = true // it counts as issued once it was sent
	}
	return nil
}
