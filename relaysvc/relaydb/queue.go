package relaydb

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// Packet is a packet on its way to a recipient's queue.
type Packet struct {
	To, From string
	Digest   []byte // SHA-256 of Raw
	Raw      []byte // canonical JSON
	// KELEnd is the recipient's KEL that the sender's permit was verified
	// with, "" for a stranger.
	KELEnd string
	// Network is the client network of a stranger's request.
	Network string
	Now     int64
	Expires int64
}

// Room bounds a recipient's queue.
type Room struct {
	Entries, Bytes int64 // of the packets with a permit
	Strangers      int64 // entries without one
	PerNetwork     int64 // of these, from one client network
}

// Recipient is what the store says of a packet's recipient.
type Recipient struct {
	KELEnd    string
	Queued    bool // a byte-identical packet is queued
	Open      bool // it takes packets from strangers
	Strangers int64
	OfNetwork int64 // stranger entries from the packet's network
}

const selectRecipient = `
SELECT i.kel_end,
  EXISTS (SELECT 1 FROM entries e WHERE e.identity = i.id AND e.digest = ? AND e.expires_at > ?),
  EXISTS (SELECT 1 FROM cards c JOIN descriptors d ON d.identity = c.identity
          WHERE c.identity = i.id AND c.bundle IS NOT NULL AND c.kel_end = i.kel_end AND c.open = 1
            AND d.agent IS NOT NULL AND d.kel_end = i.kel_end AND d.expires_at > ?),
  (SELECT count(*) FROM entries e WHERE e.identity = i.id AND e.stranger = 1 AND e.expires_at > ?),
  (SELECT count(*) FROM entries e WHERE e.identity = i.id AND e.stranger = 1 AND e.expires_at > ? AND e.network = ?)
FROM identities i
WHERE i.ace_id = ? AND i.registered = 1
  AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.identity = i.id AND b.peer = ? AND b.blocked = 1)`

// Recipient looks a packet's recipient up without changing anything. Refusal:
// Unreachable, when it is not registered or has blocked the sender.
func (d *DB) Recipient(ctx context.Context, p Packet) (Recipient, error) {
	var r Recipient
	ok, err := d.read(ctx, selectRecipient,
		[]any{p.Digest, p.Now, p.Now, p.Now, p.Now, p.Network, p.To, p.From},
		&r.KELEnd, &r.Queued, &r.Open, &r.Strangers, &r.OfNetwork)
	if err == nil && !ok {
		err = Unreachable
	}
	return r, err
}

// Enqueue queues p and reports whether it did: a byte-identical packet that is
// queued already stays alone. Refusals, in the order of the checks:
// Unreachable, Changed (the recipient's KEL is another than the permit was
// verified with), Full.
func (d *DB) Enqueue(ctx context.Context, p Packet, room Room) (queued bool, err error) {
	err = d.write(ctx, func(t *tx) error {
		queued = false
		id, err := t.reachable(p)
		if err != nil {
			return err
		}
		if err := t.expire(id, p.Now); err != nil {
			return err
		}
		var duplicate bool
		if _, err := t.row("SELECT EXISTS (SELECT 1 FROM entries WHERE identity = ? AND digest = ?)", []any{id, p.Digest}, &duplicate); err != nil || duplicate {
			return err
		}
		if p.KELEnd != "" {
			err = t.roomWithPermit(id, p, room)
		} else {
			err = t.roomForStranger(id, p, room)
		}
		if err != nil {
			return err
		}
		queued = true
		return t.insert(id, p, d.generation)
	})
	return queued && err == nil, err
}

// reachable returns the row of the recipient of p.
func (t *tx) reachable(p Packet) (int64, error) {
	var id int64
	ok, err := t.row(`
SELECT id FROM identities i WHERE ace_id = ? AND registered = 1
  AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.identity = i.id AND b.peer = ? AND b.blocked = 1)`,
		[]any{p.To, p.From}, &id)
	if err == nil && !ok {
		err = Unreachable
	}
	return id, err
}

func (t *tx) roomWithPermit(id int64, p Packet, room Room) error {
	var same bool
	var entries, bytes int64
	if _, err := t.row(`
SELECT i.kel_end = ?, q.entries, q.bytes FROM identities i JOIN queues q ON q.identity = i.id WHERE i.id = ?`,
		[]any{p.KELEnd, id}, &same, &entries, &bytes); err != nil {
		return err
	}
	switch {
	case !same:
		return Changed
	case entries >= room.Entries || bytes+int64(len(p.Raw)) > room.Bytes:
		return Full
	}
	return nil
}

func (t *tx) roomForStranger(id int64, p Packet, room Room) error {
	var open bool
	if _, err := t.row(`
SELECT EXISTS (SELECT 1 FROM identities i JOIN cards c ON c.identity = i.id JOIN descriptors d ON d.identity = i.id
               WHERE i.id = ? AND c.bundle IS NOT NULL AND c.kel_end = i.kel_end AND c.open = 1
                 AND d.agent IS NOT NULL AND d.kel_end = i.kel_end AND d.expires_at > ?)`,
		[]any{id, p.Now}, &open); err != nil {
		return err
	}
	if !open {
		return Unreachable
	}
	var strangers, ofNetwork int64
	if _, err := t.row(`
SELECT count(*), count(CASE WHEN network = ? THEN 1 END) FROM entries WHERE identity = ? AND stranger = 1`,
		[]any{p.Network, id}, &strangers, &ofNetwork); err != nil {
		return err
	}
	if strangers >= room.Strangers || ofNetwork >= room.PerNetwork {
		return Full
	}
	return nil
}

func (t *tx) insert(id int64, p Packet, generation int64) error {
	stranger := p.KELEnd == ""
	entries, bytes := int64(1), int64(len(p.Raw))
	if stranger {
		entries, bytes = 0, 0
	}
	if _, err := t.exec(`
UPDATE queues SET last_seq = last_seq + 1, entries = entries + ?, bytes = bytes + ? WHERE identity = ?`,
		entries, bytes, id); err != nil {
		return err
	}
	network := sql.NullString{String: p.Network, Valid: stranger}
	_, err := t.exec(`
INSERT INTO entries (identity, generation, seq, stranger, expires_at, network, sender, size, digest, packet)
SELECT ?, ?, last_seq, ?, ?, ?, ?, ?, ?, ? FROM queues WHERE identity = ?`,
		id, generation, stranger, p.Expires, network, []byte(p.From), len(p.Raw), p.Digest, p.Raw, id)
	return err
}

const (
	matchExpired = "identity = ? AND stranger = ? AND expires_at <= ?"
	matchThrough = "identity = ? AND (generation, seq) <= (?, ?)"
)

// expire deletes the entries of a queue whose time is over.
func (t *tx) expire(id, now int64) error {
	for _, stranger := range []bool{false, true} {
		if err := t.remove(matchExpired, id, stranger, now); err != nil {
			return err
		}
	}
	return nil
}

// remove deletes the entries of one queue that match, whose first argument is
// the queue, and keeps its totals.
func (t *tx) remove(match string, args ...any) error {
	var entries, bytes, all int64
	if _, err := t.row(`
SELECT count(*), count(CASE WHEN NOT stranger THEN 1 END), coalesce(sum(CASE WHEN NOT stranger THEN length(packet) END), 0)
FROM entries WHERE `+match, args, &all, &entries, &bytes); err != nil || all == 0 {
		return err
	}
	if _, err := t.exec("DELETE FROM entries WHERE "+match, args...); err != nil {
		return err
	}
	_, err := t.exec("UPDATE queues SET entries = entries - ?, bytes = bytes - ? WHERE identity = ?", entries, bytes, args[0])
	return err
}

// Entry is a queued packet.
type Entry struct {
	StreamID string
	Packet   []byte
}

const selectEntries = `
SELECT e.generation, e.seq, e.packet FROM identities i LEFT JOIN entries e
  ON e.identity = i.id AND (e.generation, e.seq) > (?, ?) AND e.expires_at > ?
WHERE i.ace_id = ? AND i.registered = 1 AND i.incarnation = ?
ORDER BY e.generation, e.seq LIMIT ?`

// Entries returns the entries of a queue after the stream ID since ("" or "-":
// from the start) that are not expired at now, in stream order: at most limit,
// and as many as fit in size bytes, but one if there is any. It refuses with
// Changed when the identity is not registered in that incarnation.
func (d *DB) Entries(ctx context.Context, aceID string, incarnation int64, since string, limit, size, now int64) ([]Entry, error) {
	generation, seq := parseStreamID(since)
	var entries []Entry
	var known bool
	err := d.each(ctx, selectEntries,
		[]any{generation, seq, now, aceID, incarnation, limit},
		func(rows *sql.Rows) (bool, error) {
			known = true
			var generation, seq sql.NullInt64
			var packet []byte
			if err := rows.Scan(&generation, &seq, &packet); err != nil || !seq.Valid {
				return false, err
			}
			if size -= int64(len(packet)); size < 0 && len(entries) > 0 {
				return false, nil
			}
			entries = append(entries, Entry{StreamID: streamID(generation.Int64, seq.Int64), Packet: packet})
			return true, nil
		})
	if err == nil && !known {
		err = Changed
	}
	return entries, err
}

// Newest returns the stream ID that the identity was given last, "0-0" before
// the first. It refuses with Changed as Entries does.
func (d *DB) Newest(ctx context.Context, aceID string, incarnation int64) (string, error) {
	var seq int64
	ok, err := d.read(ctx, `
SELECT q.last_seq FROM identities i JOIN queues q ON q.identity = i.id
WHERE i.ace_id = ? AND i.registered = 1 AND i.incarnation = ?`, []any{aceID, incarnation}, &seq)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", Changed
	case seq == 0:
		return streamID(0, 0), nil
	}
	return streamID(d.generation, seq), nil
}

// Ack deletes the caller's entries up to and including the stream ID through.
// Refusals: Changed, Replayed.
func (d *DB) Ack(ctx context.Context, c Caller, through string) error {
	return d.write(ctx, func(t *tx) error {
		id, err := t.admit(c)
		if err != nil {
			return err
		}
		generation, seq := parseStreamID(through)
		return t.remove(matchThrough, id, generation, seq)
	})
}

func streamID(generation, seq int64) string {
	return strconv.FormatInt(generation, 10) + "-" + strconv.FormatInt(seq, 10)
}

// parseStreamID returns the two numbers of a stream ID. One too great for an
// int64 is above every number ever given and stays so.
func parseStreamID(s string) (generation, seq int64) {
	a, b, _ := strings.Cut(s, "-")
	return parseHalf(a), parseHalf(b)
}

func parseHalf(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // the greatest int64 for a number above it, 0 for ""
	return n
}
