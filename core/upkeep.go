package core

import (
	"context"
	"sync"

	"github.com/ace-toolkit/ace/core/store"
)

// The steps of upkeep, by which an [UpkeepFailure] names them.
const (
	UpkeepRegistration = "registration"
	UpkeepDescriptor   = "descriptor"
	UpkeepCard         = "card"
	UpkeepBlock        = "block"
	UpkeepPermit       = "permit"
	UpkeepOutbox       = "outbox"
	UpkeepPrune        = "prune"
)

// UpkeepReport is what one pass of upkeep did.
type UpkeepReport struct {
	Published Published
	Blocks    int   // decisions that the relay answered for good
	Permits   int   // permit refreshes sent
	Relayed   int   // queued messages that a relay took
	Pruned    int64 // rows removed whose time was over
	KeyEnds   int64 // when the signing key ends, which only its owner can replace; 0: never
	Withdrawn bool  // the owner has unregistered the identity: nothing was published
	Failures  []UpkeepFailure
}

// UpkeepFailure is a step that failed. The next upkeep tries it again.
type UpkeepFailure struct {
	Step string
	Peer string // ACE ID of whom it was about, "" for nobody
	Err  error
}

// upkeep is one pass.
type upkeep struct {
	publication
	report UpkeepReport
}

// Upkeep does once what an endpoint does on start and at least every 3600 seconds
// (05#delivery-permits, Upkeep): it registers and publishes where that is due,
// registers block decisions that the relay has not confirmed, sends permit
// refreshes after a new delegation, makes the attempts of the Outbox that are
// due, and removes what has ended. For an identity that its owner has unregistered
// it leaves out all that needs a registration. No step keeps the next from being made; what
// failed is in the report. The error is the end of ctx, a clock that cannot be
// read, or storage_failed for a store that cannot be.
func (e *Endpoint) Upkeep(ctx context.Context) (UpkeepReport, error) {
	now, err := e.now()
	if err != nil {
		return UpkeepReport{}, err
	}
	u := &upkeep{publication: publication{Endpoint: e, now: now, done: Published{Relay: e.config.Relay, Handle: e.handle()}}}
	if u.report.Withdrawn, err = e.Withdrawn(ctx); err != nil {
		return u.finish(), err
	}
	for _, step := range []struct {
		name       string
		registered bool // it needs a registration
		do         func(context.Context) error
	}{
		{UpkeepRegistration, true, u.registerOnDemand},
		{UpkeepDescriptor, true, u.publishDescriptor},
		{UpkeepCard, true, u.publishCard},
		{UpkeepBlock, true, u.registerBlocks},
		{UpkeepPermit, true, u.refreshPermits}, // behind the descriptor, which the requests carry
		{UpkeepOutbox, false, u.attemptDue},
		{UpkeepPrune, false, u.prune},
	} {
		if step.registered && u.report.Withdrawn {
			continue
		}
		err := step.do(ctx)
		if ctx.Err() != nil {
			return u.finish(), ctx.Err()
		}
		u.failed(step.name, "", err)
	}
	return u.finish(), nil
}

func (u *upkeep) finish() UpkeepReport {
	u.report.Published = u.done
	if d := u.config.Identity.State().Delegated(); d != nil {
		u.report.KeyEnds = d.NotAfter
	}
	return u.report
}

func (u *upkeep) failed(step, peer string, err error) {
	if err != nil {
		u.report.Failures = append(u.report.Failures, UpkeepFailure{Step: step, Peer: peer, Err: err})
	}
}

func (u *upkeep) registerBlocks(ctx context.Context) error {
	due, err := u.unsettledBlocks(ctx)
	for _, b := range due {
		_, err := u.registerBlock(ctx, b, u.now)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			u.report.Blocks++
		}
		u.failed(UpkeepBlock, b.Peer, err)
	}
	return err
}

func (u *upkeep) refreshPermits(ctx context.Context) error {
	due, err := u.node.PermitsDue(ctx, u.now)
	if err == nil && len(due) > 0 {
		err = u.node.CheckOwnDescriptor(ctx, u.now) // else each of them would fail
	}
	if err != nil {
		return err
	}
	peers := make([]string, len(due))
	for i, row := range due {
		peers[i] = row.Peer
	}
	var mu sync.Mutex // of the report
	return u.eachPeerInReach(ctx, peers, func(ctx context.Context, peer string) (slow bool, err error) {
		slow = u.timed(func() { err = u.refreshPermit(ctx, peer, u.now) })
		if ctx.Err() != nil {
			return slow, ctx.Err()
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			u.report.Permits++
		}
		u.failed(UpkeepPermit, peer, err)
		return slow, nil
	})
}

// refreshPermit sends an admitted peer a request with a fresh permit.
func (e *Endpoint) refreshPermit(ctx context.Context, aceID string, now int64) error {
	request, err := e.contactRequest(ctx, aceID, now)
	if err != nil {
		return err
	}
	_, err = e.node.SendRequest(ctx, request, now)
	return err
}

// refreshBefore sends a peer its permit refresh, when one is due, ahead of the
// first message that is signed with the new key. Behind such messages the peer
// could receipt none of them before it has come: the permit it holds is void, and
// without one a closed relay queue takes nothing and an open one a few packets.
// What fails is the next upkeep's to repeat.
func (e *Endpoint) refreshBefore(ctx context.Context, peer string, now int64) {
	if due, err := e.node.PermitDue(ctx, peer, now); err == nil && due {
		_ = e.refreshPermit(ctx, peer, now)
	}
}

func (e *Endpoint) refreshBeforeMessage(ctx context.Context, messageID string, now int64) error {
	var entry store.OutboxEntry
	err := e.store.View(ctx, func(tx *store.Tx) (err error) {
		entry, _, err = tx.Outbox(messageID)
		return err
	})
	if err == nil && entry.State == store.Pending {
		e.refreshBefore(ctx, entry.Peer, now)
	}
	return err
}

func (u *upkeep) attemptDue(ctx context.Context) (err error) {
	u.report.Relayed, err = u.retryDue(ctx, u.now)
	return err
}

func (u *upkeep) prune(ctx context.Context) (err error) {
	if u.report.Pruned, err = u.node.Prune(ctx, u.now); err != nil {
		return err
	}
	if err := u.pruneThreads(ctx, u.now); err != nil {
		return err
	}
	return u.store.Scrub(ctx)
}
