package relaydb

import (
	"context"
	"encoding/hex"

	"github.com/ace-toolkit/ace/core/sqlconn"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/failpoint"
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

	passed int64 // entries whose time was over by then make room
}

// Room bounds a recipient's queue. A bound of 0 on a sender's share or on a
// network is none.
type Room struct {
	Entries, Bytes             int64 // of the packets with a permit
	SenderEntries, SenderBytes int64 // of these, from one sender
	Strangers                  int64 // entries without a permit
	PerNetwork                 int64 // of these, from one client network
	// NetworkQueued bounds the bytes queued for all identities that
	// registered from the recipient's client network.
	NetworkQueued int64
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
  EXISTS (SELECT 1 FROM entries e WHERE e.identity = i.id AND e.sender = ? AND e.digest = ? AND e.expires_at > ?
          AND (e.place IS NULL OR e.place < ?)),
  EXISTS (SELECT 1 FROM cards c JOIN descriptors d ON d.identity = c.identity
          WHERE c.identity = i.id AND c.bundle IS NOT NULL AND c.kel_end = i.kel_end AND c.open = 1
            AND d.agent IS NOT NULL AND d.kel_end = i.kel_end AND d.expires_at > ?),
  (SELECT count(*) FROM entries e WHERE e.identity = i.id AND e.stranger = 1 AND e.expires_at > ?),
  (SELECT count(*) FROM entries e WHERE e.identity = i.id AND e.stranger = 1 AND e.expires_at > ? AND e.network = ?)
FROM identities i
WHERE i.ace_id = ? AND i.registered = 1 AND i.suspended = 0
  AND NOT EXISTS (SELECT 1 FROM blocks b WHERE b.identity = i.id AND b.peer = ? AND b.blocked = 1)`

// Recipient looks a packet's recipient up without changing anything. Refusal:
// Unreachable, when it is not registered, is suspended or has blocked the
// sender.
func (d *DB) Recipient(ctx context.Context, p Packet) (Recipient, error) {
	var r Recipient
	ok, err := d.read(ctx, selectRecipient,
		[]any{senderKey(p.From), p.Digest, p.Now, d.log.Synced(), p.Now, p.Now, p.Now, p.Network, p.To, p.From},
		&r.KELEnd, &r.Queued, &r.Open, &r.Strangers, &r.OfNetwork)
	if err == nil && !ok {
		err = Unreachable
	}
	return r, err
}

// Enqueue queues p and reports whether it did: a byte-identical packet that is
// queued already stays alone. It holds on to nothing of p. Refusals, in the
// order of the checks: Unreachable, Changed (the recipient's KEL is another
// than the permit was verified with), Full, OverBudget.
func (d *DB) Enqueue(ctx context.Context, p Packet, room Room) (queued bool, err error) {
	j := d.line.job()
	j.packet, j.room = p, room
	j.packet.passed = d.passed(p.Now)
	err = d.line.join(ctx, j)
	queued = j.queued && err == nil
	d.line.keep(j)
	return queued, err
}

// packetStatements are those that a packet may need.
type packetStatements struct {
	selectQueue, selectBlock, updateQueue *sqlconn.Stmt
	selectNetwork, updateNetwork          *sqlconn.Stmt
	insertEntry, selectDuplicate          *sqlconn.Stmt
	updateSynced                          *sqlconn.Stmt
}

const (
	insertEntry = `
INSERT INTO entries (identity, generation, seq, stranger, expires_at, network, sender, size, digest, place)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (identity, sender, digest, size) DO NOTHING`
	insertBody      = "INSERT INTO bodies (id, packet) VALUES (?, ?)"
	selectDuplicate = "SELECT generation, seq, expires_at FROM entries WHERE identity = ? AND sender = ? AND digest = ?"
	updateSynced    = "UPDATE relay SET synced = ?"
)

func (p *packetStatements) prepare(c *conn) error {
	for text, s := range map[string]**sqlconn.Stmt{
		selectQueue: &p.selectQueue, selectBlock: &p.selectBlock, updateQueue: &p.updateQueue,
		selectNetwork: &p.selectNetwork, updateNetwork: &p.updateNetwork,
		insertEntry: &p.insertEntry, selectDuplicate: &p.selectDuplicate, updateSynced: &p.updateSynced,
	} {
		var err error
		if *s, err = c.Prepare(text); err != nil {
			return err
		}
	}
	return nil
}

// enqueue is Enqueue in a transaction. Whether the packet is a duplicate comes
// before whether there is room (07#send); it is looked up only where the two
// may differ, because an insertion finds out by itself.
func (t *tx) enqueue(p *Packet, room *Room) (queued bool, err error) {
	q, err := t.queue(p.To)
	if err != nil {
		return false, err
	}
	if q == nil {
		return false, Unreachable
	}
	if blocked, err := t.blocked(q, p); err != nil || blocked {
		return false, orRefuse(err, Unreachable)
	}
	refusal := t.room(q, p, room)
	if refusal != nil {
		if duplicate, err := t.duplicate(q, p); err != nil || duplicate {
			return false, err
		}
		return false, refusal
	}
	// Making room may have written the totals back.
	if q, err = t.queue(p.To); err != nil {
		return false, err
	}
	return t.insert(q, p)
}

func orRefuse(err error, r Refusal) error {
	if err != nil {
		return err
	}
	return r
}

// duplicate reports whether a byte-identical packet is queued that has not
// expired.
func (t *tx) duplicate(q *queueTotals, p *Packet) (bool, error) {
	s := t.packets.selectDuplicate
	s.BindInt(1, q.id)
	var key [32]byte
	s.BindBlob(2, appendSenderKey(key[:0], p.From))
	s.BindBlob(3, p.Digest)
	ok, err := s.Step()
	if err != nil || !ok {
		return false, err
	}
	defer s.Reset()
	return s.Int(2) > p.Now, nil
}

// room refuses a packet that may not enter the queue, duplicates apart.
func (t *tx) room(q *queueTotals, p *Packet, room *Room) error {
	if p.KELEnd == "" {
		return t.roomForStranger(q, p, room)
	}
	if string(q.kelEnd) != p.KELEnd {
		return Changed
	}
	return t.roomWithPermit(q, p, room)
}

func (t *tx) roomWithPermit(q *queueTotals, p *Packet, room *Room) error {
	entries, bytes := room.Entries, room.Bytes
	if q.quotaEntries > 0 {
		entries, bytes = q.quotaEntries, q.quotaBytes
	}
	size := int64(len(p.Raw))
	if q.entries >= entries || q.bytes+size > bytes {
		freed, err := t.expireQueue(q.id, p.passed)
		if err != nil {
			return err
		}
		if !freed {
			return Full
		}
		if q, err = t.queue(p.To); err != nil {
			return err
		}
		if q.entries >= entries || q.bytes+size > bytes {
			return Full
		}
	}
	if err := t.share(q, p, room); err != nil {
		return err
	}
	return t.budget(p, room)
}

// share refuses a packet that would take more than its sender's share of the
// queue (07#send). It is counted only when the queue holds as much.
func (t *tx) share(q *queueTotals, p *Packet, room *Room) error {
	size := int64(len(p.Raw))
	manyEntries := room.SenderEntries > 0 && q.entries >= room.SenderEntries
	manyBytes := room.SenderBytes > 0 && q.bytes+size > room.SenderBytes
	if !manyEntries && !manyBytes {
		return nil
	}
	full, err := t.shareIsFull(q.id, p, room)
	if err != nil || !full {
		return err
	}
	if freed, err := t.expireQueue(q.id, p.passed); err != nil || !freed {
		return orRefuse(err, Full)
	}
	if q, err = t.queue(p.To); err != nil {
		return err
	}
	if full, err = t.shareIsFull(q.id, p, room); err != nil || full {
		return orRefuse(err, Full)
	}
	return nil
}

const selectShare = "SELECT count(*), coalesce(sum(size), 0) FROM entries WHERE identity = ? AND sender = ?"

func (t *tx) shareIsFull(id int64, p *Packet, room *Room) (bool, error) {
	var entries, bytes int64
	if _, err := t.row(selectShare, []any{id, senderKey(p.From)}, &entries, &bytes); err != nil {
		return false, err
	}
	return room.SenderEntries > 0 && entries >= room.SenderEntries ||
		room.SenderBytes > 0 && bytes+int64(len(p.Raw)) > room.SenderBytes, nil
}

// budget refuses a packet that would take more than the recipient's client
// network has for all queues.
func (t *tx) budget(p *Packet, room *Room) error {
	if room.NetworkQueued == 0 {
		return nil
	}
	q, err := t.queue(p.To)
	if err != nil {
		return err
	}
	if q.network.queued+int64(len(p.Raw)) > room.NetworkQueued {
		return OverBudget
	}
	return nil
}

const selectOpen = `
SELECT EXISTS (SELECT 1 FROM identities i JOIN cards c ON c.identity = i.id JOIN descriptors d ON d.identity = i.id
               WHERE i.id = ? AND c.bundle IS NOT NULL AND c.kel_end = i.kel_end AND c.open = 1
                 AND d.agent IS NOT NULL AND d.kel_end = i.kel_end AND d.expires_at > ?)`

const selectStrangers = `
SELECT count(*), count(CASE WHEN network = ? THEN 1 END) FROM entries WHERE identity = ? AND stranger = 1 AND expires_at > ?`

func (t *tx) roomForStranger(q *queueTotals, p *Packet, room *Room) error {
	var open bool
	if _, err := t.row(selectOpen, []any{q.id, p.Now}, &open); err != nil {
		return err
	}
	if !open {
		return Unreachable
	}
	var strangers, ofNetwork int64
	if _, err := t.row(selectStrangers, []any{p.Network, q.id, p.Now}, &strangers, &ofNetwork); err != nil {
		return err
	}
	if strangers >= room.Strangers || ofNetwork >= room.PerNetwork {
		return Full
	}
	return t.budget(p, room)
}

// insert queues a packet that may enter, unless it is a duplicate.
func (t *tx) insert(q *queueTotals, p *Packet) (bool, error) {
	inserted, err := t.insertEntry(q, p)
	if err != nil {
		return false, err
	}
	if !inserted {
		duplicate, err := t.duplicate(q, p)
		if err != nil || duplicate {
			return false, err
		}
		// Its twin has expired and is only waiting to be removed.
		if q, err = t.removeTwin(q, p); err != nil {
			return false, err
		}
		if _, err := t.insertEntry(q, p); err != nil {
			return false, err
		}
	}
	failpoint.Here(failpoint.Enqueue)
	t.append(q, p)
	t.count(q, p)
	return true, nil
}

// append adds a packet to what goes into the packet log.
func (t *tx) append(q *queueTotals, p *Packet) {
	s := said{identity: q.id, generation: t.generation, seq: q.lastSeq + 1, expires: p.Expires, stranger: p.KELEnd == "", alone: t.alone}
	copy(s.digest[:], p.Digest)
	if s.stranger {
		s.network = []byte(p.Network)
	}
	var key [32]byte
	s.sender = appendSenderKey(key[:0], p.From)
	t.said = s.append(t.said[:0])
	place := t.batch.Add(t.said, p.Raw)
	t.uses = append(t.uses, used{place, int64(len(p.Raw)) + saidSize})
}

// count adds a packet to the totals.
func (t *tx) count(q *queueTotals, p *Packet) {
	size := int64(len(p.Raw))
	q.lastSeq++
	if p.KELEnd == "" {
		q.strangers++
		q.strangerBytes += size
		t.change.strangers++
	} else {
		q.entries++
		q.bytes += size
		t.change.entries++
	}
	q.changed = true
	q.network.queued += size
	q.network.changed = true
	t.change.bytes += size
}

func (t *tx) insertEntry(q *queueTotals, p *Packet) (bool, error) {
	stranger := p.KELEnd == ""
	s := t.packets.insertEntry
	s.BindInt(1, q.id)
	s.BindInt(2, t.generation)
	s.BindInt(3, q.lastSeq+1)
	s.BindBool(4, stranger)
	s.BindInt(5, p.Expires)
	if stranger {
		s.BindText(6, p.Network)
	} else {
		s.BindNull(6)
	}
	var key [32]byte
	s.BindBlob(7, appendSenderKey(key[:0], p.From))
	s.BindInt(8, int64(len(p.Raw)))
	s.BindBlob(9, p.Digest)
	s.BindInt(10, t.batch.Next())
	if err := s.Run(); err != nil {
		return false, err
	}
	return t.conn.Changes() > 0, nil
}

// senderKey is what stands for a sender in a row: the 32 bytes of the digest
// that an ACE ID consists of.
func senderKey(aceID string) []byte { return appendSenderKey(nil, aceID) }

func appendSenderKey(b []byte, aceID string) []byte {
	if !wire.IsACEID(aceID) {
		return append(b, aceID...)
	}
	var digits [64]byte
	copy(digits[:], aceID[len(aceID)-len(digits):])
	key, _ := hex.AppendDecode(b, digits[:]) // the grammar of an ACE ID allows nothing else
	return key
}

// removeTwin removes the expired entry with the digest of p.
func (t *tx) removeTwin(q *queueTotals, p *Packet) (*queueTotals, error) {
	if err := t.writeTotals(); err != nil {
		return nil, err
	}
	if err := t.remove("identity = ? AND sender = ? AND digest = ?", q.id, senderKey(p.From), p.Digest); err != nil {
		return nil, err
	}
	return t.queue(p.To)
}
