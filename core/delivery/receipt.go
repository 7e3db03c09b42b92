package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// isCore reports whether a type is one of the core profile, whose packets never
// produce receipts and never go through the Outbox.
func isCore(messageType string) bool {
	return messageType == profile.ReceiptType || messageType == profile.ContactType
}

// sendReceipt makes the single attempt of 06#receipts: to the published prekey
// of the sender's descriptor, with the permit held from it, if any. Without a
// route no receipt is sent, which is no failure. The error is a transient one:
// the packet is then processed again.
func (n *Node) sendReceipt(ctx context.Context, to string, body ReceiptBody, now int64) error {
	err := n.tryReceipt(ctx, to, body, now)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if isTransient(err) {
		return err
	}
	return nil
}

func (n *Node) tryReceipt(ctx context.Context, to string, body ReceiptBody, now int64) error {
	p, err := n.viewPeer(ctx, to, now)
	if err != nil {
		return err
	}
	if p, err = n.ensureAgent(ctx, p, now); err != nil {
		return err
	}
	permit, renewal, err := n.receiptPermits(ctx, p, now)
	if err != nil {
		return err
	}
	if renewal != nil {
		body.Permit = renewal.Value()
	}
	content := n.coreContent(profile.ReceiptType, body.Value())
	sealed, err := n.seal(ctx, to, suite.NewMessageID(), content, p.agent.Prekey, now)
	if err != nil {
		return err
	}
	if _, err := n.post(ctx, p.agent.Relays, sealed, permit); err != nil {
		return err
	}
	return n.recordIssued(ctx, to, renewal)
}

// receiptPermits returns the permit to present and the renewal to include, each
// nil for none (05#delivery-permits, Renewal). 05 is silent on a peer that was
// never issued a permit; an admitted one gets its first that way.
func (n *Node) receiptPermits(ctx context.Context, p peer, now int64) (held, renewal *admission.Permit, err error) {
	var renew bool
	err = n.store.View(ctx, func(tx *store.Tx) error {
		if held, err = n.heldPermit(tx, p, now); err != nil {
			return err
		}
		issued, due, err := n.issuedPermit(tx, p.id, now)
		renew = due && (issued != nil || p.state() == admission.Admitted)
		return err
	})
	if err != nil || !renew {
		return held, nil, err
	}
	renewal, err = n.issue(p.id, now)
	return held, renewal, err
}
