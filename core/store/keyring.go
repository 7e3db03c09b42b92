package store

import (
	"slices"
	"sync"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
)

// keyringSize bounds the expanded private keys that are kept: those of the
// descriptor, and a few that peers encrypt to at the same time.
const keyringSize = 16

// keyring keeps expanded private keys, because expanding one costs as much as
// using it. A key goes when its row is deleted by this process, when others are
// used more lately, and at the close of the store. The caller has seen the row:
// one that another process has deleted is not used any more.
type keyring struct {
	mu   sync.Mutex // held while a key is used, so that none is destroyed meanwhile
	keys []ringKey  // used last comes last
}

type ringKey struct {
	id  string
	key *suite.DecapsulationKey
}

// UsePrekey runs use with the private key of a prekey of the store, valid
// inside of it. An error of use is returned as it is. Code: storage_failed for
// a key that is not there and a seed that the vault key does not open.
func (tx *Tx) UsePrekey(id string, use func(*suite.DecapsulationKey) error) error {
	ring := &tx.store.keys
	if !tx.writes {
		// What a reader sees may be deleted by now: it keeps nothing.
		key, err := tx.expandPrekey(id)
		if err != nil {
			return err
		}
		defer key.Destroy()
		return use(key)
	}
	ring.mu.Lock()
	defer ring.mu.Unlock()
	key := ring.take(id)
	if key == nil {
		var err error
		if key, err = tx.expandPrekey(id); err != nil {
			return err
		}
	}
	ring.put(id, key)
	return use(key)
}

func (tx *Tx) expandPrekey(id string) (*suite.DecapsulationKey, error) {
	found, err := rows(tx, tx.scanPrekey, "SELECT id, peer, slot, public_key, sealed, at FROM prekey WHERE id = ?", id)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fault.New(fault.StorageFailed, "prekey %s is not there", id)
	}
	defer found[0].Seed.Destroy()
	return suite.NewDecapsulationKey(found[0].Seed), nil
}

func (r *keyring) find(id string) int {
	return slices.IndexFunc(r.keys, func(k ringKey) bool { return k.id == id })
}

// take removes a key and returns it, nil when it is not there.
func (r *keyring) take(id string) *suite.DecapsulationKey {
	i := r.find(id)
	if i < 0 {
		return nil
	}
	key := r.keys[i].key
	r.keys = slices.Delete(r.keys, i, i+1)
	return key
}

func (r *keyring) put(id string, key *suite.DecapsulationKey) {
	r.keys = append(r.keys, ringKey{id, key})
	if len(r.keys) > keyringSize {
		r.keys[0].key.Destroy()
		r.keys = slices.Delete(r.keys, 0, 1)
	}
}

// forget destroys the keys whose rows are gone.
func (r *keyring) forget(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if key := r.take(id); key != nil {
			key.Destroy()
		}
	}
}

func (r *keyring) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.keys {
		k.key.Destroy()
	}
	r.keys = nil
}
