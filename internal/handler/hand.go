package handler

import (
	"context"
	"errors"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

// busyPatience is for how long the store may be in use by another process, in
// seconds beside what the store waits itself, before what came of a run is not
// saved: the message is then run again.
const busyPatience = 60

// hand makes one attempt at a message, when one is due.
func (q *Queue) hand(ctx context.Context, from, id string) ended {
	e := ended{from: from}
	m, h, wait, ok, err := q.Endpoint.BeginHandling(ctx, from, id)
	if err != nil {
		e.err, e.wait = err, 1
		return e
	}
	if !ok {
		e.wait = wait
		return e
	}
	e.told = true
	e.result = q.attempt(ctx, m, h)
	// What came of it is saved, also when the program is about to end.
	h, err = q.save(context.WithoutCancel(ctx), &e.result)
	if err != nil {
		e.err, e.told, e.wait = err, false, 1
		return e
	}
	if !e.result.Handled && !h.GivenUp {
		e.wait = 1 // the shortest delay: until then the store tells how long it is
	}
	return e
}

func (q *Queue) attempt(ctx context.Context, m core.Message, h core.Handling) Result {
	out := &output{}
	if q.Line != nil {
		out.line = func(line string) { q.Line(m.MessageID, line) }
	}
	began := time.Now()
	r := &run{
		cmd: q.Command.prepare(environment(q.Environ, q.Endpoint.ACEID(), m, h.Attempts), q.Input(m), out),
		out: out, timeout: q.Timeout, grace: min(q.Timeout, q.grace), groups: &q.groups,
	}
	o := r.do(ctx)
	h.LastExit, h.LastError = o.exit, o.reason
	return Result{
		Message: m, Handling: h, Handled: o.reason == "" && !o.interrupted, Interrupted: o.interrupted,
		Took: time.Since(began), Output: o.output, Left: o.left,
	}
}

// save saves what came of a run and returns what is stored of the message.
func (q *Queue) save(ctx context.Context, r *Result) (h core.Handling, err error) {
	m := r.Message
	for range busyPatience {
		switch {
		case r.Handled:
			err = q.Endpoint.MarkHandled(ctx, m.From, m.MessageID)
		case r.Interrupted:
			h, err = q.Endpoint.InterruptHandling(ctx, m.From, m.MessageID)
		default:
			h, err = q.Endpoint.FailHandling(ctx, m.From, m.MessageID,
				core.HandlerFailure{Exit: r.Handling.LastExit, Reason: r.Handling.LastError, Attempts: q.Attempts})
		}
		if !errors.Is(err, fault.LockBusy) {
			break
		}
		time.Sleep(time.Second)
	}
	switch {
	case h.MessageID != "":
		r.Handling = h
	case err == nil && !r.Handled:
		r.Marked = true
	}
	return h, err
}
