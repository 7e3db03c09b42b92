package delivery

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// PendingOn returns the ID of the governed message of this identity that is
// pending in the Outbox on a thread with a peer and so makes it busy, "" when the
// thread is free (08#sender-state-and-busy-threads). A message whose time is over
// is not pending, whether or not somebody has noticed, and one without a thread
// makes none busy.
func (n *Node) PendingOn(tx *store.Tx, peer, threadID string, now int64) (string, error) {
	return tx.PendingOn(peer, threadID, n.profiles.Governed(), now-wire.OfflineWindowSeconds)
}

// checkBusy fails with thread_busy for a thread that is.
func (n *Node) checkBusy(tx *store.Tx, peer, threadID string, now int64) error {
	pending, err := n.PendingOn(tx, peer, threadID, now)
	if err == nil && pending != "" {
		err = fault.New(fault.ThreadBusy, "message %s on thread %.80q waits for its receipt", pending, threadID)
	}
	return err
}

// Threads returns the threads that the rules of a profile keep for the identity
// local.
func Threads(tx *store.Tx, profileID, local string) profile.Threads {
	return threads{tx: tx, profile: profileID, local: local}
}

type threads struct {
	tx             *store.Tx
	profile, local string
}

// Thread returns a thread with the last two entries of its history.
func (s threads) Thread(peer, threadID string) (profile.Thread, error) {
	row, ok, err := s.tx.Thread(s.profile, peer, threadID)
	if err != nil || !ok {
		return profile.Thread{}, err
	}
	last, err := s.tx.ThreadEntries(s.profile, peer, threadID, 2)
	if err != nil {
		return profile.Thread{}, err
	}
	t := profile.Thread{State: row.State, Length: row.Entries, Opener: row.Opener}
	if len(last) > 0 {
		t.Head = entryOf(last[0])
	}
	if len(last) > 1 {
		t.Before = entryOf(last[1])
	}
	return t, nil
}

func entryOf(e store.ThreadEntry) profile.ThreadEntry {
	return profile.ThreadEntry{Type: e.Type, MessageID: e.MessageID, Timestamp: e.Timestamp, From: e.Sender}
}

// CountOpen returns how many threads with a peer are in no final state.
func (s threads) CountOpen(peer string) (int, error) { return s.tx.CountOpenThreads(s.profile, peer) }

// Append adds an entry to a thread, unless its history has it.
func (s threads) Append(peer, threadID string, e profile.ThreadEntry, state string, final bool) error {
	known, err := s.tx.HasThreadEntry(s.profile, peer, e.From, e.MessageID)
	if err != nil || known {
		return err
	}
	t, ok, err := s.tx.Thread(s.profile, peer, threadID)
	if err != nil {
		return err
	}
	if !ok {
		t = store.Thread{Profile: s.profile, Peer: peer, ThreadID: threadID, Opener: e.From}
	}
	t.State, t.Final, t.HeadAt = state, final, e.Timestamp
	t.Sent = t.Sent || e.From == s.local
	t.Entries++
	return s.tx.SaveThread(t, store.ThreadEntry{Type: e.Type, MessageID: e.MessageID, Timestamp: e.Timestamp, Sender: e.From})
}
