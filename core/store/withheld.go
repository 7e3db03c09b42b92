package store

// maxWithheld is how many messages are withheld at most.
const maxWithheld = 10_000

// Withheld is a delivered message that is kept from its reader.
type Withheld struct {
	Number int64 // in quarantine, given by the store
	Message
}

const withheldColumns = "number, message_id, peer, type, thread_id, sealed, sent_at, received_at"

func (w *Withheld) fields() []any {
	return []any{&w.Number, &w.MessageID, &w.Peer, &w.Type, &w.ThreadID, &w.Body, &w.SentAt, &w.ReceivedAt}
}

func (tx *Tx) scanWithheld(r scanner) (w Withheld, err error) {
	err = r.Scan(w.fields()...)
	w.Body, w.Damaged = tx.openBody(withheldTable, w.Peer, w.MessageID, w.Body)
	return w, err
}

// nextInQuarantine gives the next number in quarantine.
func (tx *Tx) nextInQuarantine() (n int64, err error) {
	_, err = tx.get("UPDATE counter SET value = value + 1 WHERE name = 'quarantine' RETURNING value", nil, &n)
	return n, err
}

// AddWithheld keeps a delivered message from its reader. One that is there already
// stays as it is. Of more than 10,000 the oldest one goes of whom most are from, so
// that nobody can push out what others have sent; it is returned, nil for none.
func (tx *Tx) AddWithheld(m Message) (gone *Withheld, err error) {
	n, err := tx.nextInQuarantine()
	if err != nil {
		return nil, err
	}
	err = tx.run("INSERT INTO withheld ("+withheldColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		n, m.MessageID, m.Peer, m.Type, m.ThreadID, tx.sealBody(withheldTable, m.Peer, m.MessageID, m.Body), m.SentAt, m.ReceivedAt)
	if err != nil || n <= maxWithheld {
		return nil, err
	}
	var oldest, kept int64
	found, err := tx.get("SELECT min(number), sum(count(*)) OVER () FROM withheld GROUP BY peer ORDER BY count(*) DESC, 1 LIMIT 1", nil, &oldest, &kept)
	if err != nil || !found || kept <= maxWithheld {
		return nil, err
	}
	w, found, err := tx.WithheldMessage(oldest)
	if err == nil && found {
		_, err = tx.DropWithheld(oldest)
	}
	return &w, err
}

// HasWithheld reports whether a peer's message is withheld.
func (tx *Tx) HasWithheld(peer, messageID string) (bool, error) {
	var one int
	return tx.get("SELECT 1 FROM withheld WHERE message_id = ? AND peer = ?", []any{messageID, peer}, &one)
}

// CountQuarantined returns how many messages and packets are in quarantine.
func (tx *Tx) CountQuarantined() (n int, err error) {
	_, err = tx.get("SELECT (SELECT count(*) FROM withheld) + (SELECT count(*) FROM quarantine)", nil, &n)
	return n, err
}

// WithheldMessages returns the withheld messages, oldest first.
func (tx *Tx) WithheldMessages() ([]Withheld, error) {
	return rows(tx, tx.scanWithheld, "SELECT "+withheldColumns+" FROM withheld ORDER BY number")
}

// WithheldMessage returns a withheld message and whether there is one of that
// number.
func (tx *Tx) WithheldMessage(number int64) (w Withheld, ok bool, err error) {
	list, err := rows(tx, tx.scanWithheld, "SELECT "+withheldColumns+" FROM withheld WHERE number = ?", number)
	if err != nil || len(list) == 0 {
		return Withheld{}, false, err
	}
	return list[0], true, nil
}

// DropWithheld removes a withheld message, and reports whether there was one.
func (tx *Tx) DropWithheld(number int64) (bool, error) {
	n, err := tx.exec("DELETE FROM withheld WHERE number = ?", number)
	return n > 0, err
}
