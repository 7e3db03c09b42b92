package store

import "github.com/ace-toolkit/ace/core/ownerfile"

// Handling is what came of handing a message to a handler.
type Handling struct {
	MessageID, Peer string
	Attempts        int // begun, the one under way included
	Failures        int // attempts that ended and failed
	StartedAt       int64
	Running         bool // begun and not ended: under way, or cut off
	LastExit        int  // status of the last attempt that ended, 128 and the number for a signal
	LastError       string
	NextAttemptAt   int64
	GivenUp         bool
}

const handlingColumns = `message_id, peer, attempts, failures, started_at, running, last_exit, last_error, next_attempt_at, given_up`

func (h *Handling) fields() []any {
	return []any{&h.MessageID, &h.Peer, &h.Attempts, &h.Failures, &h.StartedAt, &h.Running, &h.LastExit, &h.LastError, &h.NextAttemptAt, &h.GivenUp}
}

func scanHandling(r scanner) (h Handling, err error) { return h, r.Scan(h.fields()...) }

// Handling returns what came of the attempts at a message, the zero Handling of
// it when there were none.
func (tx *Tx) Handling(peer, messageID string) (Handling, error) {
	h := Handling{MessageID: messageID, Peer: peer}
	_, err := tx.get("SELECT "+handlingColumns+" FROM handling WHERE message_id = ? AND peer = ?", []any{messageID, peer}, h.fields()...)
	return h, err
}

// Handlings returns the attempts at all messages that are not handled.
func (tx *Tx) Handlings() ([]Handling, error) {
	return rows(tx, scanHandling, "SELECT "+handlingColumns+" FROM handling")
}

// SetHandling saves what came of the attempts at a message.
func (tx *Tx) SetHandling(h Handling) error {
	return tx.aside(func() error {
		return tx.run("INSERT OR REPLACE INTO handling ("+handlingColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			h.MessageID, h.Peer, h.Attempts, h.Failures, h.StartedAt, h.Running, h.LastExit, h.LastError, h.NextAttemptAt, h.GivenUp)
	})
}

// Unhandled is a message for the handlers.
type Unhandled struct {
	Seq                   int64 // messages came in this order
	MessageID, Peer, Type string
}

// Unhandled returns at most limit messages behind seq, in the order in which they
// came, that are not handled nor given up.
func (tx *Tx) Unhandled(seq int64, limit int) ([]Unhandled, error) {
	scan := func(r scanner) (u Unhandled, err error) { return u, r.Scan(&u.Seq, &u.MessageID, &u.Peer, &u.Type) }
	return rows(tx, scan, `SELECT seq, m.message_id, m.peer, type FROM message m
		LEFT JOIN handling h ON h.message_id = m.message_id AND h.peer = m.peer
		WHERE handled = 0 AND seq > ? AND coalesce(given_up, 0) = 0 ORDER BY seq LIMIT ?`, seq, limit)
}

// UnhandledAgain returns a number that changes whenever a message that was handled
// or given up is so no longer.
func (tx *Tx) UnhandledAgain() (n int64, err error) {
	_, err = tx.get("SELECT value FROM counter WHERE name = 'unhandled_again'", nil, &n)
	return n, err
}

// aside runs f, whose changes leave the [Version] of the store as it is.
func (tx *Tx) aside(f func() error) error {
	before := tx.conn.TotalChanges()
	err := f()
	tx.store.handled += tx.conn.TotalChanges() - before
	return err
}

// LockHandlers takes the role of handing messages of this store to handlers, which
// one process has at a time, as [Store.LockReceive] does that of receiving. A
// store in memory has no other process. Codes: lock_busy, which names the holder,
// and storage_failed.
func (s *Store) LockHandlers(command string, now int64) (release func() error, err error) {
	if s.path == "" {
		return func() error { return nil }, nil
	}
	lock, err := ownerfile.Acquire(s.path+"-handlers.lock", command, now)
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}
