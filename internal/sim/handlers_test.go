package sim

import (
	"maps"
	"slices"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// handlers are what an onlooker knows of the handlers of a host: what its process
// has told the store of them, and what they have done outside of it.
type handlers struct {
	queue   core.HandlerQueue
	known   map[received]bool // to wait, by this process
	hanging map[string]string // the message that a handler of this process is at, by sender

	worked map[received]bool // a handler has done its work for it, once or more
	acked  map[received]bool // its owner has set the mark

	// In this step.
	calls    map[received]int  // to begin an attempt
	begun    map[received]int  // those that were granted
	failed   map[received]bool // the last attempt has, and the store was told
	marked   map[received]bool // the mark was set, and the store has said so
	unmarked map[received]bool // the owner takes its mark away
}

func newHandlers() *handlers {
	x := &handlers{worked: map[received]bool{}, acked: map[received]bool{}}
	x.restart()
	x.endStep()
	return x
}

// restart forgets what a process knows.
func (x *handlers) restart() {
	x.queue, x.known, x.hanging = core.HandlerQueue{}, map[received]bool{}, map[string]string{}
}

func (x *handlers) endStep() {
	x.calls, x.begun = map[received]int{}, map[received]int{}
	x.failed, x.marked, x.unmarked = map[received]bool{}, map[received]bool{}, map[received]bool{}
}

// handlerLimits are after how many failures a message is given up.
var handlerLimits = []int{0, 0, 3, 1}

// runHandlers hands the oldest message of some senders to a handler, and ends
// some runs that go on.
func (h *host) runHandlers() {
	for _, from := range slices.Sorted(maps.Keys(h.handlers.hanging)) {
		if !h.disk.dead && h.w.chance(0.5) {
			key := received{from, h.handlers.hanging[from]}
			delete(h.handlers.hanging, from)
			h.endRun(key, h.w.some(0, 1, 1, 2))
		}
	}
	for _, next := range h.waiting() {
		if h.disk.dead || h.w.broken != nil {
			return
		}
		if h.handlers.hanging[next.From] == "" && h.w.chance(0.8) {
			h.attempt(received{next.From, next.MessageID}, h.misbehave)
		}
	}
}

// runHandlersOn is runHandlers for a while.
func (h *host) runHandlersOn() {
	for range 1 + h.w.rand.IntN(6) {
		if h.runHandlers(); h.disk.dead || h.w.broken != nil {
			return
		}
		h.w.now += int64(h.w.some(0, 1, 1, 3, longestDelay+1))
	}
}

// failOn lets the handler of one message fail again and again, each time as soon as
// it may run, and not before.
func (h *host) failOn() {
	for _, next := range h.waiting() {
		if h.handlers.hanging[next.From] != "" {
			continue
		}
		key := received{next.From, next.MessageID}
		never := func(key received) { h.failWithin(0, key) }
		for range 1 + h.w.rand.IntN(12) {
			if !h.attempt(key, never) {
				return
			}
			_, wait := h.isDue(key)
			if wait > 1 && h.w.chance(0.5) {
				h.w.now += wait - 1
				h.attempt(key, never)
				wait = 1
			}
			h.w.now += wait
		}
		h.w.count("handler: fails on")
		return
	}
}

// serveAll hands messages to a handler that never fails, until none is due.
func (h *host) serveAll() {
	for from, id := range maps.Clone(h.handlers.hanging) {
		h.interrupt(received{from, id})
	}
	clear(h.handlers.hanging)
	for done := false; !done && h.w.broken == nil; {
		done = true
		for _, next := range h.waiting() {
			if h.attempt(received{next.From, next.MessageID}, h.succeed) {
				done = false
			}
		}
	}
}

// waiting returns the oldest message of each sender that waits for a handler. Who
// goes on from where it was finds no fewer than who begins anew.
func (h *host) waiting() (oldest []core.Waiting) {
	for {
		list, anew, err := h.endpoint.Waiting(h.w.ctx, &h.handlers.queue)
		if err != nil {
			h.expect("waiting", err)
			return nil
		}
		if anew {
			h.w.count("handler: anew")
			clear(h.handlers.known)
		}
		for _, m := range list {
			h.handlers.known[received{m.From, m.MessageID}] = true
		}
		if len(list) == 0 {
			break
		}
	}
	all, _, err := h.endpoint.Waiting(h.w.ctx, &core.HandlerQueue{})
	h.expect("waiting", err)
	senders, waits := map[string]bool{}, map[received]bool{}
	for _, m := range all {
		waits[received{m.From, m.MessageID}] = true
		if !h.handlers.known[received{m.From, m.MessageID}] {
			h.w.violate("a message that waits is found", ofHandlers, "%s: %s is not", h.name, m.MessageID)
		}
		if !senders[m.From] {
			senders[m.From] = true
			oldest = append(oldest, m)
		}
	}
	h.handlers.known = waits
	return oldest
}

// attempt asks for an attempt at a message and, when it is granted, lets the
// handler do as run says.
func (h *host) attempt(key received, run func(received)) (granted bool) {
	due, until := h.isDue(key)
	h.handlers.calls[key]++
	m, is, wait, ok, err := h.endpoint.BeginHandling(h.w.ctx, key.from, key.id)
	if err != nil {
		h.expect("begin handling", err)
		return false
	}
	switch {
	case ok != due || !ok && wait != until:
		h.w.violate("an attempt is made when it is due", ofHandlers, "%s: %s granted %t, due %t, to wait %d, want %d", h.name, key.id, ok, due, wait, until)
		return false
	case !ok:
		h.w.count("handler: not due yet")
		return false
	}
	h.handlers.begun[key]++
	h.w.count("handler: attempt")
	h.w.note("   %s: attempt %d at %s", h.name, is.Attempts, key.id)
	sent := h.w.sent.byID[key.id]
	if sent == nil || m.From != key.from || m.MessageID != key.id || string(m.Body.Canonical()) != sent.body {
		h.w.violate("a handler reads what was sent", ofHandlers, "%s: %s", h.name, key.id)
	}
	if row := h.handling(key); !row.Running || row.Attempts != is.Attempts {
		h.w.violate("an attempt is on record before it is made", ofHandlers, "%s: %s has %+v for attempt %d", h.name, key.id, row, is.Attempts)
	}
	run(key)
	return true
}

// isDue reports whether an attempt at a message is due, and else the seconds until
// it is: 0 when there will be none. One that is farther away than the longest delay
// is due, because the clock was set back.
func (h *host) isDue(key received) (due bool, wait int64) {
	h.read(func(tx *store.Tx) error {
		list, err := tx.MessagesWithPrefix(key.id, key.from, 1)
		if err != nil || len(list) == 0 || list[0].Handled {
			return err
		}
		row, err := tx.Handling(key.from, key.id)
		wait = row.NextAttemptAt - h.clock()
		due = !row.GivenUp && (wait <= 0 || wait > longestDelay)
		if due || row.GivenUp {
			wait = 0
		}
		return err
	})
	return due, wait
}

func (h *host) handling(key received) (row store.Handling) {
	h.read(func(tx *store.Tx) (err error) {
		row, err = tx.Handling(key.from, key.id)
		return err
	})
	return row
}

// misbehave is what becomes of a run.
func (h *host) misbehave(key received) {
	switch n := h.w.rand.IntN(20); {
	case n < 9:
		h.endRun(key, 0)
	case n < 13:
		h.endRun(key, 1)
	case n < 15:
		h.w.count("handler: hangs")
		h.handlers.hanging[key.from] = key.id
	case n < 17:
		h.lie(key)
	case n < 18:
		h.w.count("handler: the host dies before the work is done")
		h.die()
	default:
		h.w.count("handler: the host dies after the work is done")
		h.handlers.worked[key] = true
		h.die()
	}
}

// endRun ends a run: 0 in success, 1 in failure, 2 from outside.
func (h *host) endRun(key received, how int) {
	switch how {
	case 0:
		h.succeed(key)
	case 1:
		h.fail(key)
	default:
		h.interrupt(key)
	}
}

func (h *host) succeed(key received) {
	h.w.count("handler: succeeds")
	h.handlers.worked[key] = true
	h.mark(key)
}

func (h *host) mark(key received) {
	err := h.endpoint.MarkHandled(h.w.ctx, key.from, key.id)
	if err == nil {
		h.handlers.marked[key] = true
		delete(h.handlers.failed, key)
	}
	h.expect("mark handled", err)
}

func (h *host) fail(key received) {
	h.failWithin(handlerLimits[h.w.rand.IntN(len(handlerLimits))], key)
}

// failWithin is a failure of a message that is given up after so many, 0 for never.
func (h *host) failWithin(limit int, key received) {
	h.w.count("handler: fails")
	is, err := h.endpoint.FailHandling(h.w.ctx, key.from, key.id, core.HandlerFailure{Exit: 1, Reason: "exit status 1", Attempts: limit})
	if err != nil {
		h.expect("fail handling", err)
		return
	}
	if is.MessageID == "" {
		return // its owner has marked it meanwhile
	}
	h.handlers.failed[key] = true
	if want := limit > 0 && is.Failures >= limit; is.GivenUp != want || is.Running {
		h.w.violate("a message is given up after the failures that it may have", ofHandlers, "%s: %+v of %d", h.name, is, limit)
	}
	if is.GivenUp {
		h.w.count("handler: given up")
	}
}

// interrupt ends a run from outside, which says nothing of the message: it is due
// again at once.
func (h *host) interrupt(key received) {
	h.w.count("handler: interrupted")
	before := h.handling(key)
	is, err := h.endpoint.InterruptHandling(h.w.ctx, key.from, key.id)
	if err != nil {
		h.expect("interrupt handling", err)
		return
	}
	if is.MessageID != "" && (is.Running || is.Failures != before.Failures || is.NextAttemptAt != before.NextAttemptAt || is.GivenUp) {
		h.w.violate("an interruption is no failure", ofHandlers, "%s: %+v, which was %+v", h.name, is, before)
	}
}

// lie tells the store what is not so: of a message that it does not have, that one
// is done twice, and that one which is done has failed.
func (h *host) lie(key received) {
	h.w.count("handler: lies")
	const unknown = "33333333-3333-4333-8333-333333333333"
	for _, other := range []received{{key.from, unknown}, {h.id.ACEID(), key.id}} {
		if err := h.endpoint.MarkHandled(h.w.ctx, other.from, other.id); err == nil {
			h.w.violate("only a message that is there is marked", ofHandlers, "%s: %+v", h.name, other)
		} else {
			h.expect("mark handled", err, fault.InvalidArgument)
		}
		if is, err := h.endpoint.FailHandling(h.w.ctx, other.from, other.id, core.HandlerFailure{Exit: 1}); err == nil && is.MessageID != "" {
			h.w.violate("only a message that is there fails", ofHandlers, "%s: %+v", h.name, is)
		}
	}
	if h.w.chance(0.5) {
		h.fail(key)
		return
	}
	h.succeed(key)
	h.mark(key)
	_, err := h.endpoint.FailHandling(h.w.ctx, key.from, key.id, core.HandlerFailure{Exit: 1, Attempts: 1})
	h.expect("fail handling", err)
	_, err = h.endpoint.InterruptHandling(h.w.ctx, key.from, key.id)
	h.expect("interrupt handling", err)
}

// unhandle puts a message before the handlers again.
func (h *host) unhandle() {
	for _, m := range h.view.messages {
		key := received{m.Peer, m.MessageID}
		if h.handlers.hanging[m.Peer] == m.MessageID || !m.Handled && !h.view.handlings[key].GivenUp || !h.w.chance(0.3) {
			continue
		}
		h.takeBack(key)
		return
	}
}

func (h *host) takeBack(key received) {
	h.handlers.unmarked[key] = true
	h.expect("unmark", h.endpoint.UnmarkHandled(h.w.ctx, key.from, key.id))
}

// takeBackGivenUp puts before the handlers again what was given up.
func (h *host) takeBackGivenUp() {
	for _, m := range h.view.messages {
		if key := (received{m.Peer, m.MessageID}); h.view.handlings[key].GivenUp {
			h.takeBack(key)
		}
	}
}

// serveToTheEnd is the end of a world: with a handler that does not fail any more
// every message that has come is handled.
func (w *world) serveToTheEnd() {
	for _, h := range w.hosts {
		h.takeBackGivenUp()
		for rounds := 0; len(h.waiting()) > 0 && rounds < 3 && w.broken == nil; rounds++ {
			h.serveAll()
			w.now += longestDelay
		}
		h.look()
		for _, m := range h.view.messages {
			key := received{m.Peer, m.MessageID}
			if !m.Handled || !h.handlers.worked[key] && !h.handlers.acked[key] {
				w.violate("a message that has come is handled", ofHandlers, "%s: %s is not: marked %t", h.name, m.MessageID, m.Handled)
			}
		}
	}
}
