package cli

import (
	"slices"
	"time"

	"github.com/ace-toolkit/ace/core"
)

// on prints one event.
func (l *listener) on(e core.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.daemon.heardFor(e)
	if l.over() {
		return // it is stored, and the end is under way
	}
	if e.Cursor != "" {
		l.cursor = e.Cursor
		return
	}
	l.begin(e.Backlog)
	if e.Connection != nil && e.Connection.State == "connected" && !l.connected {
		l.connected = true // "ready" has said so
		return
	}
	if q := l.queue.Load(); e.Message != nil && q != nil {
		q.News()
	}
	if e.Message != nil && len(l.o.types) > 0 && !slices.Contains(l.o.types, e.Message.Type) {
		return
	}
	if r := l.result(e); r != nil {
		l.print(r)
	}
	if e.Connection == nil {
		l.busy()
	}
	if e.Message != nil {
		if l.processed++; l.o.once && l.o.command == nil {
			l.endFor("once")
		}
	}
}

// over reports whether the end is under way. The caller holds mu.
func (l *listener) over() bool { return l.failed != nil || l.reason != "" }

// endFor ends the listening in good order. The caller holds mu.
func (l *listener) endFor(reason string) {
	l.reason = reason
	l.enough()
}

// busy puts the end of --idle-exit off. The caller holds mu.
func (l *listener) busy() {
	if l.idle != nil {
		l.idle.Reset(l.o.idleExit)
	}
}

// onIdle ends the listening when nothing came for the time of --idle-exit, unless
// a command runs.
func (l *listener) onIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q := l.queue.Load(); q != nil && q.Busy() {
		l.busy()
		return
	}
	if !l.over() {
		l.endFor("idle")
	}
}

// onUpkeep prints what a pass of upkeep did; people are told only of what
// happened.
func (l *listener) onUpkeep(u core.UpkeepReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over() {
		return
	}
	if !l.ready {
		l.early = append(l.early, u)
		return
	}
	l.printUpkeep(u)
}

func (l *listener) printUpkeep(u core.UpkeepReport) {
	l.warnOfKey(u.KeyEnds)
	answer := l.app.newMaintainAnswer(u)
	if l.app.flags.json {
		l.print(upkeepEvent{"upkeep", answer})
		return
	}
	for _, line := range answer.news() {
		l.app.say("%s", line)
	}
	for _, e := range answer.Errors {
		l.app.say("%s", e.line(&page{app: l.app}))
	}
}

// warnOfKey tells once a day of a signing key that ends soon: a listener has no
// root to replace it. The caller holds mu.
func (l *listener) warnOfKey(ends int64) {
	const day = 86400
	now := l.app.io.Now()
	if ends == 0 || ends-now >= keyEndsSoon || now-l.warned < day && now >= l.warned {
		return
	}
	l.warned = now
	when := "ends " + (&page{app: l.app}).time(ends)
	if ends <= now {
		when = "ended " + (&page{app: l.app}).time(ends) + ", and nothing leaves or is taken in"
	}
	l.app.warn("the signing key %s: ace identity delegate makes a new one", when)
}

// begin prints the first line, once. What waits is not known when the relay has
// not answered yet.
func (l *listener) begin(b *core.BacklogEvent) {
	if l.ready {
		return
	}
	l.ready = true
	close(l.began)
	if l.o.idleExit > 0 {
		l.idle = time.AfterFunc(l.o.idleExit, l.onIdle)
	}
	ready := readyEvent{Event: "ready", Identity: l.session.ACEID(), Relay: l.session.relay}
	if b != nil {
		ready.Cursor, ready.Backlog, ready.More = orNull(b.Cursor), &b.Waiting, b.More
		if l.cursor == "" {
			l.cursor = b.Cursor
		}
	}
	l.print(ready)
	l.daemon.ready(ready)
	for _, u := range l.early {
		l.printUpkeep(u)
	}
	l.early = nil
}

func (l *listener) result(e core.Event) result {
	switch {
	case e.Message != nil:
		return messageEvent{Event: "message", messageAnswer: newMessageAnswer(*e.Message)}
	case e.Receipt != nil:
		r := e.Receipt
		return receiptEvent{"receipt", r.MessageID, r.Outcome, r.From, orNull(r.Code), r.At}
	case e.Request != nil:
		return requestEvent{"contact_request", newRequestAnswer(*e.Request)}
	case e.Contact != nil:
		return contactEvent{"contact", newContactAnswer(*e.Contact)}
	case e.Connection != nil:
		c := e.Connection
		if !l.app.flags.json {
			l.app.say("%s", connectionText(*c))
			return nil
		}
		return connectionEvent{"connection", c.State, c.InSeconds, c.Reason}
	}
	l.app.tellEvent(e)
	return nil
}

func (l *listener) print(r result) {
	if err := l.app.print(r); err != nil {
		l.failed = err
		l.enough()
	}
}
