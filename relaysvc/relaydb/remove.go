package relaydb

import (
	"context"
	"math"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

// removeBatch and removeBytes bound what one step of a removal deletes. What is
// deleted is also overwritten, which costs as much as writing it did.
const (
	removeBatch = 128
	removeBytes = 4 << 20
)

// Ack deletes the caller's entries up to and including the stream ID through.
// A long queue takes several transactions, so that nobody waits for the whole;
// the nonce is spent in the first. Refusals: Changed, Replayed.
func (d *DB) Ack(ctx context.Context, c Caller, through string) error {
	generation, seq := parseStreamID(through)
	var id int64
	var more bool
	err := d.write(ctx, func(t *tx) error {
		var err error
		if id, err = t.admit(c); err != nil {
			return err
		}
		// What is queued while the removal goes on stays.
		var last int64
		if _, err := t.row("SELECT last_seq FROM queues WHERE identity = ?", []any{id}, &last); err != nil {
			return err
		}
		if generation >= t.generation {
			generation, seq = t.generation, min(last, atLeast(generation > t.generation, seq))
		}
		more, err = t.removeSome(matchThrough, id, generation, seq)
		return err
	})
	for err == nil && more {
		err = d.write(context.WithoutCancel(ctx), func(t *tx) error {
			var err error
			more, err = t.removeSome(matchThrough, id, generation, seq)
			return err
		})
	}
	return err
}

func atLeast(beyond bool, seq int64) int64 {
	if beyond {
		return math.MaxInt64
	}
	return seq
}

const matchThrough = "identity = ? AND (generation, seq) <= (?, ?)"

// victim is an entry that is going to be removed.
type victim struct {
	identity, generation, seq, size int64
	place                           int64 // in the packet log, or -1
	body                            int64
	stranger                        bool
}

// remove deletes the entries of one queue that match, whose first argument is
// the queue, and keeps the totals.
func (t *tx) remove(match string, args ...any) error {
	for {
		more, err := t.removeSome(match, args...)
		if err != nil || !more {
			return err
		}
	}
}

// removeSome removes as many as one step may, and reports whether there may be
// others.
func (t *tx) removeSome(match string, args ...any) (more bool, err error) {
	victims, more, err := t.victims(removeQuery(match), args...)
	if err != nil {
		return false, err
	}
	return more, t.drop(victims)
}

func removeQuery(match string) string {
	return "SELECT identity, generation, seq, size, body, stranger, coalesce(place, -1) FROM entries WHERE " + match + " LIMIT 128"
}

func (t *tx) victims(query string, args ...any) (victims []victim, more bool, err error) {
	s, err := t.conn.Prepare(query)
	if err != nil {
		return nil, false, err
	}
	if err := s.Bind(args); err != nil {
		return nil, false, err
	}
	size := int64(0)
	for {
		ok, err := s.Step()
		if err != nil {
			return nil, false, err
		}
		if !ok || size >= removeBytes {
			s.Reset()
			return victims, ok || len(victims) == removeBatch, nil
		}
		v := victim{identity: s.Int(0), generation: s.Int(1), seq: s.Int(2), size: s.Int(3),
			body: s.Int(4), stranger: s.Int(5) != 0, place: s.Int(6)}
		size += v.size
		victims = append(victims, v)
	}
}

// drop deletes entries, with their bodies, and keeps the totals.
func (t *tx) drop(victims []victim) error { return t.dropAll(victims, t.deleteBody) }

func (t *tx) dropAll(victims []victim, deleteBody func(victim) error) error {
	from := 0
	for i, v := range victims {
		if _, err := t.exec("DELETE FROM entries WHERE identity = ? AND generation = ? AND seq = ?", v.identity, v.generation, v.seq); err != nil {
			return err
		}
		failpoint.Here(failpoint.Remove)
		if err := deleteBody(v); err != nil {
			return err
		}
		if i+1 == len(victims) || victims[i+1].identity != v.identity {
			if err := t.discount(victims[from : i+1]); err != nil {
				return err
			}
			from = i + 1
		}
	}
	return nil
}

// deleteBody deletes a body. One whose pages are damaged stays: SQLite commits
// no transaction that has met them, so that the decision has to be taken again,
// by one that knows.
func (t *tx) deleteBody(v victim) error {
	if v.place >= 0 {
		return t.eraseLater(v)
	}
	if t.damaged[v.body] {
		return t.putAside(v, 0, damagedPages)
	}
	_, err := t.exec("DELETE FROM bodies WHERE id = ?", v.body)
	if isCorrupt(err) {
		return &damagedBody{err, v.body}
	}
	return err
}

const damagedPages = "its pages are damaged"

// damagedBody is a body that cannot be deleted.
type damagedBody struct {
	error
	id int64
}

func (d *damagedBody) Unwrap() error { return d.error }

func isCorrupt(err error) bool {
	return err != nil && resultCode(err) == sqlite3.SQLITE_CORRUPT
}

// discount takes entries of one queue out of the totals.
func (t *tx) discount(victims []victim) error {
	var c, strangers counts
	for _, v := range victims {
		part := &c
		if v.stranger {
			part = &strangers
		}
		part.entries++
		part.bytes += v.size
	}
	id := victims[0].identity
	if _, err := t.exec(`
UPDATE queues SET entries = entries - ?, bytes = bytes - ?, strangers = strangers - ?, stranger_bytes = stranger_bytes - ? WHERE identity = ?`,
		c.entries, c.bytes, strangers.entries, strangers.bytes, id); err != nil {
		return err
	}
	var network string
	if _, err := t.row("SELECT network FROM identities WHERE id = ?", []any{id}, &network); err != nil {
		return err
	}
	if _, err := t.exec("UPDATE networks SET queued = queued - ? WHERE network = ?", c.bytes+strangers.bytes, network); err != nil {
		return err
	}
	if _, err := t.exec("DELETE FROM networks WHERE network = ? AND stored = 0 AND queued = 0", network); err != nil {
		return err
	}
	t.change.entries -= c.entries
	t.change.strangers -= strangers.entries
	t.change.bytes -= c.bytes + strangers.bytes
	return nil
}

// expiredFirst is how far into a queue the search for expired entries looks:
// those with a permit expire in stream order, and there are at most as many
// others as the stranger allowance. What a clock that was set back hides from
// it, the next sweep finds.
const expiredFirst = `
(generation, seq) IN (SELECT generation, seq FROM entries WHERE identity = ? ORDER BY generation, seq LIMIT 64) AND expires_at <= ?`

// expireQueue removes entries of a queue whose time is over, and reports
// whether there were any.
func (t *tx) expireQueue(id, now int64) (removed bool, err error) {
	if err := t.writeTotals(); err != nil {
		return false, err
	}
	victims, _, err := t.victims(removeQuery("identity = ? AND "+expiredFirst), id, id, now)
	if err != nil {
		return false, err
	}
	return len(victims) > 0, t.drop(victims)
}
