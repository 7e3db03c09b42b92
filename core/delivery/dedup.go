package delivery

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// minSeenCapacity is the least C that 06#deduplication allows an endpoint.
const minSeenCapacity = 100_000

// senderShare is the part of C that one sender may hold: Q = max(1, floor(C / 16)).
const senderShare = 16

// Verdict says whether a message was seen before (06#deduplication).
type Verdict string

// The verdicts.
const (
	VerdictNew           Verdict = "new"
	VerdictDuplicate     Verdict = "duplicate"
	VerdictBeyondHorizon Verdict = "beyond_horizon"
)

// SeenStore decides which messages were seen before. Its entries, its horizon H
// and the sender horizons H[from] are rows of the endpoint's store, changed in
// the caller's transaction (06#deduplication).
type SeenStore struct {
	Capacity int64 // C, in entries
}

// Start makes a new store begin with H = F - 1. Code: storage_failed when the
// horizon is missing beside a delivery history: forgetting it would take old
// packets for new ones.
func (s SeenStore) Start(tx *store.Tx, now int64) error {
	_, started, err := tx.SeenHorizon()
	if err != nil || started {
		return err
	}
	history, err := tx.HasHistory()
	if err != nil {
		return err
	}
	if history {
		return fault.New(fault.StorageFailed, "the horizon of the seen store is missing beside delivered messages")
	}
	return tx.SetSeenHorizon(seenFloor(now) - 1)
}

// Judge says what a message is, without changing anything.
func (s SeenStore) Judge(tx *store.Tx, e store.Seen) (Verdict, error) {
	seen, err := tx.HasSeen(e.Peer, e.MessageID)
	if err != nil {
		return "", err
	}
	if seen {
		return VerdictDuplicate, nil
	}
	h, err := horizon(tx)
	if err != nil {
		return "", err
	}
	ofSender, ok, err := tx.SenderHorizon(e.Peer)
	if err != nil {
		return "", err
	}
	if e.Timestamp <= h || ok && e.Timestamp <= ofSender {
		return VerdictBeyondHorizon, nil
	}
	return VerdictNew, nil
}

// Commit inserts a new message and applies the bounds in the order of
// 06#deduplication.
func (s SeenStore) Commit(tx *store.Tx, e store.Seen, now int64) error {
	if err := tx.AddSeen(e); err != nil {
		return err
	}
	if err := s.applyFloor(tx, now); err != nil {
		return err
	}
	if err := s.applyQuota(tx, e.Peer); err != nil {
		return err
	}
	if err := s.applyCapacity(tx); err != nil {
		return err
	}
	return s.foldSenderHorizons(tx)
}

// applyFloor is step 1, Floor: the entries below F leave, and H is raised to the
// last of them.
func (s SeenStore) applyFloor(tx *store.Tx, now int64) error {
	last, ok, err := tx.LatestSeenBefore(seenFloor(now))
	if err != nil || !ok {
		return err
	}
	if err := tx.DeleteSeen(last); err != nil {
		return err
	}
	return raiseHorizon(tx, last)
}

// applyQuota is step 2, Sender quota.
func (s SeenStore) applyQuota(tx *store.Tx, peer string) error {
	quota := max(1, s.Capacity/senderShare)
	for {
		n, err := tx.SeenCountOf(peer)
		if err != nil || n <= quota {
			return err
		}
		smallest, _, err := tx.SmallestSeenOf(peer)
		if err != nil {
			return err
		}
		if err := evict(tx, smallest); err != nil {
			return err
		}
	}
}

// applyCapacity is step 3, Capacity.
func (s SeenStore) applyCapacity(tx *store.Tx) error {
	for {
		n, err := tx.SeenCount()
		if err != nil || n <= s.Capacity {
			return err
		}
		smallest, _, err := tx.SmallestSeen()
		if err != nil {
			return err
		}
		if err := evict(tx, smallest); err != nil {
			return err
		}
	}
}

// evict removes an entry into its sender's horizon, and with it every entry of
// that sender at or below it.
func evict(tx *store.Tx, e store.Seen) error {
	h, err := tx.RaiseSenderHorizon(e.Peer, e.Timestamp)
	if err != nil {
		return err
	}
	return tx.DeleteSeenOf(e.Peer, h)
}

// foldSenderHorizons is step 4, Sender horizons.
func (s SeenStore) foldSenderHorizons(tx *store.Tx) error {
	h, err := horizon(tx)
	if err != nil {
		return err
	}
	if err := tx.DeleteSenderHorizons(h); err != nil {
		return err
	}
	count, err := tx.CountSenderHorizons()
	if err != nil || count <= s.Capacity {
		return err
	}
	first, err := tx.SenderHorizons(count - s.Capacity/2)
	if err != nil {
		return err
	}
	folded := max(h, first[len(first)-1].Horizon)
	if err := tx.SetSeenHorizon(folded); err != nil {
		return err
	}
	if err := tx.DeleteSeen(folded); err != nil {
		return err
	}
	return tx.DeleteSenderHorizons(folded)
}

func raiseHorizon(tx *store.Tx, t int64) error {
	h, err := horizon(tx)
	if err != nil {
		return err
	}
	return tx.SetSeenHorizon(max(h, t))
}

// horizon returns H of a store that was started.
func horizon(tx *store.Tx) (int64, error) {
	h, ok, err := tx.SeenHorizon()
	if err == nil && !ok {
		err = fault.New(fault.StorageFailed, "the seen store was not started")
	}
	return h, err
}

// seenFloor is F = now - 2 · OFFLINE_WINDOW_SECONDS.
func seenFloor(now int64) int64 { return now - 2*wire.OfflineWindowSeconds }
