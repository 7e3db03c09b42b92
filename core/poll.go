package core

import (
	"context"
	"errors"
	"time"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// Poll is [Endpoint.Listen] without a stream, for networks on which none gets
// through: it drains the inbox, over and over, with so many seconds between. It
// holds the receive lock for as long as it runs. Failures that may pass are waited
// out as those of a stream (07#client-rules). Codes: those of Listen, and
// invalid_argument for less than a second or more than seven days.
func (e *Endpoint) Poll(ctx context.Context, seconds int64, on func(Event)) error {
	if seconds < 1 || seconds > wire.OfflineWindowSeconds {
		return fault.New(fault.InvalidArgument, "polling waits 1 to %d seconds, not %d", wire.OfflineWindowSeconds, seconds)
	}
	release, err := e.lockReceive()
	if err != nil {
		return err
	}
	p := &polling{Endpoint: e, seconds: seconds, on: on, reconnect: relayclient.NewReconnect(streamStart)}
	err = p.run(ctx)
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, release())
}

// polling is one Poll.
type polling struct {
	*Endpoint
	seconds   int64
	on        func(Event)
	began     bool // the first page of the inbox is read
	connected bool // the last round has reached the relay
	reconnect *relayclient.Reconnect
}

func (p *polling) run(ctx context.Context) error {
	for {
		wait, err := p.round(ctx)
		if err != nil {
			return err
		}
		timer := time.NewTimer(time.Duration(wait) * failpoint.Second())
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// round drains the inbox once and returns the seconds until the next time.
func (p *polling) round(ctx context.Context) (wait int64, err error) {
	pulled, err := p.pullRegistered(ctx, delivery.Pulling{
		Since: streamStart, Clock: p.config.Clock, Page: func(entries int) { p.begin(ctx, entries) },
		On: func(r delivery.Result) { p.tell(ctx, r, p.on) },
	})
	if pulled.Since != streamStart && pulled.Since != "" {
		p.on(Event{Kind: EventCursor, Cursor: pulled.Since})
	}
	if keepErr := p.keepCursor(ctx, pulled.Since); err == nil {
		err = keepErr
	}
	p.heard()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err == nil:
		p.succeed()
	case fault.CodeOf(err).Category() != fault.Transient:
		return 0, err
	default:
		return p.fail(err)
	}
	if pulled.Fetched > 0 && !pulled.Last.Final() {
		// A shorter wait could spend all fetches that MAX_FETCH_ATTEMPTS allows
		// while a pin refresh is still suppressed.
		wait = max(p.seconds, wire.PinRefreshIntervalSeconds+1)
		p.reconnecting(wait, &refetch{pulled.Code, pulled.Unreceipted})
		return wait, nil
	}
	return p.seconds, nil
}

// begin tells, once, what waited.
func (p *polling) begin(ctx context.Context, entries int) {
	if p.began {
		return
	}
	p.began = true
	at, _ := p.cursor(ctx) // it is for people alone
	p.on(Event{Kind: EventBacklog, Backlog: &BacklogEvent{Cursor: at, Waiting: entries, More: entries == wire.MaxInboxPage}})
}

func (p *polling) succeed() {
	_, _ = p.reconnect.Next(relayclient.Ending{Progress: true, Clean: true}) // no failure
	if !p.connected {
		p.connected = true
		p.on(Event{Kind: EventConnection, Connection: &ConnectionEvent{State: "connected"}})
	}
}

// fail tells of a failure that may pass and returns the seconds to wait for that,
// or the error after ten in a row.
func (p *polling) fail(err error) (wait int64, ended error) {
	var f *fault.Error
	ending := relayclient.Ending{}
	if errors.As(err, &f) {
		ending.RetryAfter = f.RetryAfter
	}
	delay, over := p.reconnect.Next(ending)
	if over != nil {
		return 0, fault.Wrapf(fault.CodeOf(over), err, "%v, the last with", over)
	}
	const longest = 1 << 32 // seconds; more would overflow a Duration
	delay = min(max(delay, p.seconds), longest)
	p.reconnecting(delay, err)
	return delay, nil
}

// reconnecting tells why nothing comes for a while.
func (p *polling) reconnecting(wait int64, why error) {
	p.connected = false
	p.on(Event{Kind: EventConnection, Connection: &ConnectionEvent{State: "reconnecting", InSeconds: wait, Reason: why.Error()}})
}

// heard tells that listening goes on.
func (e *Endpoint) heard() {
	if e.config.Heard != nil {
		e.config.Heard()
	}
}
