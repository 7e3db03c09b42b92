package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/keystore"
)

func newListenCmd(a *app) *cobra.Command {
	var o listenOptions
	c := &cobra.Command{
		Use:   "listen [--once] [--no-maintain]",
		Short: "Receive messages as they come",
		Long: `Receive messages as they come, until a signal ends it, and make the attempts
that fall due of your own messages. What is shown is stored and receipted
already. At its start and at least every hour it does what ace maintain does.
With --json each event is one line; the first is "ready", the last "end" or
"error".`,
	}
	c.Flags().BoolVar(&o.once, "once", false, "end after the first message")
	c.Flags().BoolVar(&o.noMaintain, "no-maintain", false, "leave it to ace maintain to stay in reach")
	return a.leaf(c, 0, 0, listenEvents(), func(ctx context.Context, _ []string) error { return runListen(ctx, a, o) })
}

type listenOptions struct{ once, noMaintain bool }

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
	return []any{readyEvent{}, messageEvent{}, receiptEvent{}, requestEvent{}, contactEvent{}, connectionEvent{}, upkeepEvent{}, endEvent{}, errorEvent{}}
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
	enough    func() // ends the listening
	once      bool
	replaced  bool // the signing key, by another process
	mu        sync.Mutex
	session   *session // guarded by mu, as what follows
	ready     bool
	connected bool
	cursor    string              // in the inbox, "" for none yet
	early     []core.UpkeepReport // from before the first line, which tells of the inbox
	processed int
	failed    error
}

func runListen(ctx context.Context, a *app, o listenOptions) error {
	s, err := a.open(ctx)
	if err != nil {
		return a.streamError(err)
	}
	ctx, cancel := a.givenDeadline(ctx)
	defer cancel()
	listening, stop := context.WithCancel(ctx)
	defer stop()
	l := &listener{app: a, enough: stop, once: o.once}
	for {
		err = l.listen(listening, s, o)
		s.Close()
		if !errors.Is(err, keystore.ErrReplaced) {
			return l.end(ctx, errors.Join(l.failed, err))
		}
		l.replaced = true
		l.on(core.Event{Connection: &core.ConnectionEvent{State: "reconnecting", Reason: err.Error()}})
		if s, err = a.open(ctx); err != nil {
			return a.streamError(err)
		}
	}
}

// listen follows the inbox with the signing key of the moment.
func (l *listener) listen(ctx context.Context, s *session, o listenOptions) error {
	l.use(s)
	if l.replaced {
		// Whoever replaced the key may not have registered it yet, and the relay
		// would refuse it.
		if _, err := l.app.publishWith(ctx, s, core.PublishOptions{Unasked: true}); err != nil {
			l.app.warn("the new signing key could not be published: %v", err)
		}
	}
	keeping, stop := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		s.Keep(keeping, core.KeepOptions{NoUpkeep: o.noMaintain, OnUpkeep: l.onUpkeep})
	}()
	err := s.Listen(ctx, l.on)
	stop()
	<-kept
	return err
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
	if l.failed != nil || l.once && l.processed > 0 {
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
	if r := l.result(e); r != nil {
		l.print(r)
	}
	if e.Message != nil {
		if l.processed++; l.once {
			l.enough()
		}
	}
}

// onUpkeep prints what a pass of upkeep did; people are told only of what
// happened.
func (l *listener) onUpkeep(u core.UpkeepReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil || l.once && l.processed > 0 {
		return
	}
	if !l.ready {
		l.early = append(l.early, u)
		return
	}
	l.printUpkeep(u)
}

func (l *listener) printUpkeep(u core.UpkeepReport) {
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

// begin prints the first line, once. What waits is not known when the relay has
// not answered yet.
func (l *listener) begin(b *core.BacklogEvent) {
	if l.ready {
		return
	}
	l.ready = true
	ready := readyEvent{Event: "ready", Identity: l.session.ACEID(), Relay: l.session.relay}
	if b != nil {
		ready.Cursor, ready.Backlog, ready.More = orNull(b.Cursor), &b.Waiting, b.More
		if l.cursor == "" {
			l.cursor = b.Cursor
		}
	}
	l.print(ready)
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
	var s *statusError
	switch {
	case l.once && l.processed > 0 && l.failed == nil:
		return l.last("once")
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
