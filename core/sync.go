package core

import (
	"context"
	"errors"
	"time"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// streamStart is the since of an inbox from its start (07#inbox).
const streamStart = "-"

// refetchSeconds is how long a listener waits before it fetches an entry again
// that ended in retry or hold. A shorter wait could spend all fetches that
// MAX_FETCH_ATTEMPTS allows while a pin refresh is still suppressed.
const refetchSeconds = wire.PinRefreshIntervalSeconds + 1

// resendSeconds is how long it waits the first time when only a receipt could not
// be sent: most failures of a relay are over by then, and whatever waits behind the
// entry waits with it.
const resendSeconds = 1

// PullReport counts what a pull did.
type PullReport struct {
	Fetched, Delivered, Duplicates, Receipts, ContactRequests, Dropped, Rejected, Quarantined int

	Held     bool // stopped for lack of capacity
	Retrying bool // stopped at an entry that is to be fetched again
}

func (r *PullReport) add(result delivery.Result) {
	switch result.Outcome {
	case delivery.Duplicate:
		r.Duplicates++
	case delivery.Dropped:
		r.Dropped++
	case delivery.Rejected:
		r.Rejected++
	case delivery.Quarantined:
		r.Quarantined++
	}
	if result.Message != nil {
		r.Delivered++
	}
	if result.Receipt != nil {
		r.Receipts++
	}
	if result.Request != nil {
		r.ContactRequests++
	}
}

// Pull drains the inbox once, at most max entries, 0 being all, and reports
// each event, in order, after it is durable. It holds the receive lock while it
// runs. The report is valid also beside an error. Codes: lock_busy, which names
// the holder, storage_failed, and those of 07#client-rules.
func (e *Endpoint) Pull(ctx context.Context, max int, on func(Event)) (PullReport, error) {
	release, err := e.lockReceive()
	if err != nil {
		return PullReport{}, err
	}
	report, err := e.drain(ctx, max, on)
	return report, errors.Join(err, release())
}

func (e *Endpoint) lockReceive() (release func() error, err error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	return e.store.LockReceive(e.config.ReceiveBy, now)
}

// LockReceive takes the receive lock of the endpoint that has its store at the
// given path, without opening it: for what must not happen while somebody
// receives. Codes: lock_busy, which names the holder, and storage_failed.
func LockReceive(storePath, command string, now int64) (release func() error, err error) {
	return store.LockReceive(storePath, command, now)
}

func (e *Endpoint) drain(ctx context.Context, max int, on func(Event)) (PullReport, error) {
	var report PullReport
	observe := func(r delivery.Result) {
		report.add(r)
		e.tell(ctx, r, on)
	}
	pulled, err := e.pullRegistered(ctx, delivery.Pulling{Since: streamStart, Max: max, Clock: e.config.Clock, On: observe})
	if keepErr := e.keepCursor(ctx, pulled.Since); err == nil {
		err = keepErr
	}
	report.Fetched = pulled.Fetched
	report.Held = pulled.Last == delivery.Hold
	report.Retrying = pulled.Last == delivery.Retry
	return report, err
}

// pullRegistered pulls, and once more after a registration when the relay needs
// one.
func (e *Endpoint) pullRegistered(ctx context.Context, p delivery.Pulling) (delivery.Report, error) {
	pulled, err := e.node.Pull(ctx, p)
	if !e.needsRegistration(ctx, err) {
		return pulled, err
	}
	if err := e.registerAgain(ctx); err != nil {
		return pulled, err
	}
	return e.node.Pull(ctx, p)
}

// cursor returns the stream ID through which an earlier pull or listener processed
// the inbox, "" for none.
func (e *Endpoint) cursor(ctx context.Context) (at string, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		at, err = tx.InboxCursor(e.config.Relay)
		return err
	})
	return at, err
}

// keepCursor notes through which stream ID the inbox is processed. It is for
// people alone: the relay keeps what it needs itself.
func (e *Endpoint) keepCursor(ctx context.Context, since string) error {
	if since == streamStart || since == "" {
		return nil
	}
	return e.store.Update(context.WithoutCancel(ctx), func(tx *store.Tx) error { return tx.SetInboxCursor(e.config.Relay, since) })
}

func (e *Endpoint) registerAgain(ctx context.Context) error {
	now, err := e.now()
	if err != nil {
		return err
	}
	_, err = e.register(ctx, now)
	return err
}

// Listen follows the inbox until ctx ends, which is a nil error, and reports
// each event, in order, after it is durable. It holds the receive lock. Codes:
// lock_busy, which names the holder, relay_unavailable after ten failures in a
// row (07#client-rules), not_registered when a registration does not help,
// storage_failed.
func (e *Endpoint) Listen(ctx context.Context, on func(Event)) error {
	release, err := e.lockReceive()
	if err != nil {
		return err
	}
	l := &listening{Endpoint: e, on: on}
	err = l.run(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, e.keepCursor(ctx, l.through), release())
}

// listening is one Listen.
type listening struct {
	*Endpoint
	on      func(Event)
	began   bool   // the first page of the inbox is read
	through string // stream ID of the last entry processed, "" for none
	// registered says that a registration has not led to a stream yet: another would
	// not help.
	registered bool
	refetched  bool // since the last entry was processed
}

// refetch ends a stream at an entry that has to be fetched again, and says why.
type refetch struct {
	code        fault.Code
	unreceipted bool
}

func (r *refetch) Error() string { return "an entry is to be fetched again: " + string(r.code) }

// run drains the inbox by pages, which is the faster way to catch up, and then
// follows the stream, over and over when an entry has to be fetched again.
func (l *listening) run(ctx context.Context) error {
	for {
		err := l.follow(ctx)
		var again *refetch
		switch {
		case errors.As(err, &again):
			delay := l.refetchDelay(again)
			l.retrying(again, delay)
			if err := sleep(ctx, delay); err != nil {
				return err
			}
		case !l.registered && l.needsRegistration(ctx, err):
			l.registered = true
			if err := l.registerAgain(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (l *listening) refetchDelay(r *refetch) int64 {
	first := !l.refetched
	l.refetched = true
	if r.unreceipted && first {
		return resendSeconds
	}
	return refetchSeconds
}

func (l *listening) follow(ctx context.Context) error {
	pulled, err := l.node.Pull(ctx, delivery.Pulling{
		Since: streamStart, Clock: l.config.Clock, On: func(r delivery.Result) { l.tell(ctx, r, l.on) },
		Page: func(entries int) { l.begin(ctx, entries) },
	})
	if pulled.Since != streamStart {
		l.processed(pulled.Since)
	}
	switch {
	case err == nil && !pulled.Last.Final():
		return &refetch{pulled.Code, pulled.Unreceipted}
	case err != nil && fault.CodeOf(err).Category() != fault.Transient:
		return err
	}
	// A transient failure is the stream's to retry: it replays what is left.
	return l.client.Listen(ctx, l.config.Relay, relayclient.Listener{
		Since: pulled.Since, Clock: l.config.Clock, Handle: l.handle, Retrying: l.retrying,
	})
}

// begin tells, once, what waited.
func (l *listening) begin(ctx context.Context, entries int) {
	if l.began {
		return
	}
	l.began = true
	at, _ := l.cursor(ctx) // it is for people alone
	l.on(Event{Kind: EventBacklog, Backlog: &BacklogEvent{Cursor: at, Waiting: entries, More: entries == wire.MaxInboxPage}})
}

func (l *listening) processed(through string) {
	l.through, l.refetched = through, false
	l.on(Event{Kind: EventCursor, Cursor: through})
}

func (l *listening) handle(ctx context.Context, e relayclient.Event) (processed bool, err error) {
	switch e.Type {
	case relayapi.EventConnected:
		l.registered = false
		l.on(Event{Kind: EventConnection, Connection: &ConnectionEvent{State: "connected"}})
		return false, nil
	case relayapi.EventCatchup, relayapi.EventMessage:
		return l.take(ctx, delivery.Entry(e.Entry))
	}
	return false, nil
}

// take processes one entry of the stream and acknowledges it.
func (l *listening) take(ctx context.Context, entry delivery.Entry) (processed bool, err error) {
	page, err := l.node.ReceivePage(ctx, []delivery.Entry{entry}, l.config.Clock, func(r delivery.Result) { l.tell(ctx, r, l.on) })
	if err != nil {
		return false, err
	}
	if page.Through == "" {
		return false, &refetch{page.Code, page.Unreceipted}
	}
	err = l.net.Ack(ctx, page.Through, l.config.Clock())
	if fault.CodeOf(err).Category() == fault.Transient {
		return true, nil // the next acknowledgement covers this one
	}
	if err == nil {
		l.processed(page.Through)
	}
	return err == nil, err
}

func (l *listening) retrying(err error, delay int64) {
	l.on(Event{Kind: EventConnection, Connection: &ConnectionEvent{State: "reconnecting", InSeconds: delay, Reason: err.Error()}})
}

func sleep(ctx context.Context, seconds int64) error {
	timer := time.NewTimer(time.Duration(seconds) * failpoint.Second())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tell reports the events of one result. They are durable, and not being able to
// read the store for a moment takes nothing from that.
func (e *Endpoint) tell(ctx context.Context, r delivery.Result, on func(Event)) {
	if on == nil {
		return
	}
	var events []Event
	_ = e.store.View(context.WithoutCancel(ctx), func(tx *store.Tx) (err error) {
		events, err = eventsOf(tx, r)
		return err
	})
	for _, event := range events {
		on(event)
	}
}
