package store

// Seen is one entry of the seen store. Entries are ordered by (timestamp, peer,
// message ID), the strings by their bytes (06#deduplication).
type Seen struct {
	Timestamp       int64
	Peer, MessageID string
}

func scanSeen(r scanner) (e Seen, err error) { return e, r.Scan(&e.Timestamp, &e.Peer, &e.MessageID) }

// SeenHorizon returns H and whether the seen store was ever started.
func (tx *Tx) SeenHorizon() (int64, bool, error) { return tx.counter("seen_horizon") }

// SetSeenHorizon sets H.
func (tx *Tx) SetSeenHorizon(h int64) error { return tx.setCounter("seen_horizon", h) }

// HasHistory reports whether any packet was ever taken in.
func (tx *Tx) HasHistory() (bool, error) {
	var one int
	return tx.get("SELECT 1 WHERE EXISTS (SELECT 1 FROM seen) OR EXISTS (SELECT 1 FROM message) OR EXISTS (SELECT 1 FROM withheld)", nil, &one)
}

// HasSeen reports whether the message is in the seen store.
func (tx *Tx) HasSeen(peer, messageID string) (bool, error) {
	var one int
	return tx.get("SELECT 1 FROM seen WHERE message_id = ? AND peer = ?", []any{messageID, peer}, &one)
}

// SeenState is what decides about a message of one sender, in one look.
type SeenState struct {
	Started          bool  // H is there
	Horizon          int64 // H
	Entries          int64
	Earliest         int64 // smallest timestamp of an entry, 0 for none
	OfSender         int64 // entries of the sender
	EarliestOfSender int64 // of them, 0 for none
	HasSenderHorizon bool
	SenderHorizon    int64 // H[sender]
	SenderHorizons   bool  // there is one of any sender
}

// SeenState returns how things stand for a sender.
func (tx *Tx) SeenState(peer string) (SeenState, error) {
	var s SeenState
	_, err := tx.get(`SELECT EXISTS (SELECT 1 FROM counter WHERE name = 'seen_horizon'),
		(SELECT value FROM counter WHERE name = 'seen_horizon'), (SELECT entries FROM seen_sender WHERE peer = ''),
		(SELECT earliest FROM seen_sender WHERE peer <> '' ORDER BY earliest, peer LIMIT 1), (SELECT entries FROM seen_sender WHERE peer = ?1),
		(SELECT earliest FROM seen_sender WHERE peer = ?1),
		EXISTS (SELECT 1 FROM seen_horizon WHERE peer = ?1), (SELECT horizon FROM seen_horizon WHERE peer = ?1),
		EXISTS (SELECT 1 FROM seen_horizon)`, []any{peer},
		&s.Started, &s.Horizon, &s.Entries, &s.Earliest, &s.OfSender, &s.EarliestOfSender, &s.HasSenderHorizon, &s.SenderHorizon, &s.SenderHorizons)
	return s, err
}

// AddSeen inserts an entry of the sender that s is about, and counts it in s.
func (tx *Tx) AddSeen(e Seen, s *SeenState) error {
	if err := tx.run("INSERT INTO seen VALUES (?, ?, ?)", e.Peer, e.Timestamp, e.MessageID); err != nil {
		return err
	}
	if err := tx.countSeen(e, s); err != nil {
		return err
	}
	if s.Entries == 0 || e.Timestamp < s.Earliest {
		s.Earliest = e.Timestamp
	}
	if s.OfSender == 0 || e.Timestamp < s.EarliestOfSender {
		s.EarliestOfSender = e.Timestamp
	}
	s.Entries++
	s.OfSender++
	return nil
}

func (tx *Tx) countSeen(e Seen, s *SeenState) (err error) {
	if s.OfSender == 0 {
		err = tx.run("INSERT INTO seen_sender VALUES (?, 1, ?)", e.Peer, e.Timestamp)
	} else {
		err = tx.run("UPDATE seen_sender SET entries = entries + 1 WHERE peer = ?", e.Peer)
	}
	if err == nil && s.OfSender > 0 && e.Timestamp < s.EarliestOfSender { // seldom: it is in an index
		err = tx.run("UPDATE seen_sender SET earliest = ? WHERE peer = ?", e.Timestamp, e.Peer)
	}
	if err != nil {
		return err
	}
	return tx.run("UPDATE seen_sender SET entries = entries + 1 WHERE peer = ''")
}

// SeenCount returns the number of entries.
func (tx *Tx) SeenCount() (int64, error) { return tx.SeenCountOf("") }

// SeenCountOf returns the number of entries of one sender.
func (tx *Tx) SeenCountOf(peer string) (int64, error) {
	var n int64
	_, err := tx.get("SELECT entries FROM seen_sender WHERE peer = ?", []any{peer}, &n)
	return n, err
}

// SmallestSeen returns the smallest entry and whether there is one.
func (tx *Tx) SmallestSeen() (Seen, bool, error) {
	var peer string
	ok, err := tx.get("SELECT peer FROM seen_sender WHERE peer <> '' ORDER BY earliest, peer LIMIT 1", nil, &peer)
	if err != nil || !ok {
		return Seen{}, false, err
	}
	return tx.SmallestSeenOf(peer)
}

// LatestSeenBefore returns the greatest timestamp below t of any entry and
// whether there is one.
func (tx *Tx) LatestSeenBefore(t int64) (int64, bool, error) {
	var at int64
	ok, err := tx.get(`SELECT (SELECT timestamp FROM seen WHERE seen.peer = s.peer AND timestamp < ?1 ORDER BY timestamp DESC LIMIT 1) AS latest
		FROM seen_sender AS s WHERE peer <> '' AND earliest < ?1 ORDER BY latest DESC LIMIT 1`, []any{t}, &at)
	return at, ok, err
}

// SmallestSeenOf returns the smallest entry of one sender and whether there is
// one.
func (tx *Tx) SmallestSeenOf(peer string) (Seen, bool, error) {
	var e Seen
	ok, err := tx.get("SELECT timestamp, peer, message_id FROM seen WHERE peer = ? ORDER BY timestamp, message_id LIMIT 1",
		[]any{peer}, &e.Timestamp, &e.Peer, &e.MessageID)
	return e, ok, err
}

// DeleteSeenOf removes the entries of one sender up to a timestamp.
func (tx *Tx) DeleteSeenOf(peer string, until int64) error {
	deleted, err := tx.exec("DELETE FROM seen WHERE peer = ? AND timestamp <= ?", peer, until)
	if err != nil || deleted == 0 {
		return err
	}
	if err := tx.run("UPDATE seen_sender SET entries = entries - ? WHERE peer IN ('', ?)", deleted, peer); err != nil {
		return err
	}
	first, ok, err := tx.SmallestSeenOf(peer)
	switch {
	case err != nil:
		return err
	case !ok:
		return tx.run("DELETE FROM seen_sender WHERE peer = ?", peer)
	}
	return tx.run("UPDATE seen_sender SET earliest = ? WHERE peer = ?", first.Timestamp, peer)
}

// DeleteSeen removes the entries up to a timestamp.
func (tx *Tx) DeleteSeen(until int64) error {
	peers, err := rows(tx, text, "SELECT peer FROM seen_sender WHERE peer <> '' AND earliest <= ?", until)
	if err != nil {
		return err
	}
	for _, peer := range peers {
		if err := tx.DeleteSeenOf(peer, until); err != nil {
			return err
		}
	}
	return nil
}

// SeenEntries returns all entries in order.
func (tx *Tx) SeenEntries() ([]Seen, error) {
	return rows(tx, scanSeen, "SELECT timestamp, peer, message_id FROM seen ORDER BY timestamp, peer, message_id")
}

// SenderHorizon is H[peer].
type SenderHorizon struct {
	Peer    string
	Horizon int64
}

// SenderHorizon returns H[peer] and whether there is one.
func (tx *Tx) SenderHorizon(peer string) (int64, bool, error) {
	var h int64
	ok, err := tx.get("SELECT horizon FROM seen_horizon WHERE peer = ?", []any{peer}, &h)
	return h, ok, err
}

// RaiseSenderHorizon sets H[peer] to the greater of itself and h, and returns
// it.
func (tx *Tx) RaiseSenderHorizon(peer string, h int64) (int64, error) {
	before, ok, err := tx.SenderHorizon(peer)
	switch {
	case err != nil:
		return 0, err
	case ok && before >= h:
		return before, nil
	case ok:
		return h, tx.run("UPDATE seen_horizon SET horizon = ? WHERE peer = ?", h, peer)
	}
	if err := tx.run("INSERT INTO seen_horizon VALUES (?, ?)", peer, h); err != nil {
		return 0, err
	}
	return h, tx.addSenderHorizons(1)
}

// addSenderHorizons keeps the count of them: there may be as many as entries.
func (tx *Tx) addSenderHorizons(n int64) error {
	return tx.run("UPDATE counter SET value = value + ? WHERE name = 'sender_horizons'", n)
}

// DeleteSenderHorizons removes every H[x] up to h.
func (tx *Tx) DeleteSenderHorizons(h int64) error {
	deleted, err := tx.exec("DELETE FROM seen_horizon WHERE horizon <= ?", h)
	if err != nil || deleted == 0 {
		return err
	}
	return tx.addSenderHorizons(-deleted)
}

// CountSenderHorizons returns the number of sender horizons.
func (tx *Tx) CountSenderHorizons() (int64, error) {
	n, _, err := tx.counter("sender_horizons")
	return n, err
}

// SenderHorizons returns the first limit sender horizons ordered by (H[x], x);
// a negative limit means all.
func (tx *Tx) SenderHorizons(limit int64) ([]SenderHorizon, error) {
	return rows(tx, func(r scanner) (s SenderHorizon, err error) { return s, r.Scan(&s.Peer, &s.Horizon) },
		"SELECT peer, horizon FROM seen_horizon ORDER BY horizon, peer LIMIT ?", limit)
}
