package store

// How many attempts of a message are kept: the first ones, and those made last.
const (
	firstAttempts = 3
	lastAttempts  = 13
)

// Attempt is what one attempt to deliver a message came to (06#outbox-sender).
type Attempt struct {
	MessageID       string
	Number          int // from 1
	At              int64
	Relay           string // that took the packet or whose failure counts, "" when none was asked
	Status          int    // HTTP, 0 without an answer
	Code            string // of the failure, "" when a relay took the packet
	RemoteCode      string // that the relay stated, "" for none
	Prekey          string // that the packet was encrypted to, "" when nothing was
	PrekeyIsPeer    bool
	PermitExpiresAt int64 // of the permit presented, 0 without
	NextAttemptAt   int64
}

const attemptColumns = "message_id, number, at, relay, status, code, remote_code, prekey, prekey_is_peer, permit_expires_at, next_attempt_at"

func (a *Attempt) fields() []any {
	return []any{&a.MessageID, &a.Number, &a.At, &a.Relay, &a.Status, &a.Code, &a.RemoteCode, &a.Prekey, &a.PrekeyIsPeer, &a.PermitExpiresAt, &a.NextAttemptAt}
}

// AddAttempt records an attempt. Of a message the first 3 and the last 13 are
// kept, for as long as the message is in the Outbox.
func (tx *Tx) AddAttempt(a Attempt) error {
	err := tx.run("INSERT OR REPLACE INTO attempt ("+attemptColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		a.MessageID, a.Number, a.At, a.Relay, a.Status, a.Code, a.RemoteCode, a.Prekey, a.PrekeyIsPeer, a.PermitExpiresAt, a.NextAttemptAt)
	if err != nil || a.Number <= firstAttempts+lastAttempts {
		return err
	}
	return tx.run("DELETE FROM attempt WHERE message_id = ? AND number > ? AND number <= ?", a.MessageID, firstAttempts, a.Number-lastAttempts)
}

// Attempts returns the attempts kept of a message, in order.
func (tx *Tx) Attempts(messageID string) ([]Attempt, error) {
	return rows(tx, func(r scanner) (a Attempt, err error) { return a, r.Scan(a.fields()...) },
		"SELECT "+attemptColumns+" FROM attempt WHERE message_id = ? ORDER BY number", messageID)
}
