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
func (s SeenStore) Judge(tx *store.Tx, e store.Seen) (Verdict, error) { return s.in(tx).judge(e) }

// Commit inserts a new message and applies the bounds in the order of
// 06#deduplication.
func (s SeenStore) Commit(tx *store.Tx, e store.Seen, now int64) error {
	return s.in(tx).commit(e, now)
}

// seenTx is the seen store in one transaction, in which nobody else changes it.
// It remembers what it has read, so that most messages cost two statements.
type seenTx struct {
	SeenStore
	tx     *store.Tx
	peer   string // that state is about, "" before it is read
	state  store.SeenState
	folded bool // sender horizons were folded, and none has changed since
}

func (s SeenStore) in(tx *store.Tx) *seenTx { return &seenTx{SeenStore: s, tx: tx} }

// read reads how things stand for a sender, unless that is known.
func (s *seenTx) read(peer string) (err error) {
	if s.peer == peer {
		return nil
	}
	s.peer = ""
	if s.state, err = s.tx.SeenState(peer); err != nil {
		return err
	}
	if !s.state.Started {
		return errNotStarted
	}
	s.peer = peer
	return nil
}

func (s *seenTx) judge(e store.Seen) (Verdict, error) {
	seen, err := s.tx.HasSeen(e.Peer, e.MessageID)
	if err != nil {
		return "", err
	}
	if seen {
		return VerdictDuplicate, nil
	}
	if err := s.read(e.Peer); err != nil {
		return "", err
	}
	if e.Timestamp <= s.state.Horizon || s.state.HasSenderHorizon && e.Timestamp <= s.state.SenderHorizon {
		return VerdictBeyondHorizon, nil
	}
	return VerdictNew, nil
}

func (s *seenTx) commit(e store.Seen, now int64) error {
	if err := s.read(e.Peer); err != nil {
		return err
	}
	if err := s.tx.AddSeen(e, &s.state); err != nil {
		s.peer = ""
		return err
	}
	if s.within(now) {
		return nil
	}
	s.peer = "" // what is known may be over
	if err := s.bound(e.Peer, now); err != nil {
		return err
	}
	s.folded = true
	return nil
}

// within reports whether all bounds hold, so that applying them changes nothing.
func (s *seenTx) within(now int64) bool {
	return s.state.Earliest >= seenFloor(now) && s.state.OfSender <= s.quota() && s.state.Entries <= s.Capacity &&
		(s.folded || !s.state.SenderHorizons)
}

// bound applies the bounds in their order.
func (s *seenTx) bound(peer string, now int64) error {
	if err := s.applyFloor(s.tx, now); err != nil {
		return err
	}
	if err := s.applyQuota(s.tx, peer); err != nil {
		return err
	}
	if err := s.applyCapacity(s.tx); err != nil {
		return err
	}
	return s.foldSenderHorizons(s.tx)
}

// quota is Q, in entries of one sender.
func (s SeenStore) quota() int64 { return max(1, s.Capacity/senderShare) }

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
	for {
		n, err := tx.SeenCountOf(peer)
		if err != nil || n <= s.quota() {
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
		err = errNotStarted
	}
	return h, err
}

var errNotStarted = fault.New(fault.StorageFailed, "the seen store was not started")

// seenFloor is F = now - 2 · OFFLINE_WINDOW_SECONDS.
func seenFloor(now int64) int64 { return now - 2*wire.OfflineWindowSeconds }
