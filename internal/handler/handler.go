// Package handler runs a program for each received message. The store is the
// queue: a message waits there, whoever received it, until the program has ended
// with 0 for it, and only then is it marked as handled. What is cut off, by
// whatever end of this process, is run again.
//
// The messages of one sender are handled one after the other in the order in which
// they came: one that fails holds those behind it back, and nobody else's.
//
// Start with [Find] and [New].
package handler

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

// MostAtOnce is how many runs there can be at a time.
const MostAtOnce = 64

// graceMost is how long a run under way may go on that is to end, when its own
// time is longer.
const graceMost = 10 * time.Second

// lookInterval is how often the store is looked at for messages that another
// process has put there.
const lookInterval = time.Second

// Config says what to run for which messages.
type Config struct {
	Endpoint *core.Endpoint
	Command  Command
	// Input returns what a run reads.
	Input func(core.Message) []byte
	// Environ is the environment that a run gets besides [Variables]. What leads to
	// a passphrase is taken out of it.
	Environ []string
	// Types are those that are handled; none: all.
	Types []string
	// AtOnce is how many runs there are at a time, 1 to MostAtOnce.
	AtOnce int
	// Timeout is how long a run may take.
	Timeout time.Duration
	// Attempts is after how many failures a message is given up: it stays, and those
	// of its sender behind it go on. 0: never.
	Attempts int
	// On is told of each run that has ended, after what came of it is durable.
	On func(Result)
	// Line gets the lines that runs write, from several goroutines at once; nil:
	// nobody.
	Line func(messageID, line string)
}

// Result is what came of a run.
type Result struct {
	Message core.Message
	Handled bool
	// Handling is what is stored of a message that is not handled, and for one that
	// is, what was before its last attempt ended.
	Handling core.Handling
	// Interrupted says that the run was ended from outside, which is no failure.
	Interrupted bool
	// Marked says that somebody else has marked the message as handled meanwhile,
	// as the run itself may: it does not run again.
	Marked bool
	Took   time.Duration
	Output int64 // bytes that it has written
	Left   int64 // bytes of them that were not passed on
}

// Queue hands messages to handlers.
type Queue struct {
	Config
	grace   time.Duration
	groups  groups
	news    chan struct{}
	results chan ended

	// What follows is the loop's.
	at      core.HandlerQueue
	senders map[string]*sender
	ready   []*sender // with a message to be handed on now
	later   []*sender // with one that is not due yet
	running int
	busy    atomic.Int64 // is running, for others to read
	failed  error

	draining atomic.Bool // no other run begins
}

// sender is a sender with messages that wait.
type sender struct {
	from    string
	ids     []string // of its messages, oldest first
	running bool     // the first one
	due     time.Time
}

// ended is a run that has ended, or did not begin.
type ended struct {
	from   string
	result Result
	told   bool  // there is a result
	wait   int64 // seconds until the message is due, 0: it is done with
	err    error // of the store
}

// New returns a queue. Call Run.
func New(c Config) *Queue {
	sealFiles()
	c.Environ = scrubbed(c.Environ)
	return &Queue{
		Config: c, grace: graceMost, groups: groups{pids: map[int]bool{}}, news: make(chan struct{}, 1), results: make(chan ended),
		senders: map[string]*sender{},
	}
}

// News says that messages may have come. Without it they are found as well, only
// later.
func (q *Queue) News() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// Busy reports whether something runs.
func (q *Queue) Busy() bool { return q.busy.Load() > 0 }

// Drain lets no other run begin. Those under way go on.
func (q *Queue) Drain() { q.draining.Store(true) }

// Kill ends all runs at once, as for the end of the process. No other begins.
func (q *Queue) Kill() { q.groups.kill() }

// Run hands on messages until ctx ends. Runs under way then have ten seconds, or
// the time that a run may take if that is shorter; what has not ended is ended,
// and run again later. Codes: storage_failed, with which it ends by itself.
func (q *Queue) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for {
		if ctx.Err() == nil {
			q.fail(q.look(ctx), stop)
			q.start(ctx)
		}
		if ctx.Err() != nil && q.running == 0 {
			return q.failed
		}
		q.await(ctx, stop)
	}
}

// fail ends the loop with an error of the store that does not pass by itself.
func (q *Queue) fail(err error, stop func()) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fault.LockBusy) {
		return
	}
	if q.failed == nil {
		q.failed = err
	}
	stop()
}

// await waits for something to do.
func (q *Queue) await(ctx context.Context, stop func()) {
	over, wait := ctx.Done(), q.untilDue()
	if ctx.Err() != nil {
		over, wait = nil, lookInterval // what is left are the ends of runs
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
	case <-q.news:
	case e := <-q.results:
		q.running--
		q.busy.Store(int64(q.running))
		q.fail(e.err, stop)
		if e.told {
			q.On(e.result)
		}
		q.settle(e)
	}
}

func (q *Queue) untilDue() time.Duration {
	wait := lookInterval
	for _, s := range q.later {
		wait = min(wait, time.Until(s.due))
	}
	return max(wait, 0)
}

// look takes in the messages that came since the last time, and all anew when one
// came back.
func (q *Queue) look(ctx context.Context) error {
	for {
		list, anew, err := q.Endpoint.Waiting(ctx, &q.at)
		if err != nil {
			return err
		}
		if anew {
			q.forget()
		}
		for _, w := range list {
			q.add(w)
		}
		if len(list) == 0 {
			return nil
		}
	}
}

// forget drops what is known to wait, but for what is under way.
func (q *Queue) forget() {
	q.ready, q.later = nil, nil
	for from, s := range q.senders {
		if !s.running {
			delete(q.senders, from)
			continue
		}
		s.ids = s.ids[:1]
	}
}

func (q *Queue) add(w core.Waiting) {
	if len(q.Types) > 0 && !slices.Contains(q.Types, w.Type) {
		return
	}
	s := q.senders[w.From]
	switch {
	case s == nil:
		s = &sender{from: w.From}
		q.senders[w.From] = s
		q.ready = append(q.ready, s)
	case s.running && s.ids[0] == w.MessageID:
		return
	}
	s.ids = append(s.ids, w.MessageID)
}

// start begins as many runs as there is room for, the sender first that has waited
// longest.
func (q *Queue) start(ctx context.Context) {
	q.later = slices.DeleteFunc(q.later, func(s *sender) bool {
		due := time.Until(s.due) <= 0
		if due {
			q.ready = append(q.ready, s)
		}
		return due
	})
	for q.running < q.AtOnce && len(q.ready) > 0 && ctx.Err() == nil && !q.draining.Load() {
		s := q.ready[0]
		q.ready = q.ready[1:]
		s.running = true
		q.running++
		q.busy.Store(int64(q.running))
		go func(id string) { q.results <- q.hand(ctx, s.from, id) }(s.ids[0])
	}
}

// settle puts a sender back to where it waits.
func (q *Queue) settle(e ended) {
	s := q.senders[e.from]
	s.running = false
	switch {
	case e.wait > 0:
		s.due = time.Now().Add(time.Duration(e.wait) * time.Second)
		q.later = append(q.later, s)
		return
	case len(s.ids) == 1:
		delete(q.senders, e.from)
		return
	}
	s.ids = s.ids[1:]
	q.ready = append(q.ready, s)
}
