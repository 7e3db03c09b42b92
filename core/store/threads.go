package store

import "strings"

// Thread is what the rules of a profile keep of a thread (08#profile-rules).
type Thread struct {
	Profile  string
	Peer     string
	ThreadID string
	State    string
	Final    bool   // no message follows
	Opener   string // ACE ID that sent the first entry
	Sent     bool   // this identity has sent an entry
	Entries  int
	HeadAt   int64 // timestamp of the last entry
}

// ThreadEntry is one entry of a thread's history.
type ThreadEntry struct {
	Type      string
	MessageID string
	Timestamp int64
	Sender    string // ACE ID
}

const threadColumns = "profile, peer, thread_id, state, final, opener, sent, entries, head_at"

func (t *Thread) fields() []any {
	return []any{&t.Profile, &t.Peer, &t.ThreadID, &t.State, &t.Final, &t.Opener, &t.Sent, &t.Entries, &t.HeadAt}
}

func scanThread(r scanner) (t Thread, err error) { return t, r.Scan(t.fields()...) }

func scanThreadEntry(r scanner) (e ThreadEntry, err error) {
	return e, r.Scan(&e.Type, &e.MessageID, &e.Timestamp, &e.Sender)
}

// Thread returns a thread and whether it has a history.
func (tx *Tx) Thread(profile, peer, threadID string) (Thread, bool, error) {
	var t Thread
	ok, err := tx.get("SELECT "+threadColumns+" FROM thread WHERE profile = ? AND peer = ? AND thread_id = ?",
		[]any{profile, peer, threadID}, t.fields()...)
	return t, ok, err
}

// Threads returns the threads of a profile with a peer, or with all of them when
// peer is "", the one with the oldest head first.
func (tx *Tx) Threads(profile, peer string) ([]Thread, error) {
	query, args := "SELECT "+threadColumns+" FROM thread WHERE profile = ?", []any{profile}
	if peer != "" {
		query, args = query+" AND peer = ?", append(args, peer)
	}
	return rows(tx, scanThread, query+" ORDER BY head_at, peer, thread_id", args...)
}

// ThreadPeers returns the peers with whom there is a thread of a profile with the
// given ID, sorted.
func (tx *Tx) ThreadPeers(profile, threadID string) ([]string, error) {
	return rows(tx, text, "SELECT peer FROM thread WHERE profile = ? AND thread_id = ? ORDER BY peer", profile, threadID)
}

// ThreadEntries returns the last n entries of a thread, 0 being all, the newest
// first.
func (tx *Tx) ThreadEntries(profile, peer, threadID string, n int) ([]ThreadEntry, error) {
	if n == 0 {
		n = -1
	}
	return rows(tx, scanThreadEntry, `SELECT type, message_id, timestamp, sender FROM thread_entry
		WHERE profile = ? AND peer = ? AND thread_id = ? ORDER BY position DESC LIMIT ?`, profile, peer, threadID, n)
}

// CountOpenThreads returns how many threads of a profile with a peer are not
// final.
func (tx *Tx) CountOpenThreads(profile, peer string) (int, error) {
	var n int
	_, err := tx.get("SELECT count(*) FROM thread WHERE profile = ? AND peer = ? AND final = 0", []any{profile, peer}, &n)
	return n, err
}

// HasThreadEntry reports whether the history of a thread with a peer has the
// message of the given sender.
func (tx *Tx) HasThreadEntry(profile, peer, sender, messageID string) (bool, error) {
	var one int
	return tx.get("SELECT 1 FROM thread_entry WHERE profile = ? AND peer = ? AND sender = ? AND message_id = ?",
		[]any{profile, peer, sender, messageID}, &one)
}

// SaveThread writes a thread whose history has e as its last entry, the one
// numbered t.Entries.
func (tx *Tx) SaveThread(t Thread, e ThreadEntry) error {
	err := tx.run("INSERT INTO thread ("+threadColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
		SET state = excluded.state, final = excluded.final, sent = excluded.sent, entries = excluded.entries, head_at = excluded.head_at`,
		t.Profile, t.Peer, t.ThreadID, t.State, t.Final, t.Opener, t.Sent, t.Entries, t.HeadAt)
	if err != nil {
		return err
	}
	return tx.run("INSERT INTO thread_entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		t.Profile, t.Peer, t.ThreadID, t.Entries, e.Type, e.MessageID, e.Timestamp, e.Sender)
}

// DeleteThreads deletes the threads of a profile whose last entry is from before
// the given time and which are final, or on which this identity has neither sent
// nor queued anything. It returns how many went.
func (tx *Tx) DeleteThreads(profile string, before int64) (int64, error) {
	return tx.exec(`DELETE FROM thread WHERE profile = ? AND head_at < ? AND (final = 1 OR sent = 0)
		AND (final = 1 OR NOT EXISTS (SELECT 1 FROM outbox AS o
			WHERE o.peer = thread.peer AND o.thread_id = thread.thread_id AND o.thread_id <> ''))`, profile, before)
}

// PendingOn returns the ID of a message of one of the given types that was queued
// for a peer on a thread and has no outcome, "" when there is none. Messages first
// attempted at or before the given time do not count.
func (tx *Tx) PendingOn(peer, threadID string, types []string, until int64) (string, error) {
	if len(types) == 0 {
		return "", nil
	}
	args := []any{peer, threadID, until}
	for _, t := range types {
		args = append(args, t)
	}
	var messageID string
	_, err := tx.get(`SELECT message_id FROM outbox WHERE peer = ? AND thread_id = ? AND thread_id <> '' AND state = 'pending'
		AND (attempts = 0 OR first_attempt_at > ?) AND type IN (?`+strings.Repeat(", ?", len(types)-1)+`) LIMIT 1`, args, &messageID)
	return messageID, err
}

// PendingOf returns the threads for which messages of a type were queued that have
// no outcome, oldest first: their peers and IDs, the sender local as the opener, and
// when the message was queued as the head's time. Messages first attempted at or
// before the given time do not count.
func (tx *Tx) PendingOf(messageType, local string, until int64) ([]Thread, error) {
	scan := func(r scanner) (t Thread, err error) {
		t.Opener = local
		return t, r.Scan(&t.Peer, &t.ThreadID, &t.HeadAt)
	}
	return rows(tx, scan, `SELECT peer, thread_id, created_at FROM outbox WHERE state = 'pending' AND next_attempt_at > 0 AND type = ?
		AND thread_id <> '' AND (attempts = 0 OR first_attempt_at > ?) ORDER BY +seq`, messageType, until)
}
