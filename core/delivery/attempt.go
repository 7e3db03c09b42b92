package delivery

import (
	"context"
	"errors"
	"strings"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// claimSeconds is how long an attempt keeps others from making one, should its
// process end before it is over.
const claimSeconds = 120

// attempt is what one attempt came to. One that the host stopped before its
// post completed leaves none (06#outbox-sender).
type attempt struct {
	entry  store.OutboxEntry
	number int
	now    int64
	peer   peer
	permit *admission.Permit // of the peer, presented to the relay

	prekey string            // that the packet was encrypted to, "" when nothing was
	isPeer bool              // it is a peer prekey
	issued *admission.Permit // that the content carries, to be recorded once sent
	asked  string            // relay that took the packet or whose failure counts, "" for none
	relay  string            // that took the packet, "" for none
	reason string            // of this host, for not having tried, "" for none
}

// Attempt makes one attempt to deliver a message (06#outbox-sender) and returns
// its entry afterwards. The error is that of the attempt; the message stays
// queued. A message with an outcome, or one that waits for its owner, is returned
// as it is. Messages to one peer have their first attempts in the order they were
// queued, so that those ahead of it have theirs before. Codes: invalid_argument
// for an unknown message, lock_busy while another process makes an attempt, also
// of one ahead ([ErrNotItsTurn]), not_permitted, identity_unavailable, and those
// of lookups and relays.
func (n *Node) Attempt(ctx context.Context, messageID string, now int64) (store.OutboxEntry, error) {
	entry, claimed, err := n.takeTurn(ctx, messageID, now, anyTime)
	if err != nil || !claimed {
		return entry, err
	}
	return n.attemptClaimed(ctx, entry, now)
}

// AttemptDue is Attempt for a message that is due at now, or has had no attempt
// yet, and reports whether a relay took it. Any other is returned as it is: another
// process has made the attempt meanwhile.
func (n *Node) AttemptDue(ctx context.Context, messageID string, now int64) (entry store.OutboxEntry, taken bool, err error) {
	entry, claimed, err := n.takeTurn(ctx, messageID, now, func(e store.OutboxEntry) bool { return e.Attempts == 0 || e.NextAttemptAt <= now })
	if err != nil || !claimed {
		return entry, false, err
	}
	entry, err = n.attemptClaimed(ctx, entry, now)
	return entry, err == nil, err
}

func (n *Node) attemptClaimed(ctx context.Context, entry store.OutboxEntry, now int64) (store.OutboxEntry, error) {
	messageID := entry.MessageID
	a := &attempt{entry: entry, number: entry.Attempts + 1, now: now}
	failure := n.try(ctx, a)
	// What happened is recorded also when the caller has stopped waiting.
	saving := context.WithoutCancel(ctx)
	if a.relay == "" && ctx.Err() != nil {
		entry, err := n.release(saving, messageID)
		if err == nil {
			err = ctx.Err()
		}
		return entry, err
	}
	entry, err := n.record(saving, a, failure)
	if err != nil {
		return entry, err
	}
	return entry, failure
}

// due says which of the pending messages an attempt is wanted of.
type due func(store.OutboxEntry) bool

func anyTime(store.OutboxEntry) bool { return true }

// claim takes a pending message that is due for one attempt, and reports whether
// it did. It does not while another one is ahead, whose ID it returns.
func (n *Node) claim(ctx context.Context, messageID string, now int64, is due) (entry store.OutboxEntry, claimed bool, ahead string, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if entry, err = findEntry(tx, messageID); err != nil {
			return err
		}
		if ahead, err = messageAhead(tx, entry, is); err != nil || ahead != "" {
			return err
		}
		switch {
		case expire(&entry, now):
		case entry.State != store.Pending || !is(entry):
			return nil
		case entry.ClaimedUntil > now && entry.ClaimedUntil <= now+claimSeconds: // a clock set back claims nothing
			return fault.New(fault.LockBusy, "another process is attempting to deliver %s; should it have died, others may in %d s", messageID, entry.ClaimedUntil-now)
		default:
			entry.ClaimedUntil, claimed = now+claimSeconds, true
		}
		return tx.SaveOutbox(entry)
	})
	return entry, claimed && err == nil, ahead, err
}

func (n *Node) release(ctx context.Context, messageID string) (entry store.OutboxEntry, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if entry, err = findEntry(tx, messageID); err != nil {
			return err
		}
		entry.ClaimedUntil = 0
		return tx.SaveOutbox(entry)
	})
	return entry, err
}

// record counts an attempt and plans the next one. A receipt may have settled
// the message meanwhile; then its outcome stays.
func (n *Node) record(ctx context.Context, a *attempt, failure error) (entry store.OutboxEntry, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if entry, err = findEntry(tx, a.entry.MessageID); err != nil {
			return err
		}
		entry.ClaimedUntil = 0
		entry.Attempts = a.number
		if a.number == 1 {
			entry.FirstAttemptAt = a.now
		}
		entry.NextAttemptAt = a.now + nextDelay(a.number, failure)
		entry.Prekey, entry.PrekeyIsPeer = a.prekey, a.isPeer
		entry.LastError, entry.Reason = string(fault.CodeOf(failure)), a.reason
		if a.relay != "" {
			entry.Relay = a.relay
		}
		if a.relay != "" && a.issued != nil {
			if err := n.issued(tx, a.peer.id, a.issued, a.now); err != nil {
				return err
			}
		}
		if err := tx.AddAttempt(a.row(entry, failure)); err != nil {
			return err
		}
		return tx.SaveOutbox(entry)
	})
	return entry, err
}

// row is what is kept of an attempt beside the entry that it has changed.
func (a *attempt) row(e store.OutboxEntry, failure error) store.Attempt {
	row := store.Attempt{
		MessageID: e.MessageID, Number: a.number, At: a.now, Relay: a.asked, Code: e.LastError,
		Prekey: a.prekey, PrekeyIsPeer: a.isPeer, NextAttemptAt: e.NextAttemptAt,
	}
	if a.permit != nil {
		row.PermitExpiresAt = a.permit.ExpiresAt
	}
	var f *fault.Error
	if a.asked != "" && errors.As(failure, &f) {
		row.Status = f.Status
		if isCode(f.Remote) {
			row.RemoteCode = f.Remote
		}
	}
	return row
}

// isCode reports whether a text of a relay has the form of a code. What else a
// relay writes is not kept.
func isCode(text string) bool {
	return len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// try runs the three steps of an attempt of 06#outbox-sender.
func (n *Node) try(ctx context.Context, a *attempt) error {
	content, err := StoredContent(a.entry)
	if err != nil {
		return err
	}
	if err := n.checkSender(ctx, a); err != nil {
		return err
	}
	if err := n.findDescriptor(ctx, a); err != nil { // step 1
		return err
	}
	if err := n.findPermit(ctx, a); err != nil { // step 3: without one nothing is sealed
		return err
	}
	sealed, err := n.sealAttempt(ctx, a, content) // step 2
	if err != nil {
		return err
	}
	a.asked, err = n.post(ctx, a.peer.agent.Relays, sealed, a.permit) // step 3
	if err == nil {
		a.relay = a.asked
	}
	return err
}

// findDescriptor is step 1: a valid descriptor, refreshed when it is not, and
// on every attempt after the first.
func (n *Node) findDescriptor(ctx context.Context, a *attempt) error {
	p, err := n.viewPeer(ctx, a.entry.Peer, a.now)
	if err != nil {
		return err
	}
	usable := p.usable(a.now)
	a.peer = p
	if usable && a.number == 1 {
		return nil
	}
	refreshed, err := n.refreshed(ctx, p, a.now)
	switch {
	case err == nil:
		a.peer = refreshed
	case !usable:
		return err
	default:
		// The pin may have moved although no relay served a usable descriptor.
		a.peer, err = n.viewPeer(ctx, p.id, a.now)
		if err == nil && !a.peer.usable(a.now) {
			err = fault.New(fault.StalePeerBinding, "descriptor of %s ends before its pin", p.id)
		}
		return err
	}
	return nil
}

// findPermit is the condition of step 3: the newest permit of the peer that is
// valid under its current pin. There is no fallback to the stranger path.
func (n *Node) findPermit(ctx context.Context, a *attempt) error {
	err := n.store.View(ctx, func(tx *store.Tx) (err error) {
		a.permit, err = n.heldPermit(tx, a.peer, a.now)
		return err
	})
	if err == nil && a.permit == nil {
		a.reason = ReasonNoPermit
		err = fault.New(fault.NotPermitted, "no valid delivery permit from %s is held", a.peer.id)
	}
	return err
}

// sealAttempt is step 2. The first attempt encrypts to the peer prekey held
// while it is usable, every later one to the published prekey.
func (n *Node) sealAttempt(ctx context.Context, a *attempt, c packet.Content) (*packet.Packet, error) {
	if err := n.addAdmission(ctx, a, &c); err != nil {
		return nil, err
	}
	key, err := n.chooseKey(ctx, a)
	if err != nil {
		return nil, err
	}
	sealed, err := n.seal(ctx, a.peer.id, a.entry.MessageID, c, key, a.now)
	if err != nil {
		return nil, err
	}
	a.prekey = sealed.Prekey
	return sealed, nil
}

func (n *Node) chooseKey(ctx context.Context, a *attempt) ([]byte, error) {
	if a.number > 1 {
		return a.peer.agent.Prekey, nil
	}
	var key []byte
	err := n.store.Update(ctx, func(tx *store.Tx) error {
		held, err := loadHeld(tx, a.peer.id)
		if err != nil || !held.Usable(a.now, a.peer.pin.LastHash()) {
			return err
		}
		if _, err := suite.ParseEncapsulationKey(held.PublicKey); err != nil {
			// 04#peer-prekeys: a key that cannot be encapsulated to is dropped.
			_, err := dropHeld(tx, a.peer.id, held.ID)
			return err
		}
		key, a.isPeer = held.PublicKey, true
		return nil
	})
	if err != nil || key != nil {
		return key, err
	}
	return a.peer.agent.Prekey, nil
}

// addAdmission is 05#admission-recovery step 1: every attempt after the first to
// an admitted peer carries what a receiver that lost its state needs. It is left
// out when it does not fit or the identity has no unexpired PublishedAgent.
func (n *Node) addAdmission(ctx context.Context, a *attempt, c *packet.Content) error {
	if a.number == 1 || a.peer.state() != admission.Admitted {
		return nil
	}
	var source *descriptor.PublishedAgent
	var reply *admission.Permit
	var due bool
	err := n.store.View(ctx, func(tx *store.Tx) (err error) {
		if source, err = n.ownAgent(tx, a.now); err != nil {
			return err
		}
		reply, due, err = n.issuedPermit(tx, a.peer.id, a.now)
		return err
	})
	if err != nil || source == nil {
		return err
	}
	if due {
		if reply, err = n.issue(a.peer.id, a.now); err != nil {
			return err
		}
	}
	with := *c
	with.Admission = &packet.Admission{Proof: a.permit.Value(), Permit: reply.Value(), Source: source.Value()}
	with.Prekey = make([]byte, wire.PrekeyBytes) // only its size matters here
	if _, err := with.Canonical(); err != nil {
		return nil
	}
	c.Admission = with.Admission
	if due {
		a.issued = reply
	}
	return nil
}
