package prekey

import (
	"cmp"
	"slices"

	"github.com/ace-toolkit/ace/core/wire"
)

// Superseded is an earlier published prekey, kept for packets still under way.
type Superseded struct {
	Key
	At int64 // when it was superseded, Unix seconds
}

// Published is the prekey of the agent's descriptor and the superseded ones it
// still holds (04#prekey). The zero value holds none: its first Rotate sets the
// first prekey.
type Published struct {
	Current    Key
	Superseded []Superseded // oldest first, at most MAX_RETAINED_PREKEYS
}

// Rotate makes next the current prekey at now and supersedes the one before it.
// Deleted are the keys whose retention has ended and, above
// MAX_RETAINED_PREKEYS superseded ones, the oldest (04#prekey).
func (p Published) Rotate(next Key, now int64) (rotated Published, deleted []Key) {
	rotated, deleted = p.Prune(now)
	kept := slices.Clone(rotated.Superseded)
	if p.Current.ID != "" {
		kept = append(kept, Superseded{Key: p.Current, At: now})
	}
	// Times may go back with the clock; among equal ones the order of arrival counts.
	slices.SortStableFunc(kept, func(a, b Superseded) int { return cmp.Compare(a.At, b.At) })
	for len(kept) > wire.MaxRetainedPrekeys {
		deleted = append(deleted, kept[0].Key)
		kept = kept[1:]
	}
	return Published{Current: next, Superseded: kept}, deleted
}

// Prune deletes the superseded keys whose retention has ended at now. It runs
// whenever the agent opens a packet or rotates (04#prekey).
func (p Published) Prune(now int64) (pruned Published, deleted []Key) {
	pruned.Current = p.Current
	for _, s := range p.Superseded {
		if ended(s.At, now) {
			deleted = append(deleted, s.Key)
			continue
		}
		pruned.Superseded = append(pruned.Superseded, s)
	}
	return pruned, deleted
}

// Find returns the key with the given ID that may open a packet at now. A
// superseded one whose retention has ended may not, though its seed be still
// there (04#prekey).
func (p Published) Find(id string, now int64) (Key, bool) {
	if id == p.Current.ID {
		return p.Current, true
	}
	for _, s := range p.Superseded {
		if s.ID == id && !ended(s.At, now) {
			return s.Key, true
		}
	}
	return Key{}, false
}
