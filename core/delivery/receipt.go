package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/packet"
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
	return receiptFailure(ctx, n.tryReceipt(ctx, to, body, now))
}

// receiptFailure returns what a failure to send a receipt means for the packet
// that it answers: nothing, unless it may be sent later.
func receiptFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if isTransient(err) {
		return err
	}
	return nil
}

func (n *Node) tryReceipt(ctx context.Context, to string, body ReceiptBody, now int64) error {
	r, err := n.makeReceipt(ctx, to, body, now)
	if err != nil {
		return n.unsent(ctx, to, body.MessageID, err, now)
	}
	return n.postReceipt(ctx, r)
}

func (n *Node) makeReceipt(ctx context.Context, to string, body ReceiptBody, now int64) (r *outgoingReceipt, err error) {
	p, err := n.viewPeer(ctx, to, now)
	if err != nil {
		return nil, err
	}
	if p, err = n.ensureAgent(ctx, p, now); err != nil {
		return nil, err
	}
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		r, err = n.prepareReceipt(tx, &knownPeer{}, p, body, now)
		return err
	})
	return r, err
}

// outgoingReceipt is a receipt of which everything is stored that has to be
// before it leaves.
type outgoingReceipt struct {
	to      peer   // with the descriptor to encrypt to
	answers string // message ID
	content packet.Content
	key     *suite.EncapsulationKey
	now, t  int64             // when it was made, and what it is signed with
	permit  *admission.Permit // of the peer, nil for none
	renewal *admission.Permit // that it carries, nil for none
}

// prepareReceipt makes a receipt for a peer whose descriptor may be encrypted
// to, and stores the peer prekey that it offers.
func (n *Node) prepareReceipt(tx *store.Tx, k *knownPeer, p peer, body ReceiptBody, now int64) (*outgoingReceipt, error) {
	r := &outgoingReceipt{to: p, answers: body.MessageID, now: now, t: n.id.SigningTime(now)}
	var err error
	if r.permit, r.renewal, err = n.receiptPermits(tx, k, p, now); err != nil {
		return nil, err
	}
	if r.renewal != nil {
		body.Permit = r.renewal.Value()
	}
	r.content = n.coreContent(profile.ReceiptType, body.Value())
	r.key, err = once(&k.key, func() (*suite.EncapsulationKey, error) { return encapsulationKey(p.id, p.agent.Prekey) })
	if err != nil {
		return nil, err
	}
	r.content.Prekey, err = k.offer(tx, p.id, r.t, now)
	return r, err
}

// postReceipt seals and posts a receipt, and records the permit it carries as
// issued.
func (n *Node) postReceipt(ctx context.Context, r *outgoingReceipt) error {
	if err := n.findReceiptPermit(ctx, r); err != nil {
		return err
	}
	plaintext, err := r.content.Canonical()
	if err != nil {
		return err
	}
	sealed, err := packet.Seal(n.id, r.to.id, suite.NewMessageID(), r.t, plaintext, r.key)
	if err != nil {
		return err
	}
	if _, err := n.postCore(ctx, r.to.id, r.to.agent.Relays, sealed, r.permit); err != nil {
		return n.unsent(ctx, r.to.id, r.answers, err, r.now)
	}
	return n.recordIssued(ctx, r.to.id, r.renewal, r.now)
}

// findReceiptPermit takes the permit that has come since the receipt was prepared,
// behind the packet that it answers: a peer with a new signing key sends one.
func (n *Node) findReceiptPermit(ctx context.Context, r *outgoingReceipt) error {
	if r.permit != nil {
		return nil
	}
	return n.store.View(ctx, func(tx *store.Tx) (err error) {
		r.permit, err = n.heldPermit(tx, r.to, r.t)
		return err
	})
}

// receiptPermits returns the permit to present and the renewal to include, each
// nil for none (05#delivery-permits, Renewal). 05 is silent on a peer that was
// never issued a permit; an admitted one gets its first that way.
func (n *Node) receiptPermits(tx *store.Tx, k *knownPeer, p peer, now int64) (held, renewal *admission.Permit, err error) {
	if k.permit != nil {
		return *k.permit, nil, nil
	}
	if held, err = n.heldPermit(tx, p, now); err != nil {
		return nil, nil, err
	}
	issued, due, err := n.issuedPermit(tx, p.id, now)
	if err != nil || !due || issued == nil && p.state() != admission.Admitted {
		if err == nil {
			k.permit = &held
		}
		return held, nil, err
	}
	renewal, err = n.issue(p.id, now)
	return held, renewal, err
}
