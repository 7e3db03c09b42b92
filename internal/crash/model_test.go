package crash

import (
	"bytes"
	"sync"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// queue is what the harness knows of one recipient at the relay: which packets
// must be queued, which may be, and which must not. Everything that happens to
// the queue is told to it at its beginning and at its end, because what is
// asked and not answered may have been done.
//
// One goroutine, the owner, scans, acknowledges, registers and unregisters, one
// after the other. Senders and a listener run beside it.
type queue struct {
	name   string // for findings
	report *findings

	mu      sync.Mutex
	clock   int64              // counts events; guarded by mu, as what follows
	packets map[string]*packet // what may be queued, by message ID
	gone    map[string]parting // what must not be
	highest string             // the highest stream ID served so far
	status  status             // of the registration
	epoch   int                // grows with each begin and end of a change of status
	through string             // of the acknowledgement without an answer, or ""
}

// status says whether the recipient is registered.
type status string

const (
	registered   status = "registered"
	unregistered status = "unregistered"
	unclear      status = "unclear" // it asked, and got no answer
)

// packet is one that may be queued.
type packet struct {
	messageID string
	raw       []byte
	permit    []byte // nil for a stranger's
	network   string // address that it is sent from
	expires   int64  // earliest end of its retention
	blocked   bool   // the recipient has blocked its sender
	peer      bool   // its sender is the one that the recipient blocks now and then

	asking     int   // requests under way
	begun      int64 // when the first request was
	answered   int64 // when it was accepted, 0 for not yet
	certain    bool  // it must be queued
	wasCertain bool  // before the unregistration that has no answer
	leaving    bool  // an acknowledgement without an answer covers it
	streamID   string
}

// parting says when and why a packet left the queue.
type parting struct {
	at  int64
	why string
}

func newQueue(name string, f *findings) *queue {
	return &queue{
		name: name, report: f, status: unregistered,
		packets: map[string]*packet{}, gone: map[string]parting{}, highest: "0-0",
	}
}

func (q *queue) tick() int64 { q.clock++; return q.clock }

func (q *queue) part(p *packet, why string) {
	delete(q.packets, p.messageID)
	q.gone[p.messageID] = parting{q.tick(), why}
}

// sending is told when p begins to be sent and returns what sent needs.
func (q *queue) sending(p *packet) (epoch int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.gone, p.messageID)
	q.packets[p.messageID] = p
	p.asking++
	if p.begun == 0 {
		p.begun = q.tick()
	}
	return q.epoch
}

// sent is told the answer: "" when there was none.
func (q *queue) sent(p *packet, epoch int, outcome string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.asking--
	settled := epoch == q.epoch && q.status != unclear
	switch {
	case outcome == "":
	case outcome == ok:
		if settled && q.status == unregistered {
			q.report.add(registration, "%s is not registered, and a packet for it was accepted", q.name)
		}
		if q.packets[p.messageID] == p {
			if p.answered == 0 {
				p.answered = q.tick()
			}
			p.certain = settled && !p.leaving
		}
	case p.certain && outcome != string(relayapi.RateLimited):
		q.report.add(lost, "%s: a packet that is queued is refused with %s when it is sent again", q.name, outcome)
	case p.certain:
	default:
		if settled && q.status == registered && p.permit != nil && !p.blocked && outcome == string(fault.NotPermitted) {
			q.report.add(registration, "%s is registered, and a packet with its permit was refused", q.name)
		}
		if p.streamID != "" {
			q.report.add(service, "%s: a packet that was refused with %s is served", q.name, outcome)
		}
		if q.packets[p.messageID] == p {
			q.part(p, "refused with "+outcome)
		}
	}
}

// scan is one reading of the whole queue.
type scan struct {
	begun   int64
	must    map[string]bool // message IDs
	settles []*packet       // nothing was asked about them when it began
	found   map[string]bool
}

func (q *queue) scanning() *scan {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &scan{begun: q.tick(), must: map[string]bool{}, found: map[string]bool{}}
	for id, p := range q.packets {
		if p.certain {
			s.must[id] = true
		}
		if p.asking == 0 {
			s.settles = append(s.settles, p)
		}
	}
	return s
}

// serve is told of an entry in a page.
func (q *queue) serve(s *scan, e relayapi.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	id := q.served(e, s.begun)
	if s.found[id] {
		q.report.add(twice, "%s: one packet has two entries", q.name)
	}
	s.found[id] = true
}

// stream is told of an entry in a stream that was opened at that time. What
// left the queue since may have been on its way.
func (q *queue) stream(opened int64, e relayapi.Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served(e, opened)
}

// moment returns the time for stream.
func (q *queue) moment() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.tick()
}

// served checks an entry that the relay read after a time. The caller holds mu.
func (q *queue) served(e relayapi.Entry, after int64) (messageID string) {
	v, _ := e.Packet.Get("messageId")
	messageID, _ = v.AsString()
	p := q.packets[messageID]
	if p == nil {
		left, known := q.gone[messageID]
		switch {
		case !known:
			q.report.add(altered, "%s is served a packet that nobody sent to it", q.name)
		case left.at < after:
			q.report.add(back, "%s is served %s, which is gone: %s", q.name, e.StreamID, left.why)
		}
		return messageID
	}
	if !bytes.Equal(e.Packet.Canonical(), p.raw) {
		q.report.add(altered, "%s: %s is not what was sent", q.name, e.StreamID)
	}
	switch {
	case p.streamID == "":
		if wire.CompareStreamIDs(e.StreamID, q.highest) <= 0 {
			q.report.add(outOfOrder, "%s: %s is new, after %s was served", q.name, e.StreamID, q.highest)
		}
		p.streamID = e.StreamID
	case p.streamID != e.StreamID:
		q.report.add(outOfOrder, "%s: what was %s is now %s", q.name, p.streamID, e.StreamID)
	}
	if wire.CompareStreamIDs(e.StreamID, q.highest) > 0 {
		q.highest = e.StreamID
	}
	return messageID
}

// scanned ends a scan: the queue was read from its start to an empty page.
func (q *queue) scanned(s *scan) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id := range s.must {
		if p := q.packets[id]; p != nil && !s.found[id] {
			q.report.add(lost, "%s: %q, accepted and not acknowledged, is not served", q.name, p.streamID)
		}
	}
	q.checkPrefix(s)
	for _, p := range s.settles {
		switch {
		case q.packets[p.messageID] != p || p.asking > 0:
		case s.found[p.messageID]:
			p.certain, p.leaving = true, false
		default:
			q.part(p, "it was not there after the restart")
		}
	}
	q.through = ""
	q.checkOrder()
}

// checkPrefix checks what an acknowledgement without an answer has left: if
// anything of what it covers is gone, everything before that is too.
func (q *queue) checkPrefix(s *scan) {
	oldest := ""
	for _, p := range s.settles {
		if p.leaving && s.found[p.messageID] && (oldest == "" || wire.CompareStreamIDs(p.streamID, oldest) < 0) {
			oldest = p.streamID
		}
	}
	for _, p := range s.settles {
		if oldest != "" && p.leaving && !s.found[p.messageID] && wire.CompareStreamIDs(p.streamID, oldest) > 0 {
			q.report.add(lost, "%s: an acknowledgement through %s deleted %s and left %s", q.name, q.through, p.streamID, oldest)
		}
	}
}

// checkOrder checks that a packet which was accepted before another was sent
// stands before it.
func (q *queue) checkOrder() {
	for _, a := range q.packets {
		for _, b := range q.packets {
			if a.answered > 0 && a.answered < b.begun && a.streamID != "" && b.streamID != "" &&
				wire.CompareStreamIDs(a.streamID, b.streamID) > 0 {
				q.report.add(outOfOrder, "%s: %s was accepted before %s was sent", q.name, a.streamID, b.streamID)
			}
		}
	}
}

// acknowledging is told that the owner asks to delete what is served up to an
// entry.
func (q *queue) acknowledging(through string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.through = through
	for _, p := range q.covered() {
		p.certain, p.leaving = false, true
	}
}

func (q *queue) acknowledged() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.covered() {
		q.part(p, "acknowledged through "+q.through)
	}
	q.through = ""
}

func (q *queue) covered() (packets []*packet) {
	for _, p := range q.packets {
		if p.streamID != "" && wire.CompareStreamIDs(p.streamID, q.through) <= 0 {
			packets = append(packets, p)
		}
	}
	return packets
}

// registering is told that the owner asks to be registered, and entered that
// it is.
func (q *queue) registering() { q.change(unclear) }
func (q *queue) entered()     { q.change(registered) }

func (q *queue) change(s status) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.status = s
	q.epoch++
}

// leaving is told that the owner asks to be unregistered. It returns what is
// gone when that is answered; what is being sent meanwhile may be or not.
func (q *queue) leaving() (before []*packet) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.status = unclear
	q.epoch++
	for _, p := range q.packets {
		p.wasCertain, p.certain = p.certain, false
		if p.asking == 0 {
			before = append(before, p)
		}
	}
	return before
}

func (q *queue) left(before []*packet) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.status = unregistered
	q.epoch++
	for _, p := range before {
		q.part(p, "unregistered")
	}
	for _, p := range q.packets {
		p.wasCertain = false
	}
}

// look is told after a restart, with no request under way, whether the relay
// knows the recipient. It reports whether that settles what was unclear: what
// must be queued is then known only from here on.
func (q *queue) look(is status) (news bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.status != unclear && q.status != is {
		q.report.add(registration, "%s is %s, and the relay says that it is %s", q.name, q.status, is)
	}
	if q.status == is {
		return false
	}
	q.status = is
	q.epoch++
	for _, p := range q.packets {
		switch {
		case p.asking > 0:
		case is == unregistered:
			q.part(p, "unregistered")
		case p.wasCertain:
			// The unregistration did not happen, and so nothing of it did.
			p.certain = true
		}
	}
	return true
}

// expire is told, while the relay is down, that its clock is put forward.
func (q *queue) expire(now int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.packets {
		if p.expires <= now {
			q.part(p, "expired")
		}
	}
}

// unheard returns packets whose sending got no answer and that may be sent
// again. Those of the peer may not: a block comes before the look for the same
// packet (07#send steps 2 and 3).
func (q *queue) unheard() (packets []*packet) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.packets {
		if p.answered == 0 && p.asking == 0 && p.certain && !p.peer {
			packets = append(packets, p)
		}
	}
	return packets
}

// streamIDs returns those that are known to be queued, in no order.
func (q *queue) streamIDs() (ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.packets {
		if p.certain && p.streamID != "" {
			ids = append(ids, p.streamID)
		}
	}
	return ids
}

func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.packets)
}

// whereabouts returns the bytes of a packet that may be queued, or why it is
// gone.
func (q *queue) whereabouts(messageID string) (size int, left parting, gone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.packets[messageID]; p != nil {
		return len(p.raw), left, false
	}
	left, gone = q.gone[messageID]
	return 0, left, gone
}

func (q *queue) is(s status) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.status == s
}
