package delivery

import (
	"bytes"
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// The retry schedule of 06#outbox-sender, in seconds.
const (
	firstDelay = 60
	maxDelay   = 3600
)

// Message is a message to send.
type Message struct {
	To        string // ACE ID
	Type      string
	ThreadID  string // "" for none
	Body      wire.Value
	RequestID string // local idempotency key, "" for none
}

// Enqueue stores a message in the Outbox, due at once (06#outbox-sender), or
// holds it for the owner when the policy asks. The same RequestID to the same peer
// returns the first entry, whatever the policy says by now. Codes:
// invalid_argument, also for a RequestID of another message or a policy that
// cannot be followed, unsupported_schema (the type is not installed),
// invalid_body, not_permitted when the policy denies it ([policy.Denied]),
// unknown_peer or a transient code when no descriptor is held and none can be
// resolved, not_permitted without a valid permit of the peer, thread_busy, and
// those of the profile rule for the type, in this order.
func (n *Node) Enqueue(ctx context.Context, m Message, now int64) (store.OutboxEntry, error) {
	content, err := n.content(m)
	if err != nil {
		return store.OutboxEntry{}, err
	}
	entry := store.OutboxEntry{
		MessageID: suite.NewMessageID(), Peer: m.To, Content: content, Type: m.Type, ThreadID: m.ThreadID,
		RequestID: m.RequestID, CreatedAt: now, State: store.Pending, NextAttemptAt: now,
	}
	var settled store.OutboxEntry // known without a descriptor
	err = n.store.View(ctx, func(tx *store.Tx) (err error) {
		settled, _, err = n.judgeEntry(tx, entry, now)
		return err
	})
	if err != nil || settled.MessageID != entry.MessageID {
		return settled, err
	}
	if err := n.ensureDescribed(ctx, m.To, now); err != nil {
		return store.OutboxEntry{}, err
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		judged, isNew, err := n.judgeEntry(tx, entry, now)
		if err == nil && isNew {
			err = n.enqueue(tx, judged, m.Body, now)
		}
		settled = judged
		return err
	})
	if err != nil {
		return store.OutboxEntry{}, err
	}
	return settled, nil
}

// judgeEntry returns the entry that was made with the same RequestID before, or
// the given one as the policy lets it be stored.
func (n *Node) judgeEntry(tx *store.Tx, entry store.OutboxEntry, now int64) (_ store.OutboxEntry, isNew bool, err error) {
	earlier, ok, err := tx.OutboxByRequest(entry.Peer, entry.RequestID)
	switch {
	case err != nil:
		return store.OutboxEntry{}, false, err
	case ok && earlier.Damaged != nil: // what it says is not known
		return store.OutboxEntry{}, false, earlier.Damaged
	case ok && !bytes.Equal(earlier.Content, entry.Content):
		return store.OutboxEntry{}, false, fault.New(fault.InvalidArgument,
			"the request ID %.80q is that of message %s, which says something else", entry.RequestID, earlier.MessageID)
	case ok:
		return earlier, false, nil
	}
	entry, err = n.underPolicy(tx, entry, now)
	return entry, err == nil, err
}

// ensureDescribed looks a peer up of which no descriptor is held: an expired or
// stale one is enough to enqueue (06#outbox-sender).
func (n *Node) ensureDescribed(ctx context.Context, id string, now int64) error {
	p, err := n.viewPeer(ctx, id, now)
	if err == nil && p.agent == nil {
		_, err = n.Lookup(ctx, id, now)
	}
	return err
}

func (n *Node) enqueue(tx *store.Tx, entry store.OutboxEntry, body wire.Value, now int64) error {
	if err := n.mayEnqueue(tx, entry, body, now); err != nil {
		return err
	}
	if entry.State == store.PendingApproval {
		if err := noteMessage(tx, audit.ApprovalHeld, entry.Peer, entry.MessageID, now); err != nil {
			return err
		}
	}
	return tx.AddOutbox(entry)
}

// mayEnqueue is what 06#outbox-sender and 08#sender-state-and-busy-threads ask
// before a message is in the Outbox, also of one that its owner has let go.
func (n *Node) mayEnqueue(tx *store.Tx, entry store.OutboxEntry, body wire.Value, now int64) error {
	p, err := n.loadPeer(tx, entry.Peer, now)
	if err != nil {
		return err
	}
	permit, err := n.heldPermit(tx, p, now)
	if err != nil {
		return err
	}
	if permit == nil {
		return fault.New(fault.NotPermitted, "no valid delivery permit from %s is held", entry.Peer)
	}
	return n.checkSend(tx, entry, body, now)
}

// content checks a message and returns its private content as it is stored:
// canonical, without the members that each attempt adds.
func (n *Node) content(m Message) ([]byte, error) {
	if !wire.IsACEID(m.To) || m.To == n.id.ACEID() {
		return nil, fault.New(fault.InvalidArgument, "recipient %.80q is not the ACE ID of another agent", m.To)
	}
	message, ok := n.profiles.Type(m.Type)
	if !ok {
		return nil, fault.New(fault.UnsupportedSchema, "message type %.80q is not installed", m.Type)
	}
	if isCore(m.Type) {
		return nil, fault.New(fault.InvalidArgument, "%s never goes through the outbox", m.Type)
	}
	if err := message.Schema.Match(m.Body); err != nil {
		return nil, fault.Wrapf(fault.InvalidBody, err, "body")
	}
	if m.ThreadID != "" && !wire.IsThreadID(m.ThreadID) {
		return nil, fault.New(fault.InvalidArgument, "thread ID %.80q is malformed", m.ThreadID)
	}
	c := packet.Content{Type: m.Type, SchemaDigest: message.Digest, ThreadID: m.ThreadID, Body: m.Body, Prekey: make([]byte, wire.PrekeyBytes)}
	if _, err := c.Canonical(); err != nil {
		return nil, err
	}
	return c.Value().Without("prekey").Canonical(), nil
}

// StoredContent reads the content of an entry back. Code: storage_failed.
func StoredContent(e store.OutboxEntry) (packet.Content, error) {
	if e.Damaged != nil {
		return packet.Content{}, e.Damaged
	}
	v, err := wire.Parse(e.Content, wire.MaxJSONDepth)
	if err != nil {
		return packet.Content{}, fault.Wrapf(fault.StorageFailed, err, "outbox entry %s", e.MessageID)
	}
	// The prekey stands for the one that the attempt adds.
	placeholder := wire.NewString(wire.EncodeBase64(make([]byte, wire.PrekeyBytes)))
	c, err := packet.ParseContentValue(v.With("prekey", placeholder))
	if err != nil {
		return packet.Content{}, fault.Wrapf(fault.StorageFailed, err, "outbox entry %s", e.MessageID)
	}
	return *c, nil
}

// retryDelay is the delay after attempt n, min(60 · 2^(n-1), 3600) seconds.
func retryDelay(n int) int64 {
	delay := int64(firstDelay)
	for ; n > 1 && delay < maxDelay; n-- {
		delay *= 2
	}
	return min(delay, maxDelay)
}

// nextDelay is the delay after attempt n, and at least what a relay asked for
// that refused it for now (07#errors).
func nextDelay(n int, failure error) int64 {
	var f *fault.Error
	if errors.As(failure, &f) && f.Code.Retryable() {
		return max(retryDelay(n), min(f.RetryAfter, wire.OfflineWindowSeconds))
	}
	return retryDelay(n)
}

// ExpiresAt is when retries of an entry end, OFFLINE_WINDOW_SECONDS after its
// first attempt, 0 before that.
func ExpiresAt(e store.OutboxEntry) int64 {
	if e.Attempts == 0 {
		return 0
	}
	return e.FirstAttemptAt + wire.OfflineWindowSeconds
}

// expire ends an entry whose time is over at now, and reports whether it did.
func expire(e *store.OutboxEntry, now int64) bool {
	if e.State != store.Pending || e.Attempts == 0 || now < ExpiresAt(*e) {
		return false
	}
	e.State, e.SettledAt = store.Expired, ExpiresAt(*e)
	return true
}

// MayDelete reports whether an entry may be deleted at now: a delivered or
// rejected one at any time, an expired one OFFLINE_WINDOW_SECONDS later.
func MayDelete(e store.OutboxEntry, now int64) bool {
	switch e.State {
	case store.Delivered, store.Rejected:
		return true
	case store.Expired:
		return now-e.SettledAt >= wire.OfflineWindowSeconds
	}
	return false
}

// Abandon stops the retries of a pending entry: it expires (06#outbox-sender).
// One that was held is denied. Code: invalid_argument for an unknown message.
func (n *Node) Abandon(ctx context.Context, messageID string, now int64) (entry store.OutboxEntry, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if entry, err = findEntry(tx, messageID); err != nil {
			return err
		}
		denied, err := deny(tx, &entry, now)
		if err != nil {
			return err
		}
		if !denied {
			abandon(&entry, now)
		}
		return tx.SaveOutbox(entry)
	})
	return entry, err
}

// abandon ends a pending entry by the owner's will and reports whether it did:
// one whose time was over had ended by itself.
func abandon(e *store.OutboxEntry, now int64) bool {
	if expire(e, now) || e.State != store.Pending {
		return false
	}
	e.State, e.SettledAt, e.Abandoned = store.Expired, now, true
	return true
}

// ExpireDue ends the entries whose time is over at now, those that were held for
// their owner too long among them.
func (n *Node) ExpireDue(ctx context.Context, now int64) error {
	return n.store.Update(ctx, func(tx *store.Tx) error {
		ending, err := tx.OutboxStarted(now - wire.OfflineWindowSeconds)
		if err != nil {
			return err
		}
		for _, e := range ending {
			expire(&e, now)
			if err := tx.SaveOutbox(e); err != nil {
				return err
			}
		}
		return rejectOverdue(tx, now)
	})
}

func findEntry(tx *store.Tx, messageID string) (store.OutboxEntry, error) {
	e, ok, err := tx.Outbox(messageID)
	if err == nil && !ok {
		err = fault.New(fault.InvalidArgument, "no message %.80q in the outbox", messageID)
	}
	return e, err
}
