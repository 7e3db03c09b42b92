package core

import (
	"context"
	"math"
	"slices"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Why tells what decides whether messages to a peer, and from it, get through.
// It is what this store knows: only the peer's own decides about the other end.
type Why struct {
	ACEID, Name string
	State       string // pending, admitted or blocked; "" for a stranger
	CanSend     bool   // nothing known keeps a message from being relayed and receipted
	CanReceive  bool   // nothing known keeps the peer's messages out
	Send        []Reason
	Receive     []Reason
}

// Reason is one thing that decides, or helps to.
type Reason struct {
	Code   ReasonCode
	Stops  bool   // no message gets through because of it
	At     int64  // the time it is about, 0 for none
	Count  int    // of messages or events, 0 for none
	Detail string // an error code, "" for none
	Thread string // a thread ID, which a peer may have chosen, "" for none
	Rule   int    // of the policy, from 1, 0 for none
	Types  []string
}

// ReasonCode says which reason it is.
type ReasonCode string

// The reasons.
const (
	WhyOwnKeyEnded       ReasonCode = "own_key_ended"       // both ways: no signing key is in force here
	WhyBlocked           ReasonCode = "blocked"             // both ways: blocked here
	WhyLookupFailed      ReasonCode = "lookup_failed"       // Detail
	WhyNeverLookedUp     ReasonCode = "never_looked_up"     // no descriptor is held
	WhyPeerKeyEnded      ReasonCode = "peer_key_ended"      // no signing key of the peer is in force
	WhyDescriptorStale   ReasonCode = "descriptor_stale"    // an attempt has to refresh it
	WhyPermitHeld        ReasonCode = "permit_held"         // valid until At
	WhyPermitMissing     ReasonCode = "permit_missing"      // none is held
	WhyPermitEnded       ReasonCode = "permit_ended"        // at At
	WhyPermitVoid        ReasonCode = "permit_void"         // the issuer has another signing key now
	WhyRequestSent       ReasonCode = "request_sent"        // it waits until At
	WhyRequestUnsent     ReasonCode = "request_unsent"      // no relay took it
	WhyLogTooLong        ReasonCode = "log_too_long"        // the own log, of Count events, for a request to a stranger
	WhyCardOpen          ReasonCode = "card_open"           // the peer takes requests
	WhyCardClosed        ReasonCode = "card_closed"         // it takes none
	WhyCardUnknown       ReasonCode = "card_unknown"        // no card record is known
	WhyMessagesWaiting   ReasonCode = "messages_waiting"    // Count of them
	WhyAttemptFailed     ReasonCode = "attempt_failed"      // the last one, with Detail
	WhyThreadBusy        ReasonCode = "thread_busy"         // both ways, on Thread alone: an own message on it waits for its receipt
	WhyNotPublished      ReasonCode = "not_published"       // no unexpired own descriptor stands at the relay
	WhyBlockUnconfirmed  ReasonCode = "block_unconfirmed"   // the relay has not answered to a decision yet
	WhyBlockSuperseded   ReasonCode = "block_superseded"    // the relay holds a later decision
	WhyPermitIssued      ReasonCode = "permit_issued"       // to an admitted or pending peer, valid until At
	WhyPermitDue         ReasonCode = "permit_due"          // it holds no permit that its relay would take
	WhyPermitOutstanding ReasonCode = "permit_outstanding"  // a stranger holds one until At
	WhyRequestWaiting    ReasonCode = "request_waiting"     // for a decision here, until At
	WhyOpenToRequests    ReasonCode = "open_to_requests"    // a stranger may ask
	WhyClosedToStrangers ReasonCode = "closed_to_strangers" // and may not
	WhyPolicyAsks        ReasonCode = "policy_asks"         // Rule holds messages of Types for the owner
	WhyPolicyDenies      ReasonCode = "policy_denies"       // Rule refuses to send Types, or sets them aside when they come
	WhyPolicyUnclear     ReasonCode = "policy_unclear"      // it names a peer whom nobody knows, and nothing goes on
)

// WhyOptions say how to ask.
type WhyOptions struct {
	Offline bool // do not look the peer up
}

// Why explains whether a peer can be reached, and whether it can reach this
// endpoint. It looks the peer up first, which pins it; a failure of that is one
// of the reasons. Codes: invalid_argument, storage_failed.
func (e *Endpoint) Why(ctx context.Context, aceID string, o WhyOptions) (Why, error) {
	now, err := e.now()
	if err != nil {
		return Why{}, err
	}
	if !wire.IsACEID(aceID) || aceID == e.ACEID() {
		return Why{}, fault.New(fault.InvalidArgument, "%.80q is not the ACE ID of another agent", aceID)
	}
	f := facts{endpoint: e, now: now}
	if !o.Offline {
		_, f.lookup = e.Lookup(ctx, aceID)
		if ctx.Err() != nil {
			return Why{}, ctx.Err()
		}
	}
	if f.Standing, err = e.node.Standing(ctx, aceID, now); err != nil {
		return Why{}, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error { return f.read(tx, aceID) })
	if err != nil {
		return Why{}, err
	}
	y := Why{ACEID: aceID, Name: f.name, State: string(f.State), Send: f.send(), Receive: f.receive()}
	y.CanSend, y.CanReceive = passes(y.Send), passes(y.Receive)
	return y, nil
}

func passes(reasons []Reason) bool {
	for _, r := range reasons {
		if r.Stops {
			return false
		}
	}
	return true
}

// facts are what the reasons follow from.
type facts struct {
	delivery.Standing
	endpoint  *Endpoint
	now       int64
	lookup    error // of the peer
	name      string
	card      *descriptor.CardBundle // of the peer, nil without
	block     store.Block
	request   store.Request
	published bool // an own descriptor stands at the relay
	open      bool // the own card record is
	waiting   int
	failed    string   // code of the last attempt of a waiting message
	busy      []string // thread IDs (08#sender-state-and-busy-threads)
	out, in   []Reason // of the policy
}

func (f *facts) read(tx *store.Tx, id string) (err error) {
	if f.name, err = tx.Name(id); err != nil {
		return err
	}
	if f.block, _, err = tx.Block(id); err != nil {
		return err
	}
	if f.request, _, err = tx.Request(id, f.now-wire.ContactRequestTTLSeconds); err != nil {
		return err
	}
	card, ok, err := tx.Card(id)
	if err != nil {
		return err
	}
	if ok && card.Raw != nil {
		if f.card, err = descriptor.DecodeStoredCard(card.Raw); err != nil {
			return err
		}
	}
	if err := f.readOwn(tx); err != nil {
		return err
	}
	if f.out, err = f.policyReasons(tx, policy.Out, id); err != nil {
		return err
	}
	if f.in, err = f.policyReasons(tx, policy.In, id); err != nil {
		return err
	}
	return f.readOutbox(tx, id)
}

func (f *facts) readOwn(tx *store.Tx) error {
	own, ok, err := tx.Own(store.OwnDescriptor)
	if err != nil {
		return err
	}
	if ok {
		agent, err := descriptor.DecodeStored(own.Raw)
		if err != nil {
			return err
		}
		f.published = own.Relay != "" && own.Relay == f.endpoint.config.Relay && agent.Usable(f.now, f.endpoint.config.Identity.State())
	}
	own, ok, err = tx.Own(store.OwnCard)
	if err != nil || !ok {
		return err
	}
	card, err := descriptor.DecodeStoredCard(own.Raw)
	f.open = err == nil && card.Contact == admission.Open
	return err
}

func (f *facts) readOutbox(tx *store.Tx, id string) (err error) {
	if f.waiting, f.failed, err = waitingFor(tx, id); err != nil || f.waiting == 0 {
		return err
	}
	return f.readBusy(tx, id)
}

// waitingFor counts the messages to a peer that have no outcome, and returns the
// code with which the last attempt of one failed.
func waitingFor(tx *store.Tx, id string) (n int, failed string, err error) {
	pending, err := tx.OutboxPending(math.MaxInt64)
	last := int64(-1)
	for _, entry := range pending {
		if entry.Peer != id {
			continue
		}
		n++
		if entry.Attempts > 0 && entry.NextAttemptAt > last {
			last, failed = entry.NextAttemptAt, entry.LastError
		}
	}
	return n, failed, err
}

// readBusy notes the threads with a peer that a waiting message makes busy.
func (f *facts) readBusy(tx *store.Tx, id string) error {
	pending, err := tx.OutboxPending(math.MaxInt64)
	if err != nil {
		return err
	}
	for _, entry := range pending {
		if entry.Peer != id || entry.ThreadID == "" || slices.Contains(f.busy, entry.ThreadID) {
			continue
		}
		own, err := f.endpoint.node.PendingOn(tx, id, entry.ThreadID, f.now)
		if err != nil {
			return err
		}
		if own != "" {
			f.busy = append(f.busy, entry.ThreadID)
		}
	}
	return nil
}

func (f *facts) busyReasons() (reasons []Reason) {
	for _, id := range f.busy {
		reasons = append(reasons, Reason{Code: WhyThreadBusy, Thread: id})
	}
	return reasons
}

func (f *facts) send() (reasons []Reason) {
	add := func(r Reason) { reasons = append(reasons, r) }
	if !f.endpoint.config.Identity.State().Usable(f.now) {
		add(Reason{Code: WhyOwnKeyEnded, Stops: true})
	}
	if f.State == admission.Blocked {
		add(Reason{Code: WhyBlocked, Stops: true})
	}
	if f.lookup != nil {
		add(Reason{Code: WhyLookupFailed, Detail: string(fault.CodeOf(f.lookup))})
	}
	switch {
	case !f.Described:
		add(Reason{Code: WhyNeverLookedUp, Stops: true})
	case !f.PinUsable:
		add(Reason{Code: WhyPeerKeyEnded, Stops: true})
	case !f.Usable:
		// Without a fresh descriptor no attempt gets anywhere (06#outbox-sender
		// step 1), and a lookup has just failed to bring one.
		add(Reason{Code: WhyDescriptorStale, Stops: f.lookup != nil})
	}
	reasons = append(reasons, f.out...)
	reasons = append(reasons, f.sendPermit()...)
	if f.waiting > 0 {
		add(Reason{Code: WhyMessagesWaiting, Count: f.waiting})
	}
	if f.failed != "" {
		add(Reason{Code: WhyAttemptFailed, Detail: f.failed})
	}
	return append(reasons, f.busyReasons()...)
}

// sendPermit tells of the permit that an attempt needs and, without one, of the
// ways to get it.
func (f *facts) sendPermit() (reasons []Reason) {
	r, held := permitReason(f.Held, f.now)
	if held {
		return []Reason{{Code: WhyPermitHeld, At: r.At}}
	}
	reasons = append(reasons, r)
	switch {
	case f.State == admission.Blocked:
	case f.State == admission.Pending && f.Issued.ExpiresAt == 0:
		// The permit in a request counts as issued once a relay took the request.
		reasons = append(reasons, Reason{Code: WhyRequestUnsent})
	case f.State == admission.Pending:
		reasons = append(reasons, Reason{Code: WhyRequestSent, At: f.ExpiresAt})
	case f.card == nil:
		reasons = append(reasons, Reason{Code: WhyCardUnknown})
	case f.card.Contact == admission.Open:
		reasons = append(reasons, Reason{Code: WhyCardOpen})
	default:
		reasons = append(reasons, Reason{Code: WhyCardClosed})
	}
	if n := len(f.endpoint.config.Identity.State().Events()); n > wire.MaxStrangerKELEvents && f.State != admission.Blocked {
		reasons = append(reasons, Reason{Code: WhyLogTooLong, Count: n})
	}
	return reasons
}

// permitReason judges a permit and says what is wrong with one that is not
// valid.
func permitReason(p delivery.PermitStanding, now int64) (r Reason, valid bool) {
	switch {
	case p.Valid:
		return Reason{At: p.ExpiresAt}, true
	case p.ExpiresAt == 0:
		return Reason{Code: WhyPermitMissing, Stops: true}, false
	case p.ExpiresAt <= now:
		return Reason{Code: WhyPermitEnded, Stops: true, At: p.ExpiresAt}, false
	}
	return Reason{Code: WhyPermitVoid, Stops: true}, false
}

func (f *facts) receive() (reasons []Reason) {
	add := func(r Reason) { reasons = append(reasons, r) }
	if !f.endpoint.config.Identity.State().Usable(f.now) {
		add(Reason{Code: WhyOwnKeyEnded, Stops: true})
	}
	if !f.published {
		add(Reason{Code: WhyNotPublished, Stops: true})
	}
	if f.block.Revision > 0 && !f.endpoint.settled(f.block) {
		// An unblock that the relay does not know leaves its block in force.
		add(Reason{Code: WhyBlockUnconfirmed, Stops: !f.block.Blocked})
	}
	if f.block.Superseded {
		add(Reason{Code: WhyBlockSuperseded})
	}
	reasons = append(reasons, f.in...)
	reasons = append(reasons, f.receiveState())
	if f.request.Peer != "" {
		add(Reason{Code: WhyRequestWaiting, At: f.request.ReceivedAt + wire.ContactRequestTTLSeconds})
	}
	return append(reasons, f.busyReasons()...)
}

func (f *facts) receiveState() Reason {
	_, valid := permitReason(f.Issued, f.now)
	switch {
	case f.State == admission.Blocked:
		return Reason{Code: WhyBlocked, Stops: true}
	case f.State != admission.Stranger && valid:
		return Reason{Code: WhyPermitIssued, At: f.Issued.ExpiresAt}
	case f.State != admission.Stranger:
		return Reason{Code: WhyPermitDue, Stops: true}
	case valid:
		return Reason{Code: WhyPermitOutstanding, At: f.Issued.ExpiresAt}
	case f.open:
		return Reason{Code: WhyOpenToRequests, Stops: true}
	}
	return Reason{Code: WhyClosedToStrangers, Stops: true}
}
