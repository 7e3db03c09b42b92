package core

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// OutMessage is a message to send.
type OutMessage struct {
	To        string // ACE ID
	Type      string // "": ace:text:1
	ThreadID  string
	Body      wire.Value
	RequestID string // local idempotency key: the same key to the same peer returns the first entry, which has to say the same
}

// The states of a message: of an [Outgoing] one, and of one that has come.
// Nothing is called sent before its receipt has come.
const (
	StatePendingApproval = "pending_approval" // held for the owner: nothing of it has left
	StateQueued          = "queued"           // no relay has taken it yet
	StateRelayed         = "relayed"          // a relay queued it for the peer
	StateDelivered       = "delivered"        // the peer's receipt says so
	StateRejected        = "rejected"         // the peer's receipt says so, or with a Reason the owner
	StateExpired         = "expired"          // retries ended without a receipt; the outcome is unknown
	StateAbandoned       = "abandoned"        // the same, by the owner's will

	StateReceived    = "received"    // in the inbox
	StateQuarantined = "quarantined" // set aside by the policy
)

// Outgoing is one entry of the Outbox.
type Outgoing struct {
	MessageID     string
	To            string
	PeerName      string
	Type          string
	ThreadID      string
	Body          wire.Value // null when it is damaged
	RequestID     string
	State         string
	Reason        string // of this host for the state, one of delivery's, "" for none
	Attempts      int
	Relay         string // that took it last
	HeldAt        int64  // when it was written that had to wait for its owner, 0 for any other
	HeldUntil     int64  // when it is rejected unless its owner has decided, 0 for any other
	QueuedAt      int64  // when it was written or, after an approval, approved
	NextAttemptAt int64  // 0 when settled or held
	ExpiresAt     int64  // 0 before the first attempt
	SettledAt     int64  // 0 before
	RemoteCode    string
	LastError     string // code of the last attempt, "" when it succeeded
	Damaged       bool   // the stored content does not open: no attempt of it can succeed
}

// Enqueue stores a message durably, due at once (06#outbox-sender), or held for
// the owner when the policy asks him. Codes: unknown_peer, not_permitted,
// invalid_argument, unsupported_schema, invalid_body, thread_busy, those of
// profile rules, and transient ones.
func (e *Endpoint) Enqueue(ctx context.Context, m OutMessage) (Outgoing, error) {
	now, err := e.now()
	if err != nil {
		return Outgoing{}, err
	}
	if m.Type == "" {
		m.Type = profile.TextType
	}
	entry, err := e.node.Enqueue(ctx, delivery.Message(m), now)
	if err != nil {
		return Outgoing{}, err
	}
	return e.viewOutgoing(ctx, entry)
}

// Attempt makes one attempt now. The error is that of the attempt; the entry
// stays queued. Codes: invalid_argument for an unknown message, lock_busy while
// another process makes an attempt, not_permitted without a valid permit of the
// peer, and those of lookups and relays.
func (e *Endpoint) Attempt(ctx context.Context, messageID string) (Outgoing, error) {
	now, err := e.now()
	if err != nil {
		return Outgoing{}, err
	}
	if err := e.refreshBeforeMessage(ctx, messageID, now); err != nil {
		return Outgoing{}, err
	}
	entry, failure := e.node.Attempt(ctx, messageID, now)
	return e.attempted(ctx, entry, failure)
}

// AttemptDue is Attempt for a message that is due, or was only queued. Any other is
// returned as it is: another process has made the attempt meanwhile.
func (e *Endpoint) AttemptDue(ctx context.Context, messageID string) (Outgoing, error) {
	now, err := e.now()
	if err != nil {
		return Outgoing{}, err
	}
	if err := e.refreshBeforeMessage(ctx, messageID, now); err != nil {
		return Outgoing{}, err
	}
	entry, _, failure := e.node.AttemptDue(ctx, messageID, now)
	return e.attempted(ctx, entry, failure)
}

func (e *Endpoint) attempted(ctx context.Context, entry store.OutboxEntry, failure error) (Outgoing, error) {
	if entry.MessageID == "" {
		return Outgoing{}, failure
	}
	out, err := e.viewOutgoing(context.WithoutCancel(ctx), entry)
	if failure == nil {
		failure = err
	}
	return out, failure
}

// Abandon stops the attempts of a message that has no outcome yet: it is
// abandoned, which says nothing about whether the peer got it
// (06#outbox-sender). One that is held for the owner is denied. Any other is
// returned as it is. Code: invalid_argument for
// an unknown message.
func (e *Endpoint) Abandon(ctx context.Context, messageID string) (Outgoing, error) {
	now, err := e.now()
	if err != nil {
		return Outgoing{}, err
	}
	entry, err := e.node.Abandon(ctx, messageID, now)
	if err != nil {
		return Outgoing{}, err
	}
	return e.viewOutgoing(ctx, entry)
}

// RetryDue ends what is over, makes every attempt that is due and returns how many
// a relay accepted. What an attempt fails with is kept in its entry.
func (e *Endpoint) RetryDue(ctx context.Context) (accepted int, err error) {
	now, err := e.now()
	if err != nil {
		return 0, err
	}
	return e.retryDue(ctx, now)
}

func (e *Endpoint) retryDue(ctx context.Context, now int64) (accepted int, err error) {
	if err := e.node.ExpireDue(ctx, now); err != nil {
		return 0, err
	}
	var due []store.OutboxEntry
	err = e.store.View(ctx, func(tx *store.Tx) (err error) {
		due, err = tx.OutboxPending(now)
		return err
	})
	if err != nil {
		return 0, err
	}
	return e.attemptAll(ctx, due, now)
}

// attemptAll attempts entries, those to one peer in their order. By a slow route it
// makes one attempt: the others are still due then.
func (e *Endpoint) attemptAll(ctx context.Context, entries []store.OutboxEntry, now int64) (accepted int, err error) {
	var peers []string
	to := map[string][]store.OutboxEntry{}
	for _, entry := range entries {
		if to[entry.Peer] == nil {
			peers = append(peers, entry.Peer)
		}
		to[entry.Peer] = append(to[entry.Peer], entry)
	}
	var taken atomic.Int64
	err = e.eachPeerInReach(ctx, peers, func(ctx context.Context, peer string) (slow bool, err error) {
		n, slow, err := e.attemptTo(ctx, peer, to[peer], now)
		taken.Add(n)
		return slow, err
	})
	return int(taken.Load()), err
}

// attemptTo attempts the entries for one peer.
func (e *Endpoint) attemptTo(ctx context.Context, peer string, entries []store.OutboxEntry, now int64) (accepted int64, slow bool, err error) {
	slow = e.timed(func() { e.refreshBefore(ctx, peer, now) })
	for _, entry := range entries {
		var taken bool
		slow = e.timed(func() { _, taken, err = e.node.AttemptDue(ctx, entry.MessageID, now) }) || slow
		switch {
		case ctx.Err() != nil:
			return accepted, slow, ctx.Err()
		case errors.Is(err, store.ErrDamaged): // it is that entry alone
		case errors.Is(err, fault.StorageFailed):
			return accepted, slow, err
		case taken:
			accepted++
		}
		if slow {
			break
		}
	}
	return accepted, slow, nil
}

// PruneOutbox removes the messages whose outcome is at least age seconds old,
// and returns how many there were. Upkeep removes them after 30 days. Code:
// invalid_argument for an age below OFFLINE_WINDOW_SECONDS, 7 days.
func (e *Endpoint) PruneOutbox(ctx context.Context, age int64) (removed int64, err error) {
	now, err := e.now()
	if err != nil {
		return 0, err
	}
	return e.node.PruneSettled(ctx, age, now)
}

// Outbox returns all entries, oldest first.
func (e *Endpoint) Outbox(ctx context.Context) (list []Outgoing, err error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	if err := e.node.ExpireDue(ctx, now); err != nil {
		return nil, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		entries, err := tx.OutboxEntries()
		if err != nil {
			return err
		}
		names, err := tx.Names()
		if err != nil {
			return err
		}
		for _, entry := range entries {
			out, err := outgoingOf(entry, names[entry.Peer])
			if err != nil {
				return err
			}
			list = append(list, out)
		}
		return nil
	})
	return list, err
}

// OutboxEntry returns one entry. Code: invalid_argument for an unknown message.
func (e *Endpoint) OutboxEntry(ctx context.Context, messageID string) (Outgoing, error) {
	now, err := e.now()
	if err != nil {
		return Outgoing{}, err
	}
	if err := e.node.ExpireDue(ctx, now); err != nil {
		return Outgoing{}, err
	}
	return e.ViewOutgoing(ctx, messageID)
}

func (e *Endpoint) viewOutgoing(ctx context.Context, entry store.OutboxEntry) (out Outgoing, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		name, err := tx.Name(entry.Peer)
		if err != nil {
			return err
		}
		out, err = outgoingOf(entry, name)
		return err
	})
	return out, err
}

func outgoingOf(entry store.OutboxEntry, name string) (Outgoing, error) {
	content, err := delivery.StoredContent(entry)
	if err != nil && entry.Damaged == nil {
		return Outgoing{}, err
	}
	out := Outgoing{
		MessageID: entry.MessageID, To: entry.Peer, PeerName: name, Type: entry.Type, ThreadID: entry.ThreadID,
		Body: content.Body, RequestID: entry.RequestID, State: stateOf(entry), Reason: entry.Reason, Attempts: entry.Attempts, Relay: entry.Relay,
		HeldAt: entry.HeldAt, HeldUntil: entry.HeldUntil, QueuedAt: entry.CreatedAt, ExpiresAt: delivery.ExpiresAt(entry), SettledAt: entry.SettledAt,
		RemoteCode: entry.RemoteCode, LastError: entry.LastError, Damaged: entry.Damaged != nil,
	}
	if entry.State == store.Pending {
		out.NextAttemptAt = entry.NextAttemptAt
	}
	return out, nil
}

func stateOf(entry store.OutboxEntry) string {
	switch {
	case entry.State == store.Pending && entry.Relay == "":
		return StateQueued
	case entry.State == store.Pending:
		return StateRelayed
	case entry.State == store.Expired && entry.Abandoned:
		return StateAbandoned
	}
	return entry.State
}
