package relaydb

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// Entry is a queued packet.
type Entry struct {
	StreamID string
	Packet   []byte
	// Entries and Bytes are how many packets, and how long, the span has from
	// this one on.
	Entries int
	Bytes   int64
}

// Span is a part of an identity's queue.
type Span struct {
	ACEID       string
	Incarnation int64
	After       string // stream ID after which it begins; "" or "-" for the start
	Entries     int64  // at most
	Bytes       int64  // as many as fit in, but one if there is any
	Now         int64  // entries that are expired then are left out
}

const (
	selectIncarnation = "SELECT id FROM identities WHERE ace_id = ? AND registered = 1 AND incarnation = ?"
	selectEntries     = `
SELECT generation, seq, size, digest, body, coalesce(place, -1) FROM entries
WHERE identity = ? AND (generation, seq) > (?, ?) AND expires_at > ? AND (place IS NULL OR place < ?) ORDER BY generation, seq LIMIT ?`
	selectBody = "SELECT packet FROM bodies WHERE id = ?"
)

// Entries calls yield with each entry of a span in stream order until it
// answers false, and reports whether there may be more entries after the last.
// The packet is valid during the call only. It refuses with Changed when the
// identity is not registered in that incarnation.
//
// A packet that is not the one that was queued is yielded to nobody: it is put
// aside, and the rest is served.
func (d *DB) Entries(ctx context.Context, span Span, yield func(Entry) bool) (more bool, err error) {
	c, err := d.readers.take(ctx)
	if err != nil {
		return false, err
	}
	r := reading{conn: c, log: d.log, span: span, yield: yield}
	during := d.grace.enter()
	err = r.run()
	d.grace.leave(during)
	d.readers.give(c)
	for _, b := range r.bad {
		d.quarantine(context.WithoutCancel(ctx), b, span.Now)
	}
	return r.more, err
}

// reading is one look at a queue.
type reading struct {
	conn  *conn
	log   *packetlog.Log
	span  Span
	yield func(Entry) bool
	more  bool
	bad   []damage
}

// located is an entry without its packet.
type located struct {
	generation, seq, size int64
	place                 int64 // in the packet log, or -1
	body                  int64
	digest                [32]byte
}

// damage names an entry whose packet is not the one that was queued.
type damage struct {
	identity, generation, seq int64
	reason                    string
}

// run reads in a transaction, so that the registration and the entries are
// those of one moment.
func (r *reading) run() error {
	if err := r.conn.Command("BEGIN"); err != nil {
		return err
	}
	err := r.entries()
	// Not a commit, which fails when a damaged page was met.
	if end := r.conn.Command("ROLLBACK"); err == nil {
		err = end
	}
	return err
}

func (r *reading) identity() (int64, error) {
	s, err := r.conn.Prepare(selectIncarnation)
	if err != nil {
		return 0, err
	}
	s.BindText(1, r.span.ACEID)
	s.BindInt(2, r.span.Incarnation)
	ok, err := s.Step()
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 0, Changed
	}
	defer s.Reset()
	return s.Int(0), nil
}

func (r *reading) entries() error {
	id, err := r.identity()
	if err != nil {
		return err
	}
	for {
		found, size, err := r.find(id)
		if err != nil {
			return err
		}
		before := len(r.bad)
		if err := r.packets(id, found, size); err != nil {
			return err
		}
		if !r.more || len(found) == 0 || len(r.bad)-before < len(found) {
			return nil
		}
		// All that was found is put aside, which is not the end of the queue.
		last := found[len(found)-1]
		r.span.After = streamID(last.generation, last.seq)
	}
}

// packets yields those of the entries that are found.
func (r *reading) packets(id int64, found []located, size int64) error {
	for i := range found {
		f := &found[i]
		goOn, err := r.packet(f, len(found)-i, size)
		size -= f.size
		if reason, damaged := damageOf(err); damaged {
			r.bad = append(r.bad, damage{id, f.generation, f.seq, reason})
			continue
		}
		if err != nil {
			return err
		}
		if !goOn {
			r.more = true
			return nil
		}
	}
	return nil
}

// find returns the entries of the span and the bytes of their packets, and
// notes whether there may be more. It reads none of these.
func (r *reading) find(id int64) (found []located, size int64, err error) {
	s, err := r.conn.Prepare(selectEntries)
	if err != nil {
		return nil, 0, err
	}
	defer s.Reset()
	generation, seq := parseStreamID(r.span.After)
	for i, v := range [...]int64{id, generation, seq, r.span.Now, r.log.Synced(), r.span.Entries} {
		s.BindInt(i+1, v)
	}
	found = r.conn.found[:0]
	for {
		ok, err := s.Step()
		if err != nil || !ok {
			r.more = int64(len(found)) >= r.span.Entries
			r.conn.found = found
			return found, size, err
		}
		f := located{generation: s.Int(0), seq: s.Int(1), size: s.Int(2), body: s.Int(4), place: s.Int(5)}
		if len(found) > 0 && size+f.size > r.span.Bytes {
			r.more = true
			r.conn.found = found
			return found, size, nil
		}
		copy(f.digest[:], s.Bytes(3))
		size += f.size
		found = append(found, f)
	}
}

// altered is the error of a packet with another digest than was stored.
type altered string

func (a altered) Error() string { return string(a) }

func damageOf(err error) (reason string, damaged bool) {
	if a, ok := err.(altered); ok {
		return string(a), true
	}
	return damagedPages, isCorrupt(err)
}

// packet yields the packet of an entry if its digest is right.
func (r *reading) packet(f *located, entries int, size int64) (goOn bool, err error) {
	if f.place >= 0 {
		return r.logged(f, entries, size)
	}
	s, err := r.conn.Prepare(selectBody)
	if err != nil {
		return false, err
	}
	s.BindInt(1, f.body)
	ok, err := s.Step()
	if err != nil {
		return false, err
	}
	if !ok {
		return false, altered("it is missing")
	}
	defer s.Reset()
	return r.give(f, s.Bytes(0), entries, size)
}

// keptPacket bounds the memory that a connection keeps for a packet.
const keptPacket = 64 << 10

// logged is packet for one that is in the packet log.
func (r *reading) logged(f *located, entries int, size int64) (goOn bool, err error) {
	packet := slices.Grow(r.conn.packet[:0], int(f.size))[:f.size]
	if f.size <= keptPacket {
		r.conn.packet = packet
	}
	err = r.log.ReadAt(packet, f.place)
	if errors.Is(err, packetlog.ErrMissing) {
		return false, altered("it is missing")
	}
	if err != nil {
		return false, err
	}
	return r.give(f, packet, entries, size)
}

func (r *reading) give(f *located, packet []byte, entries int, size int64) (goOn bool, err error) {
	if int64(len(packet)) != f.size || sha256.Sum256(packet) != f.digest {
		return false, altered("its digest is another")
	}
	return r.yield(Entry{StreamID: streamID(f.generation, f.seq), Packet: packet, Entries: entries, Bytes: size}), nil
}

const selectNewest = `
SELECT coalesce((SELECT min(e.seq) - 1 FROM entries e WHERE e.place >= ? AND e.identity = i.id), q.last_seq)
FROM identities i JOIN queues q ON q.identity = i.id
WHERE i.ace_id = ? AND i.registered = 1 AND i.incarnation = ?`

// Newest returns the stream ID that the identity was given last, "0-0" before
// the first: of those whose packets have reached the disk. It refuses with Changed as Entries does.
func (d *DB) Newest(ctx context.Context, aceID string, incarnation int64) (string, error) {
	var seq int64
	ok, err := d.read(ctx, selectNewest, []any{d.log.Synced(), aceID, incarnation}, &seq)
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

func streamID(generation, seq int64) string {
	var b [41]byte
	return string(strconv.AppendInt(append(strconv.AppendInt(b[:0], generation, 10), '-'), seq, 10))
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
