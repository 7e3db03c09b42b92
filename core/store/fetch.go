package store

// How many entries the bounded tables keep.
const (
	maxQuarantine = 100
	maxFetches    = 1000
)

// AddRetry counts a fetch of an inbox entry that ended in retry and returns the
// count (06#receive-pipeline). Counts of entries that the relay no longer
// serves are forgotten in time.
func (tx *Tx) AddRetry(streamID string, now int64) (int64, error) {
	if err := tx.run("INSERT INTO fetch VALUES (?, 1, ?) ON CONFLICT DO UPDATE SET retries = retries + 1, at = excluded.at", streamID, now); err != nil {
		return 0, err
	}
	if err := tx.run("DELETE FROM fetch WHERE stream_id IN (SELECT stream_id FROM fetch ORDER BY at DESC, stream_id LIMIT -1 OFFSET ?)", maxFetches); err != nil {
		return 0, err
	}
	var n int64
	_, err := tx.get("SELECT retries FROM fetch WHERE stream_id = ?", []any{streamID}, &n)
	return n, err
}

// ClearRetries forgets the count of an entry that has its final disposition.
func (tx *Tx) ClearRetries(streamID string) error {
	return tx.run("DELETE FROM fetch WHERE stream_id = ?", streamID)
}

// Retried reports whether fetches of an entry are counted.
func (tx *Tx) Retried(streamID string) (bool, error) {
	var n int64
	return tx.get("SELECT retries FROM fetch WHERE stream_id = ?", []any{streamID}, &n)
}

// Retries returns the counts by stream ID.
func (tx *Tx) Retries() (map[string]int64, error) {
	type count struct {
		id string
		n  int64
	}
	counts, err := rows(tx, func(r scanner) (c count, err error) { return c, r.Scan(&c.id, &c.n) }, "SELECT stream_id, retries FROM fetch")
	byID := make(map[string]int64, len(counts))
	for _, c := range counts {
		byID[c.id] = c.n
	}
	return byID, err
}

// Quarantined is an inbox entry that was given up.
type Quarantined struct {
	ID       int64 // of the record, given by the store
	StreamID string
	Packet   []byte // canonical JSON
	Code     string // of the last failure
	At       int64
}

// AddQuarantine records an entry that was given up. The newest 100 are kept.
func (tx *Tx) AddQuarantine(q Quarantined) error {
	n, err := tx.nextInQuarantine()
	if err != nil {
		return err
	}
	if err := tx.run("INSERT INTO quarantine (seq, stream_id, packet, code, at) VALUES (?, ?, ?, ?, ?)", n, q.StreamID, q.Packet, q.Code, q.At); err != nil {
		return err
	}
	return tx.run("DELETE FROM quarantine WHERE seq <= (SELECT seq FROM quarantine ORDER BY seq DESC LIMIT 1 OFFSET ?)", maxQuarantine)
}

// Quarantine returns the recorded entries, oldest first.
func (tx *Tx) Quarantine() ([]Quarantined, error) {
	return rows(tx, func(r scanner) (q Quarantined, err error) {
		return q, r.Scan(&q.ID, &q.StreamID, &q.Packet, &q.Code, &q.At)
	},
		"SELECT seq, stream_id, packet, code, at FROM quarantine ORDER BY seq")
}

// DropQuarantined removes a recorded entry, and reports whether there was one.
func (tx *Tx) DropQuarantined(id int64) (bool, error) {
	n, err := tx.exec("DELETE FROM quarantine WHERE seq = ?", id)
	return n > 0, err
}
