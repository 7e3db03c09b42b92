// Package prekey keeps the rules of 04#prekey and 04#peer-prekeys: which X-Wing
// key pairs an agent holds, which of them a packet goes out with, and when a
// seed has to be deleted.
//
// [Published] is the prekey of the descriptor with its superseded ones,
// [Issuer] the two keys offered to one peer, [Held] the one key received from a
// peer. All are plain values: a transition returns the new value and leaves its
// receiver as it was, so that the caller stores the new value and what was
// deleted in one transaction and keeps the old value when that fails. A
// transition also returns the keys it deleted, whose rows the caller removes in
// that transaction and whose seeds it destroys after it. The package reads no
// clock and stores nothing.
package prekey

import (
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Key is an X-Wing key pair of this agent.
type Key struct {
	ID        string // hex SHA-256 of PublicKey
	PublicKey []byte // 1216 bytes
	Seed      *suite.Seed
}

// NewKey derives the key pair of a seed (03#x-wing), which it shares.
func NewKey(seed *suite.Seed) Key {
	expanded := suite.NewDecapsulationKey(seed)
	defer expanded.Destroy()
	pk := expanded.PublicKey()
	return Key{ID: suite.Hex256(pk), PublicKey: pk, Seed: seed}
}

// Generate returns a fresh key pair.
func Generate() Key { return NewKey(suite.NewSeed()) }

// ended reports whether a seed kept since a moment has to be gone at now: at
// exactly the end of the window it is.
func ended(since, now int64) bool { return now-since >= wire.OfflineWindowSeconds }
