package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// AdoptCard verifies the CardBundle that a relay served for an ACE ID, under the
// pin of the identity, the horizon kept of its card records and the handle
// pinned for it, and keeps it (04#card-record). A card pins no log. Codes: those
// of 04#card-record, stale_descriptor, invalid_authorization.
func (n *Node) AdoptCard(ctx context.Context, id string, served wire.Value, now int64) (bundle *descriptor.CardBundle, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if bundle, err = n.verifyCard(tx, served, now); err != nil {
			return err
		}
		if bundle.ACEID != id {
			return fault.New(fault.InvalidAuthorization, "card record names %s, not %s", bundle.ACEID, id)
		}
		pinned, err := tx.PinnedHandle(id, bundle.Home)
		if err != nil {
			return err
		}
		if err := bundle.CheckPinnedHandle(pinned); err != nil {
			return err
		}
		return keepCard(tx, bundle)
	})
	return bundle, n.noteConflict(ctx, id, err, now)
}

// AdoptResolved is AdoptCard for the answer of the relay of a handle: it also
// checks that the record names that home and handle, and pins the handle to the
// ACE ID on its first resolution (04#card-record). Codes also: unknown_peer.
func (n *Node) AdoptResolved(ctx context.Context, a descriptor.HandleAddress, served wire.Value, now int64) (bundle *descriptor.CardBundle, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if bundle, err = n.verifyCard(tx, served, now); err != nil {
			return err
		}
		pinnedID, err := tx.HandlePin(a.Home, a.Name)
		if err != nil {
			return err
		}
		pinnedHandle, err := tx.PinnedHandle(bundle.ACEID, a.Home)
		if err != nil {
			return err
		}
		if err := a.CheckResolved(bundle, pinnedID, pinnedHandle); err != nil {
			return err
		}
		if err := tx.SetHandlePin(a.Home, a.Name, bundle.ACEID); err != nil {
			return err
		}
		return keepCard(tx, bundle)
	})
	return bundle, n.noteConflict(ctx, statedID(served), err, now)
}

// AdoptListed is AdoptCard for an entry of the directory of a relay, which may
// serve as many as it likes: of an identity that is not known here it keeps the
// horizon alone. Codes: those of AdoptCard.
func (n *Node) AdoptListed(ctx context.Context, served wire.Value, now int64) (bundle *descriptor.CardBundle, err error) {
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		if bundle, err = n.verifyCard(tx, served, now); err != nil {
			return err
		}
		handle, err := tx.PinnedHandle(bundle.ACEID, bundle.Home)
		if err != nil {
			return err
		}
		if err := bundle.CheckPinnedHandle(handle); err != nil {
			return err
		}
		kept, _, err := tx.Card(bundle.ACEID)
		if err != nil || bundle.ACEID == n.id.ACEID() || kept.IssuedAt >= bundle.IssuedAt {
			return err
		}
		pin, err := n.loadPin(tx, bundle.ACEID, now)
		if err != nil {
			return err
		}
		if pin != nil || kept.Raw != nil {
			return keepCard(tx, bundle)
		}
		return tx.SetCard(bundle.ACEID, store.Card{IssuedAt: bundle.IssuedAt, ClaimsDigest: bundle.ClaimsDigest()})
	})
	return bundle, err
}

// verifyCard verifies a card under what is kept of the identity it names.
func (n *Node) verifyCard(tx *store.Tx, served wire.Value, now int64) (*descriptor.CardBundle, error) {
	o := n.verify
	id := statedID(served)
	if wire.IsACEID(id) {
		var err error
		if o.Pin, err = n.loadPin(tx, id, now); err != nil {
			return nil, err
		}
	}
	bundle, err := descriptor.VerifyCardValue(served, now, o)
	if err != nil {
		return nil, err
	}
	kept, _, err := tx.Card(bundle.ACEID)
	if err != nil {
		return nil, err
	}
	horizon := descriptor.CardHorizon{IssuedAt: kept.IssuedAt, ClaimsDigest: kept.ClaimsDigest}
	return bundle, horizon.Accept(bundle)
}

// statedID returns the ACE ID that a card bundle claims, to find its pin by.
func statedID(served wire.Value) string {
	card, _ := served.Get("card")
	id, _ := card.Get("aceId")
	text, _ := id.AsString()
	return text
}

func keepCard(tx *store.Tx, b *descriptor.CardBundle) error {
	return tx.SetCard(b.ACEID, store.Card{IssuedAt: b.IssuedAt, ClaimsDigest: b.ClaimsDigest(), Raw: b.Raw()})
}
