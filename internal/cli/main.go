// Package cli is the command line of ace: commands, configuration, output and
// exit statuses. Start with [Main].
//
// Each command has a file: a constructor for the tree, a function that does the
// work, and the type of its answer, whose JSON form is the contract and whose
// text form is a rendering of the same value.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// Main runs one command line, without the program's name, and returns the exit
// status. The first SIGINT or SIGTERM ends a command that may take long in good
// order, a second one, which does not come at the same moment, ends the process.
func Main(args []string, o IO) int {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is an error of the write, not a death
	var last atomic.Pointer[func()]
	o.catchSignals = sync.OnceFunc(func() { catchSignals(stop, &last) })
	o.beforeExit = func(f func()) { last.Store(&f) }
	o.notifyReload = notifyReload
	return run(ctx, args, o)
}

// catchSignals passes signals on to stop until the process ends, by the second
// one if it gets as far, which does last before. It starts a thread, so it is
// left to the commands that wait for something.
func catchSignals(stop func(error), last *atomic.Pointer[func()]) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	// A receiver has the effect of ignoring the signal, but not in child
	// processes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	go func() {
		stop(signalError(<-signals))
		first := time.Now()
		second := secondSignal(signals, func() time.Duration { return time.Since(first) })
		if f := last.Load(); f != nil {
			doBriefly(*f, signals)
		}
		os.Exit(exitOf(signalError(second)))
	}()
}

// oneWish is the time within which signals are one: who ends a group of
// processes, as timeout(1) and a terminal with a program between do, sends the
// signal to the program and to its group.
const oneWish = 200 * time.Millisecond

// secondSignal waits for a signal that somebody sent who has waited after the
// first one.
func secondSignal(signals <-chan os.Signal, since func() time.Duration) os.Signal {
	for {
		if s := <-signals; since() >= oneWish {
			return s
		}
	}
}

// lastPatience bounds what a second signal still does: whoever sends it does not
// want to wait, and a disk may hang.
const lastPatience = time.Second

// doBriefly waits for the end of f, but not for longer than lastPatience, and no
// longer than until another signal.
func doBriefly(f func(), signals <-chan os.Signal) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-signals:
	case <-time.After(lastPatience):
	}
}

// signalError is the error of a command that a signal ended.
func signalError(s os.Signal) error {
	if s == syscall.SIGTERM {
		return &statusError{exitTerminated, codeInterrupted, errors.New("terminated")}
	}
	return &statusError{exitInterrupted, codeInterrupted, errors.New("interrupted")}
}

// run is Main without the signals, for a program that runs several commands.
func run(ctx context.Context, args []string, o IO) (status int) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &watchedWriter{w: o.Out, failed: stop}
	o.Out = out
	if o.catchSignals == nil {
		o.catchSignals = func() {} // who runs several commands catches them itself
	}
	if o.beforeExit == nil {
		o.beforeExit = func(func()) {}
	}
	a := &app{io: o}
	defer func() {
		if p := recover(); p != nil {
			a.printPanic(p)
			status = exitBug
		}
	}()
	err := a.execute(ctx, args)
	if out.err != nil {
		err = out.err
	}
	return a.finish(ctx, err)
}

// finish reports the error of a command and returns the exit status.
func (a *app) finish(ctx context.Context, err error) (status int) {
	defer func() { a.endTrace(err, status) }()
	var said *reported
	switch {
	case err == nil, errors.Is(err, errDrained):
		return exitOK
	case errors.Is(err, syscall.EPIPE):
		return exitOK // the reader has what it wanted
	case errors.As(err, &said):
		return said.status
	}
	err = causeOf(ctx, err)
	a.printError(err)
	return exitOf(err)
}

// causeOf returns why a command really failed: whatever failed after a signal
// failed because of it, and a step that --timeout cut off tells so. The next
// step to take stays.
func causeOf(ctx context.Context, err error) error {
	cause := err
	var signalled *statusError
	switch {
	case errors.As(context.Cause(ctx), &signalled) && signalled.code == codeInterrupted:
		cause = signalled
	case fault.CodeOf(err) == "" && errors.Is(err, context.DeadlineExceeded):
		cause = fault.New(fault.RelayUnavailable, "the time of --timeout passed")
	default:
		return err
	}
	var h *hinted
	if errors.As(err, &h) {
		return hintf(cause, "%s", h.hint)
	}
	return cause
}

// watchedWriter keeps the first error of a write and tells of it, so that the
// places that print need not look.
type watchedWriter struct {
	w      io.Writer
	failed func(error)
	err    error
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.w.Write(p)
	if err != nil {
		w.err = fault.Wrapf(fault.StorageFailed, err, "standard output")
		w.failed(w.err)
	}
	return n, w.err
}

// printPanic reports a bug.
func (a *app) printPanic(p any) {
	a.printError(fmt.Errorf("panic: %v", p))
	if a.flags.verbose > 0 {
		fmt.Fprintf(a.io.Err, "%s", debug.Stack())
	}
}
