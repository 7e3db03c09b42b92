package sim

import (
	"slices"

	"github.com/ace-toolkit/ace/core/wire"
)

// ledger is what the onlooker knows of all messages.
type ledger struct {
	list []*sentMessage
	byID map[string]*sentMessage
}

type sentMessage struct {
	id        string
	from      *host
	to        string // ACE ID
	body      string // canonical JSON, "" until it is seen in an outbox
	kind      string // its type
	thread    string
	at        int64 // when it was accepted, by the sender's clock
	stored    bool  // the recipient's store has held it
	abandoned bool
	expired   bool // it was, before a receipt came or not
	gone      bool // the sender's store has lost it
}

func newLedger() *ledger { return &ledger{byID: map[string]*sentMessage{}} }

// add notes a message of a sender. One is known from the moment that Enqueue has
// returned it, or that it is in the store although Enqueue failed.
func (l *ledger) add(id string, from *host, to string) *sentMessage {
	m := l.byID[id]
	if m == nil {
		m = &sentMessage{id: id, from: from, to: to, at: from.clock()}
		l.byID[id] = m
		l.list = append(l.list, m)
	}
	return m
}

func (l *ledger) of(from *host) []*sentMessage {
	return slices.DeleteFunc(slices.Clone(l.list), func(m *sentMessage) bool { return m.from != from })
}

// sentReceipt is a receipt that has left a host.
type sentReceipt struct {
	from             string // ACE ID
	to               *host
	packet           string // its own message ID
	answers, outcome string
	prekey           string // that is unknown, "" for none
}

// passage is a packet as it was sent.
type passage struct {
	at     int64
	prekey string
}

// inTime reports whether some packet of a message was in the window of a
// receiver at now (06#receive-pipeline step 5).
func inTime(list []passage, now int64) bool {
	return slices.ContainsFunc(list, func(p passage) bool {
		return p.at >= now-wire.OfflineWindowSeconds && p.at <= now+wire.TimestampWindowSeconds
	})
}

// allInTime reports whether all were.
func allInTime(list []passage, now int64) bool {
	return !slices.ContainsFunc(list, func(p passage) bool { return !inTime([]passage{p}, now) })
}
