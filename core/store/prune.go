package store

const (
	deleteContacts = "DELETE FROM contact WHERE expires_at <> 0 AND expires_at <= ?"
	deleteOutbox   = "DELETE FROM outbox WHERE state <> 'pending' AND settled_at > 0 AND settled_at <= ?"
)

// DeleteExpiredContacts removes the rows that have expired at now and returns
// how many there were.
func (tx *Tx) DeleteExpiredContacts(now int64) (int64, error) { return tx.exec(deleteContacts, now) }

// DeleteRequests removes the held requests received at or before the given time
// and returns how many there were.
func (tx *Tx) DeleteRequests(until int64) (int64, error) {
	return tx.exec("DELETE FROM request WHERE received_at <= ?", until) // there are only a few
}

// DeleteSettled removes the Outbox entries that ended at or before the given
// time and returns how many there were.
func (tx *Tx) DeleteSettled(until int64) (int64, error) { return tx.exec(deleteOutbox, until) }
