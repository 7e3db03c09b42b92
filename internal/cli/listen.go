package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/internal/failpoint"
	"github.com/ace-toolkit/ace/internal/handler"
	"github.com/ace-toolkit/ace/keystore"
)

func newListenCmd(a *app) *cobra.Command {
	var o listenOptions
	c := &cobra.Command{
		Use:   "listen [--once] [--exec -- COMMAND...]",
		Short: "Receive messages as they come",
		Long: `Receive messages as they come, until a signal ends it, and make the attempts
that fall due of your own messages. What is shown is stored and receipted
already. At its start and at least every hour it does what ace maintain does.
With --json each event is one line; the first is "ready", the last "end" or
"error". One process receives for an identity at a time, a second one exits with
31; all other commands work beside it, and what they change of the identity holds
for it from then on.

--exec -- COMMAND runs a command for each message that is not handled, also those
that came before, or that another process has received. No shell is involved. It
finds the text, or the body as JSON for other types than text, on its standard
input, and ACE_MESSAGE_ID, ACE_FROM, ACE_TYPE, ACE_THREAD_ID, ACE_SENT_AT,
ACE_RECEIVED_AT, ACE_IDENTITY and ACE_ATTEMPT in its environment. A thread ID that
is more than letters, digits and "._:-" is left out. --exec-json gives it the JSON
of the event instead. What it reads was written by a peer: never pass it to a
shell.

A message counts as handled once its command has exited with 0. Otherwise the
command runs again, after 1 s, 2 s, 4 s and so on up to 5 minutes, and at once
when it was cut off with ace: it may see a message twice, and ACE_ATTEMPT counts.
The messages of one sender are handled in order: one that fails
holds those behind it back, and those of nobody else. After --exec-attempts
failures a message is given up and stays in ace inbox list --unhandled; the next
ones go on. ace unack puts it before the command again, ace ack ends it.

A command has a process group of its own, which ends with it. It gets SIGTERM when
its time is over, and SIGKILL 5 s later. What it prints goes to standard error,
64 KB and 1000 lines of a run at most, or nowhere with --quiet. It gets no
passphrase.`,
		Example: `  ace listen --exec -- ./answer
  ace listen --forever --exec-json --exec-attempts 10 -- /usr/local/bin/handle
  ace listen --once --timeout 1h --json`,
	}
	o.addFlags(c)
	run := func(ctx context.Context, args []string) error {
		if err := o.check(a, args, c.ArgsLenAtDash()); err != nil {
			return a.streamError(err)
		}
		return runListen(ctx, a, o)
	}
	c.AddCommand(newListenUnitCmd(a))
	return a.leaf(c, 0, -1, listenEvents(), run)
}

// The events of ace listen --json.
type (
	readyEvent struct {
		Event    string `json:"event"`
		Identity string `json:"identity"`
		Relay    string `json:"relay"`
		// Cursor is the stream ID of the last entry that an earlier listen or pull
		// processed, null for none.
		Cursor *string `json:"cursor"`
		// Backlog is how many entries wait at the relay, null when it has not told.
		// With more it is how many the first page has, and there may be others.
		Backlog *int `json:"backlog"`
		More    bool `json:"more"`
	}
	messageEvent struct {
		Event string `json:"event"`
		messageAnswer
		Duplicate bool `json:"duplicate"`
	}
	receiptEvent struct {
		Event     string  `json:"event"`
		MessageID string  `json:"message_id"`
		Outcome   string  `json:"outcome"`
		From      string  `json:"from"`
		Code      *string `json:"code"`
		At        int64   `json:"at"`
	}
	requestEvent struct {
		Event string `json:"event"`
		requestAnswer
	}
	contactEvent struct {
		Event string `json:"event"`
		contactAnswer
	}
	connectionEvent struct {
		Event  string `json:"event"`
		State  string `json:"state"`
		In     int64  `json:"in_s"`
		Reason string `json:"reason"`
	}
	upkeepEvent struct {
		Event string `json:"event"`
		maintainAnswer
	}
	endEvent struct {
		Event     string  `json:"event"`
		Reason    string  `json:"reason"`
		Cursor    *string `json:"cursor"` // of the last entry processed, null for none
		Processed int     `json:"processed"`
	}
	errorEvent struct {
		Event string `json:"event"`
		Error report `json:"error"`
	}
)

func listenEvents() []any {
	return []any{
		readyEvent{}, messageEvent{}, handledEvent{}, handlerFailedEvent{}, receiptEvent{}, requestEvent{}, contactEvent{}, connectionEvent{},
		upkeepEvent{}, endEvent{}, errorEvent{},
	}
}

func (e readyEvent) text(p *page) {
	p.line("listening as %s at %s", e.Identity, e.Relay)
	if e.Backlog != nil && *e.Backlog > 0 {
		more := ""
		if e.More {
			more = " or more"
		}
		p.app.say("%d%s waited at the relay", *e.Backlog, more)
	}
}
func (e messageEvent) text(p *page) {
	p.line("%s\t%s\t%s\t%s", p.time(e.ReceivedAt), p.peer(e.From, e.PeerName), p.messageID(e.MessageID), p.quote(e.preview()))
}
func (e receiptEvent) text(p *page) {
	p.line("%s\t%s\t%s\t%s", p.time(e.At), p.id(e.From), p.messageID(e.MessageID), e.Outcome)
}
func (e requestEvent) text(p *page) {
	p.line("%s\t%s\tasks for contact\t%s", p.time(e.ReceivedAt), p.id(e.From), p.quote(e.Untrusted.Note))
}
func (e contactEvent) text(p *page) {
	p.line("%s\t%s", p.time(p.app.io.Now()), e.news(p))
}
func (e connectionEvent) text(*page) {}
func (e endEvent) text(*page)        {}

// listener prints what is received.
type listener struct {
	app       *app
	o         listenOptions
	enough    func() // ends the listening
	replaced  bool   // the signing key, by another process
	daemon    *daemon
	began     chan struct{}                 // closed with the first line
	queue     atomic.Pointer[handler.Queue] // nil: no command runs
	mu        sync.Mutex
	session   *session // guarded by mu, as what follows
	ready     bool
	connected bool
	cursor    string              // in the inbox, "" for none yet
	early     []core.UpkeepReport // from before the first line, which tells of the inbox
	warned    int64               // when the owner was last told of the end of the signing key
	processed int
	reason    string // why it ends, "" for not yet
	idle      *time.Timer
	failed    error
}

func runListen(ctx context.Context, a *app, o listenOptions) error {
	l := &listener{app: a, o: o, daemon: a.newDaemon(o.silence()), began: make(chan struct{})}
	a.heard = l.daemon.heard
	s, err := a.open(ctx)
	if err != nil {
		return a.streamError(err)
	}
	ctx, cancel := a.givenDeadline(ctx)
	defer cancel()
	listening, stop := context.WithCancel(ctx)
	defer stop()
	l.enough = stop
	if o.command != nil {
		release, err := s.LockHandlers()
		if err != nil {
			s.Close()
			return a.streamError(err)
		}
		defer release() // the file says nothing any more
		a.io.beforeExit(l.kill)
	}
	defer l.daemon.watch(listening, l.responds)()
	for {
		switch err = l.listen(listening, s); {
		case errors.Is(err, keystore.ErrReplaced):
			s, err = l.openAgain(ctx, s, err)
		case errors.Is(err, errSettingsChanged):
			s, err = l.reopen(ctx, s)
		default:
			s.Close()
			return l.end(ctx, errors.Join(l.failed, err))
		}
		if err != nil {
			return a.streamError(err)
		}
	}
}

// mostBusy is how often a listener asks again for the role of receiving, a second
// after the other, which an ace pull may have taken while it opened its identity
// again.
const mostBusy = 60

// hasBegun reports whether this process had that role.
func (l *listener) hasBegun() bool {
	select {
	case <-l.began:
		return true
	default:
		return false
	}
}

// foreverSeconds is how long --forever waits before it begins again.
const foreverSeconds = 30

// listen follows the inbox with the signing key of the moment.
func (l *listener) listen(ctx context.Context, s *session) error {
	l.use(s)
	if l.replaced {
		// Whoever replaced the key may not have registered it yet, and the relay
		// would refuse it.
		if _, err := l.app.publishWith(ctx, s, core.PublishOptions{Unasked: true}); err != nil {
			l.app.warn("the new signing key could not be published: %v", err)
		}
		l.replaced = false
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var tasks sync.WaitGroup
	var handling, stale, changed error
	tasks.Go(func() {
		if changed = l.followSettings(ctx, s); changed != nil {
			stop()
		}
	})
	tasks.Go(func() {
		s.Keep(ctx, core.KeepOptions{NoUpkeep: l.o.noMaintain, PutOff: s.settingsChanged, OnUpkeep: func(u core.UpkeepReport) {
			l.onUpkeep(u)
			// A stream can stay open behind the end of the key, and sign nothing.
			if current := s.unlocked.CheckCurrent(); errors.Is(current, keystore.ErrReplaced) {
				stale = current
				stop()
			}
		}})
	})
	tasks.Go(func() {
		if handling = l.handle(ctx, s); handling != nil {
			stop()
		}
	})
	err := l.receive(ctx, s)
	stop()
	tasks.Wait()
	return errors.Join(err, handling, stale, changed)
}

// receive receives until ctx ends or receiving fails, with --forever for good. The
// commands go on meanwhile.
func (l *listener) receive(ctx context.Context, s *session) (err error) {
	for busy := 0; ; {
		if l.o.poll > 0 {
			err = s.Poll(ctx, int64(l.o.poll), l.on)
		} else {
			err = s.Listen(ctx, l.on)
		}
		if current := s.unlocked.CheckCurrent(); errors.Is(err, kel.ErrDelegationEnded) && current != nil {
			return current
		}
		wait := int64(foreverSeconds)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, fault.LockBusy) && l.hasBegun() && busy < mostBusy:
			busy, wait = busy+1, 1
		case !l.o.forever || !passes(err):
			return err
		}
		l.on(core.Event{Connection: &core.ConnectionEvent{State: "reconnecting", InSeconds: wait, Reason: err.Error()}})
		select {
		case <-time.After(time.Duration(wait) * failpoint.Second()):
		case <-ctx.Done():
			return nil
		}
	}
}

// passes reports whether an error ends by itself, or once its owner has done what
// the daily warning says: a clock that the relay does not agree with is set at some
// time, as after the start of a machine, and a signing key replaced.
func passes(err error) bool {
	var f *fault.Error
	wrongClock := errors.As(err, &f) && f.Remote == string(fault.StaleTimestamp)
	return wrongClock || errors.Is(err, kel.ErrDelegationEnded) || fault.CodeOf(err).Category() == fault.Transient
}

func (l *listener) use(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = s
}

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

func (e upkeepEvent) text(*page) {}

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

// connectionText tells people of the stream.
func connectionText(c core.ConnectionEvent) string {
	if c.Reason == "" {
		return c.State
	}
	return fmt.Sprintf("%s in %d s: %s", c.State, c.InSeconds, clean(c.Reason, false))
}

func (l *listener) print(r result) {
	if err := l.app.print(r); err != nil {
		l.failed = err
		l.enough()
	}
}

// end prints the last line. A signal or the deadline is the usual end.
func (l *listener) end(ctx context.Context, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle != nil {
		l.idle.Stop()
	}
	var s *statusError
	switch {
	case l.reason == handlerFailed && l.failed == nil:
		err = errHandlerFailed
	case l.reason != "" && l.failed == nil:
		return l.last(l.reason)
	case errors.As(context.Cause(ctx), &s) && s.code == codeInterrupted && l.failed == nil:
		return l.last("signal")
	case errors.Is(context.Cause(ctx), errDeadline) && l.failed == nil:
		return l.last("timeout")
	case err == nil:
		err = fmt.Errorf("listening ended by itself")
	}
	return l.app.streamError(err)
}

// streamError makes an error the last line of a stream and returns it.
func (a *app) streamError(err error) error {
	if a.flags.json {
		a.printJSON(errorEvent{"error", newReport(err, a.command)})
	}
	return err
}

func (l *listener) last(reason string) error {
	l.begin(nil)
	if err := l.app.print(endEvent{Event: "end", Reason: reason, Cursor: orNull(l.cursor), Processed: l.processed}); err != nil {
		return err
	}
	return errDrained
}

// errDrained ends a stream that a signal ended in good order: that is success.
var errDrained = errors.New("drained")
