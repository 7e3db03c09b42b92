package cli

import (
	"context"
	"errors"
	"fmt"
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
