package prekey

import "github.com/ace-toolkit/ace/core/suite"

// Held is the peer prekey that this agent holds of one peer, to encrypt its
// next first attempt to. The zero value holds none (04#peer-prekeys).
type Held struct {
	ID        string // hex SHA-256 of PublicKey
	PublicKey []byte // 1216 bytes
	Timestamp int64  // of the packet that carried it
	Pin       string // hash of the last pinned KEL event it was authenticated under
}

// Carried is what a packet that opened says about the key its sender offers.
type Carried struct {
	PublicKey []byte // nil when the content had none that is well formed
	Timestamp int64
	Pin       string // hash of the sender's last pinned KEL event, "" without a pin
	Contact   bool   // the packet was an ace:contact:1
}

// None reports whether no key is held.
func (h Held) None() bool { return len(h.PublicKey) == 0 }

// Record returns the key held after a packet from the peer opened, and whether
// it is that of the packet: one is recorded when the packet is newer than the
// one that carried the held key, whatever became of it (04#peer-prekeys).
func (h Held) Record(c Carried) (Held, bool) {
	if len(c.PublicKey) == 0 || c.Pin == "" || c.Contact {
		return h, false
	}
	if !h.None() && c.Timestamp <= h.Timestamp {
		return h, false
	}
	return Held{ID: suite.Hex256(c.PublicKey), PublicKey: c.PublicKey, Timestamp: c.Timestamp, Pin: c.Pin}, true
}

// Usable reports whether a first attempt made at now is encrypted to the held
// key, the peer's last pinned KEL event having the hash pin (04#peer-prekeys).
func (h Held) Usable(now int64, pin string) bool {
	return !h.None() && h.Pin == pin && !ended(h.Timestamp, now)
}

// Drop returns the key held after the one with the given ID turned out not to
// work: a receipt rejected:unknown_prekey named it or encapsulating to it
// failed. Another key stays. A blocked peer's key is dropped by storing the
// zero value.
func (h Held) Drop(id string) (Held, bool) {
	if h.None() || h.ID != id {
		return h, false
	}
	return Held{}, true
}
