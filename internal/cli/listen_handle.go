package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/internal/handler"
)

// handlerOptions are those of the command that handles messages.
type handlerOptions struct {
	exec, execJSON bool
	timeout        time.Duration
	concurrency    int
	attempts       int
	command        *handler.Command // nil for none
}

// What holds without the options of that name.
const (
	defaultRunTime = time.Minute
	defaultAtOnce  = 4
)

func (o *handlerOptions) addFlags(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.exec, "exec", false, "run the command after -- for each message, with its text or body as input")
	f.BoolVar(&o.execJSON, "exec-json", false, "the same, with the JSON of the message event as input")
	durationVar(f, &o.timeout, "exec-timeout", defaultRunTime, "how `LONG` a run may take")
	f.IntVar(&o.concurrency, "exec-concurrency", defaultAtOnce, fmt.Sprintf("run the command for so many `SENDERS` at a time, %d at most", handler.MostAtOnce))
	f.IntVar(&o.attempts, "exec-attempts", 0, "give a message up after `N` failures, 0 for never")
}

func (o *handlerOptions) check(args []string, dash int) error {
	const example = "as in ace listen --exec -- ./answer"
	given := o.exec || o.execJSON
	switch {
	case o.exec && o.execJSON:
		return usagef("--exec and --exec-json exclude each other")
	case len(args) > 0 && dash != 0:
		err := usagef("wrong number of arguments: %d", len(args))
		if given {
			return hintf(err, "put -- before the command, %s", example)
		}
		return err
	case len(args) > 0 && !given:
		return hintf(usagef("a command without --exec"), "%s", example)
	case len(args) == 0 && given:
		return hintf(usagef("--exec needs a command"), "%s", example)
	case len(args) == 0 && (o.timeout != defaultRunTime || o.concurrency != defaultAtOnce || o.attempts != 0):
		return hintf(usagef("--exec-timeout, --exec-concurrency and --exec-attempts are about the command of --exec, and there is none"), "%s", example)
	case len(args) == 0:
		return nil
	case o.timeout <= 0 || o.attempts < 0:
		return usagef("--exec-timeout is more than 0, and --exec-attempts not negative")
	case o.concurrency < 1 || o.concurrency > handler.MostAtOnce:
		return usagef("--exec-concurrency is 1 to %d", handler.MostAtOnce)
	}
	command, err := handler.Find(args)
	if err != nil {
		return usagef("--exec: %v", err)
	}
	o.command = &command
	return nil
}

// The events of the command that handles messages.
type (
	handledEvent struct {
		Event     string  `json:"event"`
		MessageID string  `json:"message_id"`
		From      string  `json:"from"`
		PeerName  *string `json:"peer_name"`
		Attempt   int     `json:"attempt"`
		Took      int64   `json:"duration_ms"`
		Output    int64   `json:"output_bytes"`
	}
	handlerFailedEvent struct {
		handledEvent
		// Interrupted says that the run was ended with ace, which is no failure.
		Interrupted   bool   `json:"interrupted"`
		Exit          *int   `json:"exit"` // 128 and its number for a signal, null for an interrupted one
		Reason        string `json:"reason"`
		NextAttemptAt *int64 `json:"next_attempt_at"` // null when there is none
		GivenUp       bool   `json:"given_up"`
	}
	// outputLine is a line that a command has printed, on standard error.
	outputLine struct {
		Output handlerOutput `json:"output"`
	}
	handlerOutput struct {
		MessageID string        `json:"message_id"`
		Untrusted untrustedLine `json:"untrusted"`
	}
	untrustedLine struct {
		Line string `json:"line"`
	}
)

func (e handledEvent) text(p *page) {
	p.line("%s\t%s\t%s\thandled in %s", p.time(p.app.io.Now()), p.peer(e.From, e.PeerName), p.messageID(e.MessageID), e.took())
}

func (e handledEvent) took() time.Duration { return time.Duration(e.Took) * time.Millisecond }

func (e handlerFailedEvent) text(p *page) {
	next := "it runs again later"
	switch {
	case e.GivenUp:
		next = "given up"
	case e.NextAttemptAt == nil:
		next = "marked as handled meanwhile"
	case !e.Interrupted:
		next = "again " + p.time(*e.NextAttemptAt)
	}
	p.line("%s\t%s\t%s\tnot handled, attempt %d: %s; %s", p.time(p.app.io.Now()), p.peer(e.From, e.PeerName), p.messageID(e.MessageID), e.Attempt, e.Reason, next)
}

func newHandledEvent(name string, r handler.Result) handledEvent {
	return handledEvent{
		Event: name, MessageID: r.Message.MessageID, From: r.Message.From, PeerName: orNull(r.Message.PeerName),
		Attempt: r.Handling.Attempts, Took: r.Took.Milliseconds(), Output: r.Output,
	}
}

func newHandlerFailedEvent(r handler.Result) handlerFailedEvent {
	e := handlerFailedEvent{
		handledEvent: newHandledEvent(handlerFailed, r), Interrupted: r.Interrupted, Exit: &r.Handling.LastExit, Reason: r.Handling.LastError,
		NextAttemptAt: &r.Handling.NextAttemptAt, GivenUp: r.Handling.GivenUp,
	}
	if r.Interrupted {
		e.Exit, e.Reason = nil, "ended with ace"
	}
	if r.Handling.GivenUp || r.Marked {
		e.NextAttemptAt = nil
	}
	return e
}

// handlerFailed is the event of a run that failed, and the code with which --once
// ends for one.
const handlerFailed = "handler_failed"

var errHandlerFailed = hintf(&statusError{exitLocal, handlerFailed, errors.New("the command did not handle the message")},
	"the message stays: ace inbox list --unhandled")

// handle hands messages to the command of --exec, from the first line until ctx
// ends: by then this process has the receive role.
func (l *listener) handle(ctx context.Context, s *session) error {
	select {
	case <-l.began:
	case <-ctx.Done():
		return nil
	}
	if l.o.command == nil {
		return nil
	}
	c := handler.Config{
		Endpoint: s.Endpoint, Command: *l.o.command, Input: l.o.input, Environ: s.handlerEnviron(), Types: l.o.types,
		AtOnce: l.o.concurrency, Timeout: l.o.timeout, Attempts: l.o.attempts, On: l.onHandled, Line: l.app.handlerLine(),
	}
	if l.o.once {
		c.AtOnce = 1
	}
	q := handler.New(c)
	l.queue.Store(q)
	defer l.queue.Store(nil)
	return q.Run(ctx)
}

// kill ends the commands that run, before the process ends at once.
func (l *listener) kill() {
	if q := l.queue.Load(); q != nil {
		q.Kill()
	}
}

// input is what the command reads.
func (o handlerOptions) input(m core.Message) []byte {
	switch {
	case o.execJSON:
		data, _ := json.Marshal(messageEvent{Event: "message", messageAnswer: newMessageAnswer(m)})
		return append(cleanJSON(data), '\n')
	case m.Type == profileText:
		return []byte(profile.TextOf(m.Body))
	}
	return append(m.Body.Canonical(), '\n')
}

// handlerEnviron is the environment of the command: ace in it acts as the same
// identity.
func (s *session) handlerEnviron() []string {
	a := s.app
	environ := append(a.io.environ(), envName("as")+"="+s.id.name)
	for option, value := range map[string]string{"home": a.dataDir(), "config": a.flags.config} {
		if path, err := filepath.Abs(value); err == nil && value != "" {
			environ = append(environ, envName(option)+"="+path)
		}
	}
	if a.flags.relay != "" {
		environ = append(environ, envName("relay")+"="+a.flags.relay)
	}
	if a.flags.allowLoopback {
		environ = append(environ, envName("allow-loopback")+"=1")
	}
	return environ
}

// handlerLine returns where the lines go that commands print, nil for nowhere.
func (a *app) handlerLine() func(messageID, line string) {
	if a.flags.quiet {
		return nil
	}
	return func(messageID, line string) {
		if !a.flags.json {
			fmt.Fprintf(a.io.Err, "%s: %s\n", messageID, clean(line, false))
			return
		}
		data, _ := json.Marshal(outputLine{handlerOutput{messageID, untrustedLine{line}}})
		fmt.Fprintf(a.io.Err, "%s\n", cleanJSON(data))
	}
}

// onHandled prints what came of a run.
func (l *listener) onHandled(r handler.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Left > 0 {
		l.app.say("%s: %d more bytes are left out", r.Message.MessageID, r.Left)
	}
	l.daemon.handled(r)
	if l.failed != nil {
		return
	}
	l.busy()
	if r.Handled {
		l.print(newHandledEvent("handled", r))
	} else {
		l.print(newHandlerFailedEvent(r))
	}
	switch {
	case !l.o.once || l.over():
	case r.Handled:
		l.endFor("once")
	case !r.Interrupted:
		l.endFor(handlerFailed)
	}
}
