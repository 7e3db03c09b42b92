package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
)

// CheckPolicy checks that each peer whom the policy names is known here: a rule
// about somebody else could not be followed. Codes: invalid_argument with a
// [*policy.UnknownPeer], storage_failed.
func (e *Endpoint) CheckPolicy(ctx context.Context) error { return e.node.CheckPolicy(ctx) }

// MaySend fails as [Endpoint.Enqueue] does when the policy denies a type of message
// to a peer. Codes: not_permitted with a [*policy.Denied], invalid_argument.
func (e *Endpoint) MaySend(ctx context.Context, to, messageType string) error {
	if messageType == "" {
		messageType = profile.TextType
	}
	return e.node.MaySend(ctx, to, messageType)
}

// Requested returns the message that was made for a peer with an idempotency key,
// and whether there is one.
func (e *Endpoint) Requested(ctx context.Context, to, requestID string) (out Outgoing, ok bool, err error) {
	var entry store.OutboxEntry
	err = e.store.View(ctx, func(tx *store.Tx) error {
		entry, ok, err = tx.OutboxByRequest(to, requestID)
		return err
	})
	if err != nil || !ok {
		return Outgoing{}, false, err
	}
	out, err = e.viewOutgoing(ctx, entry)
	return out, err == nil, err
}

// Approve lets a message go that is held for its owner: it is queued, as of now,
// behind the others to its peer. What is asked of a message that is enqueued is
// asked now, and a failure leaves it held. Codes: invalid_argument for a message
// that waits for no approval, and those of [Endpoint.Enqueue].
func (e *Endpoint) Approve(ctx context.Context, messageID string) (Outgoing, error) {
	return e.decide(ctx, messageID, e.node.Approve)
}

// Deny ends a message that is held for its owner: it is rejected, and nothing of
// it ever left. Code: invalid_argument for a message that waits for no approval.
func (e *Endpoint) Deny(ctx context.Context, messageID string) (Outgoing, error) {
	return e.decide(ctx, messageID, e.node.Deny)
}

func (e *Endpoint) decide(ctx context.Context, messageID string, decide func(context.Context, string, int64) (store.OutboxEntry, error)) (Outgoing, error) {
	now, err := e.now()
	if err != nil {
		return Outgoing{}, err
	}
	entry, err := decide(ctx, messageID, now)
	if err != nil {
		return Outgoing{}, err
	}
	return e.viewOutgoing(ctx, entry)
}
