package delivery

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/wire"
)

// What the frozen cases of the rules ask for, for the tests alone.
var (
	TestOnlyRetryDelay = retryDelay
	TestOnlyPermitDue  = permitDue
)

// TestOnlySettle is ReceivePage with the outcome of each entry given.
func (n *Node) TestOnlySettle(ctx context.Context, ids []string, now int64, outcome func(id string) Outcome) (Page, error) {
	entries := make([]Entry, len(ids))
	for i, id := range ids {
		entries[i] = Entry{StreamID: id, Packet: wire.NewObject()}
	}
	return n.settle(ctx, entries, func() int64 { return now }, func(_ context.Context, e Entry, _ int64) (Result, error) {
		return Result{Outcome: outcome(e.StreamID)}, nil
	}, func(Result) {})
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
