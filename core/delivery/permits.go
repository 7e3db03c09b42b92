package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/store"
)

// KeptPermit is a permit with whether it verifies now, under the issuer's
// current log.
type KeptPermit struct {
	store.PeerPermit
	Valid bool
}

// Permits returns the permits kept for all peers, by peer.
func (n *Node) Permits(ctx context.Context, now int64) (list []KeptPermit, err error) {
	err = n.store.View(ctx, func(tx *store.Tx) error {
		list = nil
		kept, err := tx.Permits()
		if err != nil {
			return err
		}
		for _, k := range kept {
			valid, err := n.isValid(tx, k, now)
			if err != nil {
				return err
			}
			list = append(list, KeptPermit{k, valid})
		}
		return nil
	})
	return list, err
}

func (n *Node) isValid(tx *store.Tx, k store.PeerPermit, now int64) (bool, error) {
	if k.Direction == store.PermitIssued {
		permit, err := n.loadPermit(tx, k.Peer, store.PermitIssued)
		return err == nil && permit.Verify(n.id.State(), n.id.ACEID(), k.Peer, now) == nil, err
	}
	pin, err := n.loadPin(tx, k.Peer, now)
	if err != nil {
		return false, err
	}
	var held *admission.Permit
	held, err = n.heldPermit(tx, peer{id: k.Peer, pin: pin}, now)
	return held != nil, err
}
