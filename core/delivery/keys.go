package delivery

import (
	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// loadIssuer returns the keys offered to a peer, without their seeds
// (04#peer-prekeys).
func loadIssuer(tx *store.Tx, peer string) (prekey.Issuer, error) {
	kept, err := tx.PublicPrekeys(peer)
	i := prekey.Issuer{Peer: peer}
	for _, k := range kept {
		if o := offerOf(k); k.Slot == store.SlotInUse {
			i.InUse = o
		} else {
			i.Offered = o
		}
	}
	return i, err
}

func offerOf(k store.Prekey) *prekey.Offer {
	return &prekey.Offer{Key: prekey.Key{ID: k.ID, PublicKey: k.PublicKey}, Carried: k.At}
}

// saveIssuer writes what a transition of an issuer changed.
func saveIssuer(tx *store.Tx, before, after prekey.Issuer, deleted []prekey.Key) error {
	for _, k := range deleted {
		if err := tx.DeletePrekey(k.ID); err != nil {
			return err
		}
	}
	if err := saveOffer(tx, before, after.InUse, store.SlotInUse); err != nil {
		return err
	}
	return saveOffer(tx, before, after.Offered, store.SlotOffered)
}

func saveOffer(tx *store.Tx, before prekey.Issuer, o *prekey.Offer, slot string) error {
	switch {
	case o == nil || o == before.Offered && slot == store.SlotOffered || o == before.InUse && slot == store.SlotInUse:
		return nil
	case before.Offered != nil && before.Offered.ID == o.ID || before.InUse != nil && before.InUse.ID == o.ID:
		return tx.MovePrekey(o.ID, slot, o.Carried)
	}
	return tx.PutPrekey(store.Prekey{ID: o.ID, Peer: before.Peer, Slot: slot, PublicKey: o.PublicKey, Seed: o.Seed, At: o.Carried})
}

// LoadPublished returns the prekey of the identity's descriptor with the
// superseded ones (04#prekey). The caller destroys the seeds.
func LoadPublished(tx *store.Tx) (prekey.Published, error) {
	kept, err := tx.Prekeys("")
	var p prekey.Published
	for _, k := range kept {
		key := prekey.Key{ID: k.ID, PublicKey: k.PublicKey, Seed: k.Seed}
		if k.Slot == store.SlotCurrent {
			p.Current = key
		} else {
			p.Superseded = append(p.Superseded, prekey.Superseded{Key: key, At: k.At})
		}
	}
	return p, err
}

// RotatePublished generates the next published prekey at now and supersedes the
// one before it (04#prekey). The caller publishes a descriptor with it.
func RotatePublished(tx *store.Tx, now int64) (publicKey []byte, err error) {
	before, err := LoadPublished(tx)
	if err != nil {
		return nil, err
	}
	defer DestroyPublished(before)
	next := prekey.Generate()
	defer next.Seed.Destroy()
	_, deleted := before.Rotate(next, now)
	if before.Current.ID != "" {
		if err := tx.MovePrekey(before.Current.ID, store.SlotSuperseded, now); err != nil {
			return nil, err
		}
	}
	for _, k := range deleted {
		if err := tx.DeletePrekey(k.ID); err != nil {
			return nil, err
		}
	}
	return next.PublicKey, tx.PutPrekey(store.Prekey{ID: next.ID, Slot: store.SlotCurrent, PublicKey: next.PublicKey, Seed: next.Seed, At: now})
}

// DestroyPublished clears the seeds that LoadPublished returned.
func DestroyPublished(p prekey.Published) {
	if p.Current.Seed != nil {
		p.Current.Seed.Destroy()
	}
	for _, s := range p.Superseded {
		s.Seed.Destroy()
	}
}

// mayOpen reports whether a key of the store may open a packet of from: a
// published one opens any packet, a peer prekey only those of the peer it was
// offered to (03#encryption).
func mayOpen(k store.Prekey, from string, now int64) bool {
	var ok bool
	switch {
	case k.Slot == store.SlotCurrent:
		_, ok = prekey.Published{Current: prekey.Key{ID: k.ID}}.Find(k.ID, now)
	case k.Slot == store.SlotSuperseded:
		_, ok = prekey.Published{Superseded: []prekey.Superseded{{Key: prekey.Key{ID: k.ID}, At: k.At}}}.Find(k.ID, now)
	default:
		_, ok = prekey.Issuer{Peer: k.Peer, Offered: offerOf(k)}.Find(k.ID, from, now)
	}
	return ok
}

// deleteEndedSeeds removes every seed whose retention has ended: implementations
// do so whenever they open a packet (04#prekey).
func deleteEndedSeeds(tx *store.Tx, now int64) error {
	return tx.DeletePrekeys(now - wire.OfflineWindowSeconds)
}

// loadHeld returns the peer prekey held of a peer (04#peer-prekeys).
func loadHeld(tx *store.Tx, peer string) (prekey.Held, error) {
	h, ok, err := tx.HeldPrekey(peer)
	if err != nil || !ok {
		return prekey.Held{}, err
	}
	return prekey.Held{ID: suite.Hex256(h.PublicKey), PublicKey: h.PublicKey, Timestamp: h.Timestamp, Pin: h.Pin}, nil
}

// dropHeld forgets the key held of a peer if it is the one with the given ID,
// and reports whether it was.
func dropHeld(tx *store.Tx, from, id string) (bool, error) {
	held, err := loadHeld(tx, from)
	if err != nil {
		return false, err
	}
	if _, dropped := held.Drop(id); !dropped {
		return false, nil
	}
	return true, tx.DropHeldPrekey(from)
}
