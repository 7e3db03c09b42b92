package core

import (
	"cmp"
	"context"
	"slices"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Thread is a thread of the commerce profile (commerce#threads).
type Thread struct {
	ThreadID string // as the one who opened it chose it: untrusted
	Peer     string // ACE ID
	PeerName string
	State    commerce.State
	Role     commerce.Role // of this identity
	// Next lists the messages that the state takes, from either party.
	Next []commerce.Move
	// Pending is the ID of the own message that waits for its receipt: until
	// then the thread is busy. "" for none.
	Pending   string
	Entries   int // of the history
	UpdatedAt int64
}

// MyTurn reports whether this identity may send the next message now.
func (t Thread) MyTurn() bool {
	mine := func(m commerce.Move) bool { return m.By == t.Role }
	return t.Pending == "" && slices.ContainsFunc(t.Next, mine)
}

// ThreadEntry is an accepted message of a thread.
type ThreadEntry struct {
	Type      string
	MessageID string
	Timestamp int64
	From      string // ACE ID
}

// Threads returns the commerce threads with a peer, or all when peer is "", the
// one that changed last at the end. One that a message of this identity opens,
// once its receipt comes, is there as idle and without a history.
func (e *Endpoint) Threads(ctx context.Context, peer string) (list []Thread, err error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Threads(profile.CommerceID, peer)
		if err != nil {
			return err
		}
		opening, err := e.openings(tx, now)
		if err != nil {
			return err
		}
		for _, row := range opening {
			if peer == "" || row.Peer == peer {
				rows = append(rows, row)
			}
		}
		slices.SortStableFunc(rows, func(a, b store.Thread) int { return cmp.Compare(a.HeadAt, b.HeadAt) })
		for _, row := range rows {
			t, err := e.threadOf(tx, row, now)
			if err != nil {
				return err
			}
			list = append(list, t)
		}
		return nil
	})
	return list, err
}

// openings returns the threads that have no history yet, and of which the message
// that opens them waits for its receipt.
func (e *Endpoint) openings(tx *store.Tx, now int64) (list []store.Thread, err error) {
	waiting, err := tx.PendingOf(commerce.RFQ, e.ACEID(), now-wire.OfflineWindowSeconds)
	for _, row := range waiting {
		_, known, err := tx.Thread(profile.CommerceID, row.Peer, row.ThreadID)
		if err != nil {
			return nil, err
		}
		if !known {
			row.State = string(commerce.Idle)
			list = append(list, row)
		}
	}
	return list, err
}

// ThreadPeers returns the peers with whom there is a commerce thread of the given
// ID: each party chooses its own.
func (e *Endpoint) ThreadPeers(ctx context.Context, threadID string) (peers []string, err error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		if peers, err = tx.ThreadPeers(profile.CommerceID, threadID); err != nil {
			return err
		}
		opening, err := e.openings(tx, now)
		for _, row := range opening {
			if row.ThreadID == threadID {
				peers = append(peers, row.Peer)
			}
		}
		slices.Sort(peers)
		return err
	})
	return peers, err
}

// Thread returns a commerce thread and its history, oldest entry first. Code:
// invalid_argument when there is none.
func (e *Endpoint) Thread(ctx context.Context, peer, threadID string) (t Thread, history []ThreadEntry, err error) {
	now, err := e.now()
	if err != nil {
		return t, nil, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		row, err := e.threadRow(tx, peer, threadID, now)
		if err != nil {
			return err
		}
		if t, err = e.threadOf(tx, row, now); err != nil {
			return err
		}
		entries, err := tx.ThreadEntries(profile.CommerceID, peer, threadID, 0)
		for _, entry := range slices.Backward(entries) {
			history = append(history, ThreadEntry{Type: entry.Type, MessageID: entry.MessageID, Timestamp: entry.Timestamp, From: entry.Sender})
		}
		return err
	})
	return t, history, err
}

func (e *Endpoint) threadRow(tx *store.Tx, peer, threadID string, now int64) (store.Thread, error) {
	row, ok, err := tx.Thread(profile.CommerceID, peer, threadID)
	if err != nil || ok {
		return row, err
	}
	opening, err := e.openings(tx, now)
	if err != nil {
		return row, err
	}
	i := slices.IndexFunc(opening, func(o store.Thread) bool { return o.Peer == peer && o.ThreadID == threadID })
	if i < 0 {
		return row, fault.New(fault.InvalidArgument, "no thread %.80q with %s", threadID, peer)
	}
	return opening[i], nil
}

func (e *Endpoint) threadOf(tx *store.Tx, row store.Thread, now int64) (t Thread, err error) {
	t = Thread{
		ThreadID: row.ThreadID, Peer: row.Peer, State: commerce.State(row.State), Role: commerce.Seller,
		Next: commerce.Next(commerce.State(row.State)), Entries: row.Entries, UpdatedAt: row.HeadAt,
	}
	if row.Opener == e.ACEID() {
		t.Role = commerce.Buyer
	}
	if t.PeerName, err = tx.Name(row.Peer); err != nil {
		return t, err
	}
	t.Pending, err = e.node.PendingOn(tx, row.Peer, row.ThreadID, now)
	return t, err
}

// Reference returns the member by which a commerce message refers to an earlier
// one of its thread, and that message's ID as the thread stands now; the member is
// "" for a type without one, the ID is "" where the thread has no such message
// (commerce#references).
func (e *Endpoint) Reference(ctx context.Context, peer, threadID, messageType string) (member, messageID string, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		t, err := delivery.Threads(tx, profile.CommerceID, e.ACEID()).Thread(peer, threadID)
		member, messageID = commerce.Reference(messageType, t)
		return err
	})
	return member, messageID, err
}

// pruneThreads deletes what commerce#bounds-and-retention lets go.
func (e *Endpoint) pruneThreads(ctx context.Context, now int64) error {
	return e.store.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.DeleteThreads(profile.CommerceID, commerce.DeletableBefore(now))
		return err
	})
}
