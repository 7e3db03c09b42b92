package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/store"
)

// BlockDecision is what was decided about a peer, and what the home relay makes
// of it.
type BlockDecision struct {
	ACEID, Name string
	Blocked     bool
	Revision    int64
	Confirmed   bool // the relay has registered it
	Superseded  bool // the relay holds a later decision instead
}

// Block blocks a peer: its packets are dropped here from now on, and refused by
// the home relay once that has registered the decision (05#blocks). The decision
// stands when its ACEID is set, also beside an error, which is the relay's then:
// upkeep registers it. Codes: invalid_argument, and those of 07#client-rules.
func (e *Endpoint) Block(ctx context.Context, aceID string) (BlockDecision, error) {
	return e.decideBlock(ctx, aceID, e.node.Block)
}

// Unblock lifts a block: the peer is a stranger then, whom a permit that it still
// holds admits again (05#blocks). The result is as that of Block.
func (e *Endpoint) Unblock(ctx context.Context, aceID string) (BlockDecision, error) {
	return e.decideBlock(ctx, aceID, e.node.Unblock)
}

func (e *Endpoint) decideBlock(ctx context.Context, aceID string, decide func(context.Context, string, int64) (store.Block, error)) (BlockDecision, error) {
	now, err := e.now()
	if err != nil {
		return BlockDecision{}, err
	}
	b, err := decide(ctx, aceID, now)
	if err != nil {
		return BlockDecision{}, err
	}
	return e.registerDecision(ctx, b, now)
}

func (e *Endpoint) registerDecision(ctx context.Context, b store.Block, now int64) (BlockDecision, error) {
	b, failure := e.registerBlock(ctx, b, now)
	d := BlockDecision{
		ACEID: b.Peer, Blocked: b.Blocked, Revision: b.Revision,
		Confirmed: e.settled(b) && !b.Superseded, Superseded: b.Superseded,
	}
	err := e.store.View(context.WithoutCancel(ctx), func(tx *store.Tx) (err error) {
		d.Name, err = tx.Name(b.Peer)
		return err
	})
	if failure == nil {
		failure = err
	}
	return d, failure
}

func (e *Endpoint) settled(b store.Block) bool {
	return e.config.Relay != "" && b.Settled == e.config.Relay
}

// registerBlock registers a decision at the home relay (07#blocks), with the
// revision it has, and returns it as it stands then.
//
// A relay that answers stale_revision holds a later decision, unless the same
// one was handed to it before: then its first answer was lost.
func (e *Endpoint) registerBlock(ctx context.Context, b store.Block, now int64) (store.Block, error) {
	relay := e.config.Relay
	if relay == "" {
		return b, fault.New(fault.InvalidArgument, "there is no relay to register the block at")
	}
	again := b.Posted == relay
	b.Posted = relay
	if err := e.saveBlock(ctx, b); err != nil {
		return b, err
	}
	err := e.onceRegistered(ctx, now, func() error {
		return e.client.Block(ctx, relay, relayapi.Block{Peer: b.Peer, Blocked: b.Blocked, Revision: b.Revision}, now)
	})
	stale := remoteError(err) == string(relayapi.StaleRevision)
	if err != nil && !stale {
		return b, err
	}
	b.Settled, b.Superseded = relay, stale && !again
	return b, e.saveBlock(context.WithoutCancel(ctx), b)
}

// saveBlock notes what became of a decision, unless another one was made since.
func (e *Endpoint) saveBlock(ctx context.Context, b store.Block) error {
	return e.store.Update(ctx, func(tx *store.Tx) error {
		current, _, err := tx.Block(b.Peer)
		if err != nil || current.Revision != b.Revision {
			return err
		}
		return tx.SetBlock(b)
	})
}

func (e *Endpoint) unsettledBlocks(ctx context.Context) (due []store.Block, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		due, err = tx.UnsettledBlocks(e.config.Relay)
		return err
	})
	return due, err
}
