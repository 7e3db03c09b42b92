package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// The reasons of this host in an Outbox entry. They are no codes of the protocol,
// and no peer ever sees them.
const (
	ReasonNoIdentity      = "identity_unusable" // no signing key is in force: the message waits
	ReasonBlocked         = "peer_blocked"      // by the owner: the message waits
	ReasonNoPermit        = "permit_missing"    // no valid one is held: the message waits
	ReasonDenied          = "denied_by_owner"   // who was asked: the message is rejected
	ReasonApprovalExpired = "approval_expired"  // nobody decided in time: the message is rejected
)

// checkSender asks again, before anything leaves, what may have changed since the
// message was queued: whether the identity can sign, and whether its owner has
// blocked the peer, whose receipt would be dropped (05#blocks). A permit is looked
// for with each attempt as well (06#outbox-sender step 3). As without one, the
// attempt fails and the message waits, on the retry schedule, for the end of what
// keeps it.
func (n *Node) checkSender(ctx context.Context, a *attempt) error {
	if !n.id.State().Usable(a.now) {
		a.reason = ReasonNoIdentity
		return fault.New(fault.IdentityUnavailable, "no signing key of this identity is in force")
	}
	return n.store.View(ctx, func(tx *store.Tx) error {
		row, _, err := tx.Contact(a.entry.Peer, a.now)
		if err == nil && row.State == string(admission.Blocked) {
			a.reason = ReasonBlocked
			err = fault.New(fault.NotPermitted, "%s is blocked here", a.entry.Peer)
		}
		return err
	})
}
