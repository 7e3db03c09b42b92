package delivery

import (
	"context"
	"strings"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/store"
)

// CheckPolicy checks that each peer that the policy names is known here. Codes:
// invalid_argument with a [*policy.UnknownPeer], storage_failed.
func (n *Node) CheckPolicy(ctx context.Context) error {
	return n.store.View(ctx, func(tx *store.Tx) error { return n.policy.Resolve(n.names(tx)) })
}

// Decide returns what the policy says of a type of message to or from a peer. No
// message comes in before each peer is known whom a rule names. Code:
// invalid_argument for a rule that cannot be followed.
func (n *Node) Decide(tx *store.Tx, d policy.Direction, peer, messageType string) (policy.Decision, error) {
	if d == policy.In {
		if err := n.policy.Resolve(n.names(tx)); err != nil {
			return policy.Decision{}, err
		}
	}
	return n.policy.Decide(d, peer, messageType, n.names(tx))
}

// MaySend fails when the policy denies a type of message to a peer. Codes:
// not_permitted with a [*policy.Denied], invalid_argument.
func (n *Node) MaySend(ctx context.Context, to, messageType string) error {
	return n.store.View(ctx, func(tx *store.Tx) error {
		_, err := n.underPolicy(tx, store.OutboxEntry{Peer: to, Type: messageType}, 0)
		return err
	})
}

// names resolves petnames, and handles that were looked up before: what a relay
// says today is no reason to let a message through.
func (n *Node) names(tx *store.Tx) policy.Names {
	return func(name string) (string, error) {
		if !strings.Contains(name, "@") {
			return tx.PeerNamed(name)
		}
		address, err := descriptor.ParseHandleAddress(name, n.verify.URLs)
		if err != nil {
			return "", err
		}
		return tx.HandlePin(address.Home, address.Name)
	}
}

// underPolicy returns a new entry as the policy lets it be stored: in the Outbox,
// or held for its owner. Codes: not_permitted with a [*policy.Denied],
// invalid_argument.
func (n *Node) underPolicy(tx *store.Tx, entry store.OutboxEntry, now int64) (store.OutboxEntry, error) {
	decision, err := n.policy.Decide(policy.Out, entry.Peer, entry.Type, n.names(tx))
	switch {
	case err != nil:
		return store.OutboxEntry{}, err
	case decision.Do == policy.Deny:
		return store.OutboxEntry{}, fault.Wrap(fault.NotPermitted, &policy.Denied{Rule: decision.Rule, Type: entry.Type})
	case decision.Do == policy.Ask:
		entry.State, entry.HeldAt, entry.HeldUntil = store.PendingApproval, now, now+n.policy.TTL()
	}
	return entry, nil
}

// withholds reports whether the policy keeps a message that has come from its
// reader. So does a rule that cannot be followed: what is set aside can be
// released, and what was shown not taken back. Then there is a code.
func (in *incoming) withholds(tx *store.Tx) (withheld bool, code fault.Code, err error) {
	decision, err := in.n.policy.Decide(policy.In, in.packet.From, in.content.Type, in.n.names(tx))
	if code := fault.CodeOf(err); code == fault.InvalidArgument {
		return true, code, nil
	}
	return decision.Do == policy.Deny, "", err
}

// withhold sets a message aside. For its sender it is delivered: it is kept and
// remembered as any other, and its rule's state changes, so that both ends of a
// thread have the same. A policy of the receiver's is no outcome of the pipeline
// (06#receive-pipeline), and a rejection would tell the sender of it. It needs no
// room in the inbox, so that a peer whose messages are set aside cannot fill that;
// the one that goes for want of room in quarantine is noted.
func (in *incoming) withhold(tx *store.Tx, m store.Message, code fault.Code) error {
	shown, err := tx.HasMessage(m.Peer, m.MessageID)
	if err != nil || shown {
		return err // it was taken in before, and the seen store has forgotten it
	}
	if err := tx.AddAudit(store.Audit{At: in.now, Event: audit.MessageWithheld, Code: string(code), Peer: m.Peer, MessageID: m.MessageID}); err != nil {
		return err
	}
	in.result.Withheld = &m
	gone, err := tx.AddWithheld(m)
	if err != nil || gone == nil {
		return err
	}
	return tx.AddAudit(store.Audit{
		At: in.now, Event: audit.QuarantineDropped, Code: string(fault.ReceiverCapacity), Peer: gone.Peer, MessageID: gone.MessageID, Count: 1,
	})
}

// Release puts a message that was set aside into the inbox, as the last one there,
// and removes it where it was. Codes: invalid_argument when none has the number, storage_failed for one that is
// damaged.
func (n *Node) Release(ctx context.Context, number, now int64) (released store.Withheld, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		w, ok, err := tx.WithheldMessage(number)
		switch {
		case err != nil:
			return err
		case !ok:
			return fault.New(fault.InvalidArgument, "no message in quarantine has the number %d", number)
		case w.Damaged != nil:
			return w.Damaged
		}
		if err := tx.AddMessage(w.Message); err != nil {
			return err
		}
		if err := noteMessage(tx, audit.QuarantineReleased, w.Peer, w.MessageID, now); err != nil {
			return err
		}
		released = w
		_, err = tx.DropWithheld(number)
		return err
	})
	return released, err
}
