package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/store"
)

// Standing is how things stand with one peer.
type Standing struct {
	State     admission.State
	ExpiresAt int64 // of a pending row, else 0
	Described bool  // a descriptor is held
	PinUsable bool  // a signing key of the peer is in force
	Usable    bool  // the descriptor may be encrypted to
	Held      PermitStanding
	Issued    PermitStanding
}

// PermitStanding tells of the newest permit of one direction.
type PermitStanding struct {
	ExpiresAt int64 // 0: there is none
	Valid     bool  // it verifies now
}

// Standing returns how things stand with a peer. Code: storage_failed.
func (n *Node) Standing(ctx context.Context, id string, now int64) (s Standing, err error) {
	err = n.store.View(ctx, func(tx *store.Tx) error {
		p, err := n.loadPeer(tx, id, now)
		if err != nil {
			return err
		}
		s = Standing{
			State: p.state(), ExpiresAt: p.row.ExpiresAt, Described: p.agent != nil,
			PinUsable: p.pin != nil && p.pin.Usable(now), Usable: p.usable(now),
		}
		if s.Held, err = n.permitStanding(tx, id, store.PermitHeld, now); err != nil {
			return err
		}
		s.Issued, err = n.permitStanding(tx, id, store.PermitIssued, now)
		return err
	})
	return s, err
}

func (n *Node) permitStanding(tx *store.Tx, id string, d store.PermitDirection, now int64) (s PermitStanding, err error) {
	kept, ok, err := tx.Permit(id, d)
	if err != nil || !ok {
		return s, err
	}
	s.ExpiresAt = kept.ExpiresAt
	s.Valid, err = n.isValid(tx, store.PeerPermit{Peer: id, Direction: d, Permit: kept}, now)
	return s, err
}
