package delivery

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// What the frozen cases of the rules ask for, for the tests alone.
var (
	TestOnlyRetryDelay = retryDelay
	TestOnlyPermitDue  = permitDue
)

// TestOnlySeenCapacity returns C of the node's seen store.
func (n *Node) TestOnlySeenCapacity() int64 { return n.seen.Capacity }

// TestOnlySeenTx is the seen store in one transaction.
type TestOnlySeenTx struct{ tx *seenTx }

// TestOnlyIn returns the seen store in tx.
func (s SeenStore) TestOnlyIn(tx *store.Tx) TestOnlySeenTx { return TestOnlySeenTx{s.in(tx)} }

// Judge and Commit are those of a transaction.
func (s TestOnlySeenTx) Judge(e store.Seen) (Verdict, error)  { return s.tx.judge(e) }
func (s TestOnlySeenTx) Commit(e store.Seen, now int64) error { return s.tx.commit(e, now) }

// TestOnlySettle is ReceivePage with the outcome of each entry given.
func (n *Node) TestOnlySettle(ctx context.Context, ids []string, now int64, outcome func(id string) Outcome) (Page, error) {
	s := &settling{n: n, clock: func() int64 { return now }, on: func(Result) {}}
	s.receive = func(_ context.Context, e Entry, _ int64) (Result, error) {
		return Result{Outcome: outcome(e.StreamID)}, nil
	}
	for _, id := range ids {
		if err := s.alone(ctx, Entry{StreamID: id, Packet: wire.NewObject()}); err != nil || s.ended {
			return s.page, err
		}
	}
	return s.page, nil
}

// TestOnlyReceiveCandidate takes a stranger's packet through the pipeline, and
// lets something happen behind step 2.
func (n *Node) TestOnlyReceiveCandidate(ctx context.Context, raw wire.Value, now int64, meanwhile func()) (Result, error) {
	in := &incoming{n: n, now: now}
	if err := errors.Join(in.decode(raw), in.loadSender(ctx)); err != nil {
		return Result{}, err
	}
	meanwhile()
	return in.finish(ctx, in.receiveCandidate(ctx))
}

// TestOnlyAttemptAhead makes the first attempt of a message for another one.
func (n *Node) TestOnlyAttemptAhead(ctx context.Context, messageID string, now int64) error {
	return n.attemptAhead(ctx, messageID, now)
}

// TestOnlyKELs is the node's memory of verified logs.
func (n *Node) TestOnlyKELs() *kel.Cache { return n.verify.KELs }
