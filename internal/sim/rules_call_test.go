package sim

import (
	"strings"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// checkCall checks what a host must have made durable before a request leaves
// it, and what it may say.
func (w *world) checkCall(c *call) {
	if id, ok := strings.CutPrefix(c.url.Path, "/v1/descriptor/"); ok {
		c.from.asked[id] = true
	}
	switch c.url.Path {
	case "/v1/inbox/ack":
		c.from.checkAck(c.url.Query().Get("through"))
	case "/v1/send":
		c.from.checkSend(c)
	}
}

// checkAck: nothing is acknowledged that is not settled in the store, and only
// what was fetched (06#receive-pipeline, Acknowledgement).
func (h *host) checkAck(through string) {
	if h.fetches[through] == 0 {
		h.w.violate("what is acknowledged was fetched", "06#receive-pipeline", "%s: %s", h.name, through)
	}
	h.read(func(tx *store.Tx) error {
		settled, err := settledIn(tx)
		if err != nil {
			return err
		}
		times := h.timesShown()
		for id, raw := range h.shown {
			if wire.CompareStreamIDs(id, through) > 0 {
				continue
			}
			p, err := packet.DecodeValue(raw)
			if err != nil {
				return err
			}
			seen, err := tx.HasSeen(p.From, p.MessageID)
			if err != nil {
				return err
			}
			late := p.CheckWindow(h.clock()) != nil // and dropped, before anybody looks whether it was seen
			if m := h.w.sent.byID[p.MessageID]; m != nil && m.from.id.ACEID() == p.From && seen && !late && !settled[id] && times[m.id] == 1 {
				row, _, err := tx.Contact(p.From, h.clock())
				if err != nil {
					return err
				}
				if row.State == "admitted" { // another process may have decided about it just now
					h.checkReceipted(m)
				}
			}
			if !seen && !settled[id] && !settled[p.From+p.MessageID] {
				h.w.violate("what is acknowledged is settled", "06#receive-pipeline", "%s: %s, the packet %s of %s, is not", h.name, id, p.MessageID, p.From)
			}
		}
		return nil
	})
}

// timesShown counts the entries that are not taken from the inbox by their
// messages.
func (h *host) timesShown() map[string]int {
	times := map[string]int{}
	for _, raw := range h.shown {
		if p, err := packet.DecodeValue(raw); err == nil {
			times[p.MessageID]++
		}
	}
	return times
}

// checkReceipted: a message that was taken in, or comes again, is not
// acknowledged before its receipt went out (06#receive-pipeline step 11). A
// receipt without a route is not sent.
func (h *host) checkReceipted(m *sentMessage) {
	w := h.w
	sent, tried := h.receipted[m.id]
	switch {
	case h.excused() || m.from.excused() || m.from.exhausted || h.view.contacts[m.from.id.ACEID()].State != "admitted" || h.renewed(m.from.id.ACEID()) || m.from.unregistered:
	case !tried && h.routeless[m.id]:
	case !tried:
		w.violate("a message that was taken in is receipted", "06#receipts", "%s acknowledges %s, and no receipt has left", h.name, m.id)
	case !sent:
		w.violate("a receipt that failed for now is sent again", "06#receive-pipeline step 11", "%s acknowledges %s", h.name, m.id)
	}
}

// settledIn returns what a store says to have dropped, rejected or given up, by
// sender and message or by stream ID.
func settledIn(tx *store.Tx) (map[string]bool, error) {
	settled := map[string]bool{}
	audits, err := tx.Audits(refused)
	if err != nil {
		return nil, err
	}
	for _, a := range audits {
		settled[a.Peer+a.MessageID] = true
	}
	given, err := tx.Quarantine()
	for _, q := range given {
		settled[q.StreamID] = true
	}
	return settled, err
}

// sending is a packet on its way out, with what the sender's store holds.
type sending struct {
	h       *host
	packet  *packet.Packet
	permit  *admission.Permit // nil without
	entry   store.OutboxEntry // zero for receipts and contact packets
	ahead   string            // ID of the message that has its first attempt before, "" for none
	peer    *descriptor.PublishedAgent
	held    store.HeldPrekey
	pinned  string // digest of the last pinned event
	newest  []byte // permit held
	state   string // of the recipient in the admission table
	source  bool   // an own descriptor is held that may go out
	issues  []byte // the permit that the content carries, nil for none
	answers string // the message that it is a receipt for, "" for none
}

func (h *host) checkSend(c *call) {
	s, err := h.readSend(c.body)
	if err != nil {
		h.w.violate("a send can be read", "07#send", "%s: %v", h.name, err)
		return
	}
	c.peer = s.packet.To
	defer func() { c.issues, c.answers = s.issues, s.answers }()
	id := strings.Clone(s.packet.MessageID) // not with the request, and so below
	h.w.packets[id] = append(h.w.packets[id], passage{at: s.packet.Timestamp, prekey: strings.Clone(s.packet.Prekey)})
	s.checkSignature()
	s.checkPermit()
	if s.entry.MessageID != "" {
		c.message, c.attempt = s.entry.MessageID, s.entry.Attempts+1
		delete(h.retryAfter, nthAttempt{c.message, c.attempt}) // of one that was made and not recorded
		s.checkAttempt()
		s.checkPrekey()
		s.checkRetry()
		return
	}
	s.checkCore()
}

func (h *host) readSend(body []byte) (*sending, error) {
	v, err := relayapi.ParseBody(body)
	if err != nil {
		return nil, err
	}
	parsed, err := relayapi.ParseSend(v)
	if err != nil {
		return nil, err
	}
	s := &sending{h: h}
	if s.packet, err = packet.DecodeValue(parsed.Packet); err != nil {
		return nil, err
	}
	if parsed.HasPermit {
		if s.permit, err = admission.DecodePermit(parsed.Permit); err != nil {
			return nil, err
		}
	}
	h.read(s.load)
	return s, nil
}

// ofNewerLog reports whether the permit verifies under the log that the peer has
// now. The answer that declines a contact request goes with the permit of that
// request, whose source the pin does not follow (05#flow step 3).
func (s *sending) ofNewerLog() bool {
	for _, peer := range s.h.w.hosts {
		if peer.id.ACEID() == s.packet.To {
			return s.permit.Verify(peer.id.State(), s.packet.To, s.h.id.ACEID(), s.h.clock()) == nil
		}
	}
	return false
}

func (s *sending) load(tx *store.Tx) error {
	to := s.packet.To
	var err error
	if s.entry, _, err = tx.Outbox(s.packet.MessageID); err != nil {
		return err
	}
	if s.ahead, err = tx.OutboxAhead(to, s.entry.MessageID); err != nil {
		return err
	}
	raw, err := tx.Descriptor(to)
	if err != nil {
		return err
	}
	if raw != nil {
		if s.peer, err = descriptor.DecodeStored(raw); err != nil {
			return err
		}
	}
	if s.held, _, err = tx.HeldPrekey(to); err != nil {
		return err
	}
	pin, err := s.h.pinned(tx, to)
	if err != nil {
		return err
	}
	if pin != nil {
		s.pinned = pin.LastHash()
		if s.permit != nil && s.permit.Verify(pin, to, s.h.id.ACEID(), s.h.clock()) != nil && !s.ofNewerLog() {
			s.violate("a superseded permit is not presented", "04#caching", "that of %d", s.permit.IssuedAt)
		}
	}
	newest, _, err := tx.Permit(to, store.PermitHeld)
	if err != nil {
		return err
	}
	s.newest = newest.Raw
	row, _, err := tx.Contact(to, s.h.clock())
	if err != nil {
		return err
	}
	s.state = row.State
	own, ok, err := tx.Own(store.OwnDescriptor)
	if err != nil || !ok {
		return err
	}
	agent, err := descriptor.DecodeStored(own.Raw)
	s.source = err == nil && agent.Usable(s.h.clock(), s.h.id.State())
	return err
}

func (s *sending) violate(rule, cite, format string, args ...any) {
	s.h.w.violate(rule, cite, s.h.name+" sends "+s.packet.MessageID+": "+format, args...)
}

// checkSignature: a packet is signed at the signer's t by its current key
// (01#operational-signatures).
func (s *sending) checkSignature() {
	now := s.h.clock()
	if err := s.packet.VerifySignature(s.h.id.State(), now); err != nil {
		s.violate("a packet verifies", "01#operational-signatures", "%v", err)
	}
	if s.packet.Timestamp != s.h.id.SigningTime(now) {
		s.violate("a packet is signed at t", "06#outbox-sender step 2", "at %d, and it is %d", s.packet.Timestamp, now)
	}
}

// checkPermit: an application message goes out with the newest permit of its
// recipient, never as a stranger's (06#outbox-sender step 3).
func (s *sending) checkPermit() {
	switch {
	case s.entry.MessageID == "":
	case s.permit == nil:
		s.violate("no attempt is a stranger's", "06#outbox-sender step 3", "no permit")
	case string(s.permit.Raw()) != string(s.newest):
		s.violate("the newest permit is presented", "06#outbox-sender step 3", "that of %d", s.permit.IssuedAt)
	}
}

// checkAttempt: an attempt is made of a message that waits and is not over, by
// who has claimed it, and no earlier than the schedule says (06#outbox-sender).
func (s *sending) checkAttempt() {
	now := s.h.clock()
	e := s.entry
	switch {
	case e.State != store.Pending && s.h.raced: // it ended while its attempt was under way
	case e.State != store.Pending:
		s.violate("a message with an end is not sent", "06#outbox-sender", "it is %s", e.State)
	case e.Attempts > 0 && now >= e.FirstAttemptAt+wire.OfflineWindowSeconds:
		s.violate("an expired message is not sent", "06#outbox-sender", "first attempt at %d", e.FirstAttemptAt)
	case e.Attempts > 0 && now < e.NextAttemptAt: // a first one may come before the clock is where it was
		s.violate("a retry waits for its time", "06#outbox-sender", "%d s early", e.NextAttemptAt-now)
	case e.Attempts == 0 && s.ahead != "":
		s.violate("first attempts are made in order", "06#outbox-sender", "%s was queued before", s.ahead)
	case s.state == "blocked" && !s.h.raced:
		s.violate("nothing goes to a blocked peer", "05#blocks", "attempt %d", e.Attempts+1)
	case s.h.posting[e.MessageID]:
		s.violate("one attempt at a time", "06#outbox-sender", "another one is under way")
	case e.ClaimedUntil <= now:
		s.violate("an attempt is claimed", "06#outbox-sender", "until %d", e.ClaimedUntil)
	}
}

// checkPrekey: the first attempt goes to the peer prekey held, while it is
// usable, and every later one to the published prekey (06#outbox-sender step 2).
func (s *sending) checkPrekey() {
	if s.peer == nil {
		s.violate("a packet goes to a descriptor", "06#outbox-sender step 1", "none is held")
		return
	}
	want := s.peer.PrekeyID
	usable := s.held.PublicKey != nil && s.held.Pin == s.pinned && s.h.clock()-s.held.Timestamp < wire.OfflineWindowSeconds
	if s.entry.Attempts == 0 && usable {
		want = suite.Hex256(s.held.PublicKey)
		s.h.w.count("sent to a peer prekey")
	}
	if s.packet.Prekey != want {
		s.violate("an attempt goes to the right prekey", "06#outbox-sender step 2", "attempt %d to %.8s, not %.8s", s.entry.Attempts+1, s.packet.Prekey, want)
	}
	if !s.peer.Usable(s.h.clock(), s.h.w.pinOf(s.h, s.packet.To)) {
		s.violate("no packet goes to a stale descriptor", "06#outbox-sender step 1", "it ends at %d", s.peer.ExpiresAt)
	}
}

// checkRetry: every attempt after the first has looked the recipient up and, to
// an admitted one, carries what it needs to recover (06#outbox-sender steps 1 and
// 2, 05#admission-recovery step 1). The onlooker opens it with the recipient's
// published key.
func (s *sending) checkRetry() {
	asked := s.h.asked[s.packet.To]
	delete(s.h.asked, s.packet.To)
	if s.entry.Attempts == 0 {
		return
	}
	if !asked && !s.h.raced {
		s.violate("a retry looks the recipient up", "06#outbox-sender step 1", "attempt %d", s.entry.Attempts+1)
	}
	content := s.open()
	if content == nil {
		return
	}
	if content.Admission != nil {
		s.issues = content.Admission.Permit.Canonical()
		s.h.w.proofs[[2]string{s.packet.From, s.packet.To}] = append(s.h.w.proofs[[2]string{s.packet.From, s.packet.To}], s.permit)
	}
	switch a := content.Admission; {
	case (a != nil) != (s.state == "admitted" && s.source) && s.h.raced: // another process has decided about the peer meanwhile
	case (a != nil) != (s.state == "admitted" && s.source):
		s.violate("a retry to an admitted peer carries its admission", "06#outbox-sender step 2", "it is %q", s.state)
	case a != nil && !a.Proof.Equal(s.permit.Value()):
		s.violate("the proof is the permit presented", "05#admission-recovery step 1", "it is not")
	}
}

// checkCore checks a receipt or contact packet, which the onlooker opens with
// the recipient's published key: these go to no other.
func (s *sending) checkCore() {
	content := s.open()
	if content == nil {
		return // to a key that the recipient has lost
	}
	switch content.Type {
	case profile.ReceiptType:
		receipt, err := delivery.DecodeReceipt(content.Body)
		if err != nil {
			s.violate("a receipt is valid", "06#receipts", "%v", err)
			return
		}
		if receipt.Permit.Kind() == wire.Object {
			s.issues = receipt.Permit.Canonical()
		}
		s.h.checkReceipt(s, receipt)
	case profile.ContactType:
		if permit, ok := content.Body.Get("permit"); ok {
			s.issues = permit.Canonical()
		}
	default:
		s.violate("a message is in the outbox before it leaves", "06#outbox-sender", "it is not")
	}
}

// open returns the content, nil when the recipient has no published key for it.
func (s *sending) open() (content *packet.Content) {
	to := s.h.w.other(s.packet.To)
	if to == nil {
		return nil
	}
	to.read(func(tx *store.Tx) error {
		keys, err := tx.Prekeys("")
		for _, k := range keys {
			if k.ID == s.packet.Prekey {
				key := suite.NewDecapsulationKey(k.Seed)
				plaintext, err := s.packet.Open(key)
				if err != nil {
					return err
				}
				content, err = packet.ParseContent(plaintext)
				if err != nil {
					return err
				}
			}
			k.Seed.Destroy()
		}
		return err
	})
	return content
}

// checkReceipt: a delivered message is in the store before its receipt leaves
// (06#receive-pipeline steps 10 and 11), an unknown prekey is unknown, and a
// permit that ends soon is renewed.
func (h *host) checkReceipt(s *sending, r *delivery.ReceiptBody) {
	h.w.count("receipt " + r.Outcome + " " + r.Code)
	s.answers = strings.Clone(r.MessageID)
	if has := h.view.message(s.packet.To, r.MessageID); has && r.Outcome == delivery.OutcomeRejected && r.Code != string(fault.UnknownPrekey) {
		s.violate("what was taken in is not rejected", "06#receive-pipeline step 9", "%s is, with %s", r.MessageID, r.Code)
	}
	h.w.receipts = append(h.w.receipts, sentReceipt{
		from: h.id.ACEID(), to: h.w.other(s.packet.To), outcome: r.Outcome, prekey: strings.Clone(r.Prekey),
		packet: strings.Clone(s.packet.MessageID), answers: strings.Clone(r.MessageID), // not with the request
	})
	h.read(func(tx *store.Tx) error {
		seen, err := tx.HasSeen(s.packet.To, r.MessageID)
		if err != nil {
			return err
		}
		if r.Outcome == delivery.OutcomeDelivered && !seen {
			s.violate("a receipt follows the commit", "06#receive-pipeline step 11", "%s is not stored", r.MessageID)
		}
		if err := s.checkRenewal(tx, r); err != nil {
			return err
		}
		return s.checkUnknown(tx, r.Prekey)
	})
}

// checkRenewal: a receipt renews the newest permit issued to its recipient when
// that ends soon or is void (05#delivery-permits, Renewal).
func (s *sending) checkRenewal(tx *store.Tx, r *delivery.ReceiptBody) error {
	issued, ok, err := tx.Permit(s.packet.To, store.PermitIssued)
	if err != nil || !ok {
		return err
	}
	void := !signedBy(issued, s.h.id.State(), s.h.id.ACEID())
	ends := issued.ExpiresAt-s.h.clock() < wire.PermitRenewalSeconds
	if renewed := r.Permit.Kind() == wire.Object; renewed != (void || ends) && !s.h.raced {
		s.violate("a receipt renews a permit in time", "05#delivery-permits", "void %t, ends soon %t, renewed %t", void, ends, renewed)
	}
	return nil
}

// checkUnknown: the prekey that a receipt calls unknown is one that the host
// held and does not hold any more. One that it never held was offered before its
// seed was safe, unless the host has lost it.
func (s *sending) checkUnknown(tx *store.Tx, id string) error {
	if id == "" {
		return nil
	}
	if !s.h.keys[id] && !s.h.excused() {
		s.violate("a prekey is stored before it is offered", "04#peer-prekeys", "%.8s never was", id)
	}
	for _, of := range []string{"", s.packet.To} {
		keys, err := tx.Prekeys(of)
		if err != nil {
			return err
		}
		for _, k := range keys {
			k.Seed.Destroy()
			if k.ID == id && (k.Slot == store.SlotCurrent || s.h.clock()-k.At < wire.OfflineWindowSeconds) {
				s.violate("an unknown prekey is unknown", "06#receive-pipeline step 6", "%.8s is %s", id, k.Slot)
			}
		}
	}
	return nil
}
