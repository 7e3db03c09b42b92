package cli

import (
	"context"
	"errors"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

const (
	// lookInterval is how often the store is looked at, which other processes
	// change as well.
	lookInterval = 250 * time.Millisecond
	// receiveAgain is how soon it is tried again to receive, after another process
	// had the receive lock or the relay did not answer.
	receiveAgain = time.Second
)

// await receives until check is satisfied and returns nil, or the error of
// check, or that of the deadline in ctx. While another process receives for the
// identity it watches the store, which that process fills, and it receives itself
// once that one has ended. A relay that does not answer is waited for.
func (s *session) await(ctx context.Context, check func(context.Context) (bool, error)) error {
	// What has come about already needs no time at all.
	if done, err := check(context.WithoutCancel(ctx)); done || err != nil {
		return err
	}
	receiving, stop := context.WithCancel(ctx)
	news := make(chan struct{}, 1)
	failed := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed <- s.receiveWhile(receiving, news)
	}()
	defer func() { stop(); <-ended }()
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		select {
		case <-news:
		case <-look.C:
		case err := <-failed:
			if err == nil {
				err = context.Cause(ctx)
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		done, err := check(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx) // what fails then fails because of it
		case done || err != nil:
			return err
		}
	}
}

// receiveWhile receives until ctx ends, whenever no other process does, and tells
// news of each event. It returns what receiving fails with for good.
func (s *session) receiveWhile(ctx context.Context, news chan<- struct{}) error {
	for told := false; ; {
		err := s.Listen(ctx, func(core.Event) {
			select {
			case news <- struct{}{}:
			default:
			}
		})
		passes := errors.Is(err, fault.LockBusy) || fault.CodeOf(err).Category() == fault.Transient
		if ctx.Err() != nil {
			return nil
		}
		if !passes {
			return err
		}
		if !told && s.app.flags.verbose > 0 {
			told = true
			s.app.say("not receiving for now: %s", clean(err.Error(), false))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(receiveAgain):
		}
	}
}

// The pauses between two questions to a relay, each twice the last one.
const (
	askAgain     = 100 * time.Millisecond
	askAgainMost = 5 * time.Second
)

// keepAsking repeats ask until it is satisfied and returns nil, or its error when
// that is for good, or that of the deadline in ctx, with what stood in the way
// last as a hint. For what a relay answers to a question, and tells nobody.
func keepAsking(ctx context.Context, ask func(context.Context) (bool, error)) error {
	var last error
	for pause := askAgain; ; pause = min(2*pause, askAgainMost) {
		done, err := ask(ctx)
		switch {
		case ctx.Err() != nil:
		case done:
			return nil
		case err != nil && fault.CodeOf(err).Category() != fault.Transient:
			return err
		default:
			last = err
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); last == nil || !errors.Is(cause, errDeadline) {
				return cause
			}
			return hintf(errDeadline, "the last try: %s", clean(last.Error(), false))
		case <-time.After(pause):
		}
	}
}
