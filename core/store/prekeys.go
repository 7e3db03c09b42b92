package store

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// sealLabel names the one purpose of the subkey that seeds are sealed under.
const sealLabel = "ace/store/prekey/1"

// The slots of a [Prekey].
const (
	SlotCurrent    = "current"    // the published one
	SlotSuperseded = "superseded" // published earlier
	SlotOffered    = "offered"    // the peer prekey that packets to a peer carry
	SlotInUse      = "in_use"     // the peer prekey that the peer encrypts to
)

// Prekey is one X-Wing key of this identity (04#prekey, 04#peer-prekeys).
type Prekey struct {
	ID        string
	Peer      string // "" for the published ones
	Slot      string
	PublicKey []byte // 1216 bytes
	Seed      *suite.Seed
	At        int64 // generated, superseded or last carried, by slot
}

// Prekeys returns the keys offered to a peer, or with "" the published ones, in
// the order of their times. Code: storage_failed, also for a seed that the
// vault key does not open and for a public key that is not the ID's.
func (tx *Tx) Prekeys(peer string) ([]Prekey, error) {
	return rows(tx, tx.scanPrekey, "SELECT id, peer, slot, public_key, sealed, at FROM prekey WHERE peer = ? ORDER BY at, rowid", peer)
}

func (tx *Tx) scanPrekey(r scanner) (k Prekey, err error) {
	var sealed []byte
	if err := r.Scan(&k.ID, &k.Peer, &k.Slot, &k.PublicKey, &sealed, &k.At); err != nil {
		return k, err
	}
	// The ID is bound to the seed, and the public key to the ID (04#prekey).
	seed, err := suite.Open(tx.store.seal, sealed, rowIdentity(k))
	if err != nil {
		return k, fault.Wrapf(fault.StorageFailed, err, "seed of prekey %s", k.ID)
	}
	defer clear(seed)
	if err := k.check(); err != nil {
		return k, err
	}
	k.Seed, err = suite.SeedFromBytes(seed)
	return k, err
}

const prekeyColumns = "id, peer, slot, public_key, at"

func scanPublicPrekey(r scanner) (k Prekey, err error) {
	if err := r.Scan(&k.ID, &k.Peer, &k.Slot, &k.PublicKey, &k.At); err != nil {
		return k, err
	}
	return k, k.check()
}

// check binds the public key to the ID (04#prekey).
func (k *Prekey) check() error {
	if suite.Hex256(k.PublicKey) != k.ID {
		return fault.New(fault.StorageFailed, "public key of prekey %s is another one", k.ID)
	}
	return nil
}

// PublicPrekeys is [Tx.Prekeys] without the seeds.
func (tx *Tx) PublicPrekeys(peer string) ([]Prekey, error) {
	return rows(tx, scanPublicPrekey, "SELECT "+prekeyColumns+" FROM prekey WHERE peer = ? ORDER BY at, rowid", peer)
}

// Prekey returns what is kept about the key with the given ID, without either
// part of it, and whether there is one.
func (tx *Tx) Prekey(id string) (Prekey, bool, error) {
	k := Prekey{ID: id}
	ok, err := tx.get("SELECT peer, slot, at FROM prekey WHERE id = ?", []any{id}, &k.Peer, &k.Slot, &k.At)
	return k, ok, err
}

// PutPrekey writes a key, new or changed.
func (tx *Tx) PutPrekey(k Prekey) error {
	seed := k.Seed.Expose()
	defer clear(seed)
	sealed, err := suite.Seal(tx.store.seal, seed, rowIdentity(k))
	if err != nil {
		return fault.Wrapf(fault.StorageFailed, err, "seed of prekey %s", k.ID)
	}
	return tx.run("INSERT OR REPLACE INTO prekey VALUES (?, ?, ?, ?, ?, ?)", k.ID, k.Peer, k.Slot, k.PublicKey, sealed, k.At)
}

// MovePrekey gives a key another slot and time, without touching its seed.
func (tx *Tx) MovePrekey(id, slot string, at int64) error {
	return tx.run("UPDATE prekey SET slot = ?, at = ? WHERE id = ?", slot, at, id)
}

// DeletePrekey removes a key. Its sealed seed is gone from the files after the
// next [Store.Scrub].
func (tx *Tx) DeletePrekey(id string) error {
	tx.scrub = true
	tx.deletedKeys = append(tx.deletedKeys, id)
	return tx.run("DELETE FROM prekey WHERE id = ?", id)
}

// DeletePrekeys removes every key but a current one whose time is at or before
// the given one, as [Tx.DeletePrekey] does.
func (tx *Tx) DeletePrekeys(until int64) error {
	deleted, err := rows(tx, text, "DELETE FROM prekey WHERE slot <> 'current' AND at <= ? RETURNING id", until)
	tx.scrub = tx.scrub || len(deleted) > 0
	tx.deletedKeys = append(tx.deletedKeys, deleted...)
	return err
}

// HeldPrekey is the peer prekey held of a peer (04#peer-prekeys).
type HeldPrekey struct {
	PublicKey []byte // 1216 bytes
	Timestamp int64  // of the packet that carried it
	Pin       string // hash of the peer's last pinned event it was authenticated under
}

// HeldPrekey returns the key held of a peer and whether there is one.
func (tx *Tx) HeldPrekey(peer string) (HeldPrekey, bool, error) {
	var h HeldPrekey
	ok, err := tx.get("SELECT public_key, timestamp, pin FROM held_prekey WHERE peer = ?", []any{peer}, &h.PublicKey, &h.Timestamp, &h.Pin)
	return h, ok, err
}

// SetHeldPrekey holds a key, in place of the peer's earlier one.
func (tx *Tx) SetHeldPrekey(peer string, h HeldPrekey) error {
	return tx.run("INSERT OR REPLACE INTO held_prekey VALUES (?, ?, ?, ?)", peer, h.PublicKey, h.Timestamp, h.Pin)
}

// DropHeldPrekey forgets the key held of a peer.
func (tx *Tx) DropHeldPrekey(peer string) error {
	return tx.run("DELETE FROM held_prekey WHERE peer = ?", peer)
}

func sealKey(vaultKey *suite.Seed) []byte {
	key := vaultKey.Expose()
	defer clear(key)
	return suite.Subkey(key, sealLabel)
}

// rowIdentity is what a sealed seed is bound to: moved to another row, it does
// not open.
func rowIdentity(k Prekey) []byte { return wire.EncodePayload("prekey", k.Peer, k.ID) }
