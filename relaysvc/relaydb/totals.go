package relaydb

// totalsCache is what the packets of a transaction have looked up and changed
// of queues and networks. It is written back before any other decision of the
// same transaction and before the commit, so that a group that goes to one
// recipient costs one look and one update.
type totalsCache struct {
	queues   map[string]*queueTotals // by ACE ID
	blocked  map[pair]bool
	networks map[string]*networkTotals
	spare    []*queueTotals
}

type pair struct{ to, from string }

// queueTotals is a row of queues, with what the decision about a packet needs
// of its identity.
type queueTotals struct {
	id                       int64
	kelEnd                   []byte
	network                  *networkTotals
	lastSeq                  int64
	entries, bytes           int64
	strangers, strangerBytes int64
	quotaEntries, quotaBytes int64 // 0 for none
	changed                  bool
}

type networkTotals struct {
	name    string
	queued  int64
	changed bool
}

func (c *totalsCache) init() {
	c.queues, c.blocked, c.networks = map[string]*queueTotals{}, map[pair]bool{}, map[string]*networkTotals{}
}

func (c *totalsCache) clear() {
	for _, q := range c.queues {
		c.spare = append(c.spare, q)
	}
	clear(c.queues)
	clear(c.blocked)
	clear(c.networks)
}

func (c *totalsCache) newQueue() *queueTotals {
	n := len(c.spare)
	if n == 0 {
		return &queueTotals{}
	}
	q := c.spare[n-1]
	c.spare = c.spare[:n-1]
	*q = queueTotals{kelEnd: q.kelEnd[:0]}
	return q
}

const (
	selectQueue = `
SELECT i.id, i.kel_end, i.network, q.last_seq, q.entries, q.bytes, q.strangers, q.stranger_bytes,
  coalesce(u.entries, 0), coalesce(u.bytes, 0)
FROM identities i JOIN queues q ON q.identity = i.id LEFT JOIN quotas u ON u.identity = i.id
WHERE i.ace_id = ? AND i.registered = 1 AND i.suspended = 0`
	selectBlock = "SELECT 1 FROM blocks WHERE identity = ? AND peer = ? AND blocked = 1"
	updateQueue = `
UPDATE queues SET last_seq = ?, entries = ?, bytes = ?, strangers = ?, stranger_bytes = ? WHERE identity = ?`
	selectNetwork = "SELECT queued FROM networks WHERE network = ?"
	updateNetwork = `
INSERT INTO networks (network, queued) VALUES (?, ?) ON CONFLICT DO UPDATE SET queued = excluded.queued`
)

// queue returns the queue of an identity that takes packets, or nil.
func (t *tx) queue(aceID string) (*queueTotals, error) {
	if q := t.totals.queues[aceID]; q != nil {
		return q, nil
	}
	s := t.packets.selectQueue
	s.BindText(1, aceID)
	ok, err := s.Step()
	if err != nil || !ok {
		return nil, err
	}
	q := t.totals.newQueue()
	q.id, q.kelEnd = s.Int(0), append(q.kelEnd, s.Bytes(1)...)
	network := string(s.Bytes(2))
	q.lastSeq, q.entries, q.bytes = s.Int(3), s.Int(4), s.Int(5)
	q.strangers, q.strangerBytes = s.Int(6), s.Int(7)
	q.quotaEntries, q.quotaBytes = s.Int(8), s.Int(9)
	s.Reset()
	q.network, err = t.network(network)
	t.totals.queues[aceID] = q
	return q, err
}

func (t *tx) network(name string) (*networkTotals, error) {
	if n := t.totals.networks[name]; n != nil {
		return n, nil
	}
	n := &networkTotals{name: name}
	t.totals.networks[name] = n
	s := t.packets.selectNetwork
	s.BindText(1, name)
	ok, err := s.Step()
	if err != nil || !ok {
		return n, err
	}
	n.queued = s.Int(0)
	s.Reset()
	return n, nil
}

func (t *tx) blocked(q *queueTotals, p *Packet) (bool, error) {
	key := pair{p.To, p.From}
	if b, ok := t.totals.blocked[key]; ok {
		return b, nil
	}
	s := t.packets.selectBlock
	s.BindInt(1, q.id)
	s.BindText(2, p.From)
	b, err := s.Step()
	if err != nil {
		return false, err
	}
	s.Reset()
	t.totals.blocked[key] = b
	return b, nil
}

// writeTotals writes back what packets have changed and forgets the rest.
func (t *tx) writeTotals() error {
	if len(t.totals.queues) == 0 {
		return nil
	}
	for _, q := range t.totals.queues {
		if !q.changed {
			continue
		}
		s := t.packets.updateQueue
		for i, v := range [...]int64{q.lastSeq, q.entries, q.bytes, q.strangers, q.strangerBytes, q.id} {
			s.BindInt(i+1, v)
		}
		if err := s.Run(); err != nil {
			return err
		}
	}
	for _, n := range t.totals.networks {
		if !n.changed {
			continue
		}
		s := t.packets.updateNetwork
		s.BindText(1, n.name)
		s.BindInt(2, n.queued)
		if err := s.Run(); err != nil {
			return err
		}
	}
	t.totals.clear()
	return nil
}
