package store

import "strings"

// Message is a delivered message: the delivery record of 06#receive-pipeline
// step 10 and what the application reads.
type Message struct {
	MessageID  string
	Peer       string // who sent it
	Type       string
	ThreadID   string
	Body       []byte // canonical JSON, nil when it is damaged
	SentAt     int64
	ReceivedAt int64
	Handled    bool
	Damaged    error // storage_failed with [ErrDamaged] for a body that does not open, else nil
}

const messageColumns = "message_id, peer, type, thread_id, sealed, sent_at, received_at, handled"

func (m *Message) fields() []any {
	return []any{&m.MessageID, &m.Peer, &m.Type, &m.ThreadID, &m.Body, &m.SentAt, &m.ReceivedAt, &m.Handled}
}

func (tx *Tx) scanMessage(r scanner) (m Message, err error) {
	err = r.Scan(m.fields()...)
	m.Body, m.Damaged = tx.openBody(messageTable, m.Peer, m.MessageID, m.Body)
	return m, err
}

// AddMessage stores a delivered message. One that is there already stays as it
// is: the record of a message is written once per (peer, message ID).
func (tx *Tx) AddMessage(m Message) error {
	return tx.run("INSERT INTO message ("+messageColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		m.MessageID, m.Peer, m.Type, m.ThreadID, tx.sealBody(messageTable, m.Peer, m.MessageID, m.Body), m.SentAt, m.ReceivedAt, m.Handled)
}

// HasMessage reports whether there is a delivery record of a peer's message.
func (tx *Tx) HasMessage(peer, messageID string) (bool, error) {
	var one int
	return tx.get("SELECT 1 FROM message WHERE message_id = ? AND peer = ?", []any{messageID, peer}, &one)
}

// MessageFilter selects messages. Zero members select everything.
type MessageFilter struct {
	Peer, Type, ThreadID string
	Unhandled            bool
	Since                int64 // received at or after
	Limit                int   // the newest Limit
}

// where returns the condition of a filter and its parameters.
func (f MessageFilter) where() (string, []any) {
	where, args := []string{"received_at >= ?"}, []any{f.Since}
	for _, c := range [...]struct{ column, value string }{{"peer", f.Peer}, {"type", f.Type}, {"thread_id", f.ThreadID}} {
		if c.value != "" {
			where, args = append(where, c.column+" = ?"), append(args, c.value)
		}
	}
	if f.Unhandled {
		where = append(where, "handled = 0")
	}
	return strings.Join(where, " AND "), args
}

// Messages returns the selected messages, oldest first.
func (tx *Tx) Messages(f MessageFilter) ([]Message, error) {
	where, args := f.where()
	limit := -1
	if f.Limit > 0 {
		limit = f.Limit
	}
	return rows(tx, tx.scanMessage, "SELECT "+messageColumns+" FROM (SELECT seq, "+messageColumns+" FROM message WHERE "+
		where+" ORDER BY seq DESC LIMIT ?) ORDER BY seq", append(args, limit)...)
}

// FirstMessage returns the oldest of the selected messages that opens, and whether
// there is one: a damaged one must not keep the others from whoever waits.
func (tx *Tx) FirstMessage(f MessageFilter) (m Message, ok bool, err error) {
	where, args := f.where()
	for damaged := 0; ; damaged++ {
		list, err := rows(tx, tx.scanMessage, "SELECT "+messageColumns+" FROM message WHERE "+where+" ORDER BY seq LIMIT 1 OFFSET ?", append(args, damaged)...)
		if err != nil || len(list) == 0 {
			return Message{}, false, err
		}
		if list[0].Damaged == nil {
			return list[0], true, nil
		}
	}
}

// MessagesWithPrefix returns at most limit messages, of one peer or with "" of
// all, whose ID begins with prefix, which has to be made of hex digits and
// hyphens.
func (tx *Tx) MessagesWithPrefix(prefix, peer string, limit int) ([]Message, error) {
	return rows(tx, tx.scanMessage, "SELECT "+messageColumns+` FROM message
		WHERE message_id >= ? AND message_id < ? AND (? = '' OR peer = ?) ORDER BY message_id, peer LIMIT ?`,
		prefix, prefix+"~", peer, peer, limit)
}

// SetHandled marks the message of a peer with the given ID and reports whether
// there is one.
func (tx *Tx) SetHandled(peer, messageID string) (bool, error) {
	return tx.mark("UPDATE message SET handled = 1 WHERE message_id = ? AND peer = ?", messageID, peer)
}

// UnsetHandled takes that mark away, and forgets the attempts at a message that
// had none. It reports whether there is one.
func (tx *Tx) UnsetHandled(peer, messageID string) (bool, error) {
	if _, err := tx.mark("DELETE FROM handling WHERE message_id = ? AND peer = ?", messageID, peer); err != nil {
		return false, err
	}
	return tx.mark("UPDATE message SET handled = 0 WHERE message_id = ? AND peer = ?", messageID, peer)
}

func (tx *Tx) mark(query, messageID, peer string) (found bool, err error) {
	err = tx.aside(func() error {
		n, err := tx.exec(query, messageID, peer)
		found = n > 0
		return err
	})
	return found, err
}

// SetAllHandled marks the messages of a peer, or with "" of all, and returns how
// many were not marked before.
func (tx *Tx) SetAllHandled(peer string) (n int64, err error) {
	err = tx.aside(func() error {
		n, err = tx.exec("UPDATE message SET handled = 1 WHERE handled = 0 AND (? = '' OR peer = ?)", peer, peer)
		return err
	})
	return n, err
}

// CountUnhandled returns how many messages are not marked as handled.
func (tx *Tx) CountUnhandled() (int64, error) {
	var n int64
	_, err := tx.get("SELECT coalesce((SELECT max(seq) FROM message), 0) - value FROM counter WHERE name = 'handled'", nil, &n)
	return n, err
}
