package store

// The states of an [OutboxEntry] (06#outbox-sender).
const (
	Pending         = "pending"
	Delivered       = "delivered"
	Rejected        = "rejected"
	Expired         = "expired"
	PendingApproval = "pending_approval" // not in the Outbox yet: its owner has not let it
)

// OutboxEntry is one message of the Outbox (06#outbox-sender).
type OutboxEntry struct {
	MessageID      string
	Peer           string
	Content        []byte // canonical private content without its protocol members, nil when it is damaged
	Type           string
	ThreadID       string
	RequestID      string // local idempotency key, "" without
	CreatedAt      int64
	State          string
	Attempts       int
	FirstAttemptAt int64 // 0 before
	NextAttemptAt  int64
	ClaimedUntil   int64  // an attempt is being made until then, 0: none
	Prekey         string // of the latest attempt, "" when that encrypted nothing
	PrekeyIsPeer   bool   // that prekey was a peer prekey
	Relay          string // that accepted it last, "" before
	SettledAt      int64  // 0 while pending
	Abandoned      bool
	RemoteCode     string
	LastError      string
	HeldAt         int64  // when it was written that had to wait for its owner, 0 for any other
	HeldUntil      int64  // when it is rejected unless its owner has decided, 0 for any other
	Reason         string // why it does not go on, or how its owner ended it, "" for none
	Damaged        error  // storage_failed with [ErrDamaged] for a content that does not open, else nil
}

const outboxColumns = `message_id, peer, sealed, type, thread_id, request_id, created_at, state, attempts, first_attempt_at,
	next_attempt_at, claimed_until, prekey, prekey_is_peer, relay, settled_at, abandoned, remote_code, last_error,
	held_at, held_until, reason`

const (
	selectPending = "SELECT " + outboxColumns + " FROM outbox WHERE state = 'pending' AND next_attempt_at <= ? ORDER BY +seq"
	selectStarted = "SELECT " + outboxColumns + " FROM outbox WHERE state = 'pending' AND attempts > 0 AND first_attempt_at <= ? ORDER BY first_attempt_at, seq"
	selectHeld    = "SELECT " + outboxColumns + " FROM outbox WHERE state = 'pending_approval' AND held_until <= ? ORDER BY +seq"
)

func (e *OutboxEntry) fields() []any {
	return []any{&e.MessageID, &e.Peer, &e.Content, &e.Type, &e.ThreadID, &e.RequestID, &e.CreatedAt, &e.State, &e.Attempts, &e.FirstAttemptAt,
		&e.NextAttemptAt, &e.ClaimedUntil, &e.Prekey, &e.PrekeyIsPeer, &e.Relay, &e.SettledAt, &e.Abandoned, &e.RemoteCode, &e.LastError,
		&e.HeldAt, &e.HeldUntil, &e.Reason}
}

func (tx *Tx) scanOutbox(r scanner) (e OutboxEntry, err error) {
	err = r.Scan(e.fields()...)
	e.Content, e.Damaged = tx.openBody(outboxTable, e.Peer, e.MessageID, e.Content)
	return e, err
}

// oneOutbox returns the entry of a query and whether there is one.
func (tx *Tx) oneOutbox(query string, args ...any) (e OutboxEntry, ok bool, err error) {
	ok, err = tx.get(query, args, e.fields()...)
	if ok {
		e.Content, e.Damaged = tx.openBody(outboxTable, e.Peer, e.MessageID, e.Content)
	}
	return e, ok, err
}

// AddOutbox stores a new entry.
func (tx *Tx) AddOutbox(e OutboxEntry) error {
	return tx.run("INSERT INTO outbox ("+outboxColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		e.MessageID, e.Peer, tx.sealBody(outboxTable, e.Peer, e.MessageID, e.Content), e.Type, e.ThreadID, e.RequestID, e.CreatedAt, e.State, e.Attempts, e.FirstAttemptAt,
		e.NextAttemptAt, e.ClaimedUntil, e.Prekey, e.PrekeyIsPeer, e.Relay, e.SettledAt, e.Abandoned, e.RemoteCode, e.LastError,
		e.HeldAt, e.HeldUntil, e.Reason)
}

// Outbox returns an entry and whether there is one.
func (tx *Tx) Outbox(messageID string) (OutboxEntry, bool, error) {
	return tx.oneOutbox("SELECT "+outboxColumns+" FROM outbox WHERE message_id = ?", messageID)
}

// OutboxWithPrefix returns at most limit entries whose message ID begins with
// prefix, which has to be made of hex digits and hyphens.
func (tx *Tx) OutboxWithPrefix(prefix string, limit int) ([]OutboxEntry, error) {
	return rows(tx, tx.scanOutbox, "SELECT "+outboxColumns+" FROM outbox WHERE message_id >= ? AND message_id < ? ORDER BY message_id LIMIT ?",
		prefix, prefix+"~", limit)
}

// OutboxByRequest returns the entry made for a peer with an idempotency key.
func (tx *Tx) OutboxByRequest(peer, requestID string) (OutboxEntry, bool, error) {
	return tx.oneOutbox("SELECT "+outboxColumns+" FROM outbox WHERE peer = ? AND request_id = ? AND request_id <> ''", peer, requestID)
}

// OutboxEntries returns all entries, oldest first.
func (tx *Tx) OutboxEntries() ([]OutboxEntry, error) {
	return rows(tx, tx.scanOutbox, "SELECT "+outboxColumns+" FROM outbox ORDER BY seq")
}

// OutboxPending returns the entries without an outcome whose next attempt is at
// or before the given time, in the order they were queued.
func (tx *Tx) OutboxPending(until int64) ([]OutboxEntry, error) {
	return rows(tx, tx.scanOutbox, selectPending, until)
}

// OutboxStarted returns the pending entries first attempted at or before the
// given time.
func (tx *Tx) OutboxStarted(until int64) ([]OutboxEntry, error) {
	return rows(tx, tx.scanOutbox, selectStarted, until)
}

// OutboxAhead returns the message that has not been attempted yet and was queued
// for the same peer first, "" when that is not before the given one.
func (tx *Tx) OutboxAhead(peer, messageID string) (ahead string, err error) {
	_, err = tx.get(`SELECT message_id FROM outbox WHERE peer = ? AND state = 'pending' AND attempts = 0
		AND seq < (SELECT seq FROM outbox WHERE message_id = ?) ORDER BY seq LIMIT 1`, []any{peer, messageID}, &ahead)
	return ahead, err
}

// OutboxHeld returns the entries that wait for their owner and are to be rejected
// at or before the given time unless he decides, in the order they were written.
func (tx *Tx) OutboxHeld(until int64) ([]OutboxEntry, error) {
	return rows(tx, tx.scanOutbox, selectHeld, until)
}

// Requeue makes an entry that was held the last of the Outbox, as of the given
// time. The caller saves the rest of it.
func (tx *Tx) Requeue(messageID string, createdAt int64) error {
	return tx.run("UPDATE outbox SET seq = (SELECT max(seq) FROM outbox) + 1, created_at = ? WHERE message_id = ?", createdAt, messageID)
}

// CountPending returns how many entries have no outcome.
func (tx *Tx) CountPending() (int, error) {
	var n int
	_, err := tx.get("SELECT count(*) FROM outbox WHERE state = 'pending'", nil, &n)
	return n, err
}

// SaveOutbox writes what changes about an entry. The message itself stays.
func (tx *Tx) SaveOutbox(e OutboxEntry) error {
	return tx.run(`UPDATE outbox SET state = ?, attempts = ?, first_attempt_at = ?, next_attempt_at = ?, claimed_until = ?, prekey = ?,
		prekey_is_peer = ?, relay = ?, settled_at = ?, abandoned = ?, remote_code = ?, last_error = ?, reason = ? WHERE message_id = ?`,
		e.State, e.Attempts, e.FirstAttemptAt, e.NextAttemptAt, e.ClaimedUntil, e.Prekey,
		e.PrekeyIsPeer, e.Relay, e.SettledAt, e.Abandoned, e.RemoteCode, e.LastError, e.Reason, e.MessageID)
}

// ReceiptApplied reports whether a receipt was applied to a message earlier.
func (tx *Tx) ReceiptApplied(messageID, outcome, prekey string) (bool, error) {
	var one int
	return tx.get("SELECT 1 FROM applied_receipt WHERE message_id = ? AND outcome = ? AND prekey = ?", []any{messageID, outcome, prekey}, &one)
}

// SetReceiptApplied records that a receipt was applied to a message.
func (tx *Tx) SetReceiptApplied(messageID, outcome, prekey string) error {
	return tx.run("INSERT OR IGNORE INTO applied_receipt VALUES (?, ?, ?)", messageID, outcome, prekey)
}
