package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
)

// delegation names the identity's current delegation by the hash of its event,
// "" without one. The seq alone would not do: a recovery gives it to another
// event (01#rotation-and-recovery).
func (n *Node) delegation() string {
	state := n.id.State()
	d := state.Delegated()
	if d == nil {
		return ""
	}
	return state.Events()[d.Seq].Hash
}

// PermitsDue returns the admitted peers that have not been issued a permit under
// the current delegation (05#delivery-permits): a request carries it to them. It
// costs what is due. Without a usable identity nothing is.
func (n *Node) PermitsDue(ctx context.Context, now int64) (due []store.Contact, err error) {
	if !n.id.State().Usable(now) {
		return nil, nil
	}
	err = n.store.View(ctx, func(tx *store.Tx) error {
		due, err = tx.ContactsDueAPermit(n.delegation())
		return err
	})
	return due, err
}

// PermitDue reports whether a peer is one of those of [Node.PermitsDue], and a
// request could carry the permit now.
func (n *Node) PermitDue(ctx context.Context, peer string, now int64) (due bool, err error) {
	if !n.id.State().Usable(now) {
		return false, nil
	}
	err = n.store.View(ctx, func(tx *store.Tx) error {
		if due, err = tx.ContactDueAPermit(peer, n.delegation()); err != nil || !due {
			return err
		}
		own, err := n.ownAgent(tx, now)
		due = own != nil
		return err
	})
	return due, err
}

// CheckOwnDescriptor reports whether there is an unexpired own descriptor for
// contact packets to carry. Code: identity_unavailable.
func (n *Node) CheckOwnDescriptor(ctx context.Context, now int64) error {
	_, err := n.needOwnAgent(ctx, now)
	return err
}

// contactProfile returns the profile that a request is about: the one asked for,
// which both have to list, else the one recorded, else one that both list
// (05#delivery-permits). Code: invalid_argument.
func (n *Node) contactProfile(p peer, asked string) (string, error) {
	if asked != "" {
		if !n.shares(asked, p.agent.Profiles) {
			return "", fault.New(fault.InvalidArgument, "profile %.80q is not one that both list with the same digest", asked)
		}
		return asked, nil
	}
	if p.row.Profile != "" && n.shares(p.row.Profile, p.agent.Profiles) {
		return p.row.Profile, nil
	}
	for _, m := range n.profiles.Manifests() {
		if m.ID != profile.CoreID && n.shares(m.ID, p.agent.Profiles) {
			return m.ID, nil
		}
	}
	return "", fault.New(fault.InvalidArgument, "no profile is one that both list with the same digest")
}
