package cli

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/internal/handler"
)

// silenceMost is for how long a listener that is well hears nothing: a stream is
// given up after five minutes without a heartbeat, and a connection takes some
// time. One that polls hears nothing between two times either.
const silenceMost = 6 * time.Minute

func (o listenOptions) silence() time.Duration {
	return silenceMost + time.Duration(o.poll)*time.Second
}

// daemon is what the service manager is told of a listener.
type daemon struct {
	manager systemd
	silence time.Duration // for which it may hear nothing
	began   time.Time
	until   atomic.Int64 // since began: when something has to have been heard

	runs, failures int // of the commands; whoever tells of them guards these
}

func (a *app) newDaemon(silence time.Duration) *daemon {
	d := &daemon{manager: a.systemd(), silence: silence, began: time.Now()}
	d.heard()
	return d
}

// heard notes that listening goes on.
func (d *daemon) heard() { d.expect(d.silence) }

// heardFor is heard for an event: one of the connection says how long it waits.
func (d *daemon) heardFor(e core.Event) {
	wait := d.silence
	if e.Connection != nil {
		const longest = 1 << 32 // seconds; more would overflow a Duration
		wait += time.Duration(min(e.Connection.InSeconds, longest)) * time.Second
	}
	d.expect(wait)
}

func (d *daemon) expect(within time.Duration) { d.until.Store(int64(time.Since(d.began) + within)) }

// turns reports whether something was heard in time.
func (d *daemon) turns() bool { return int64(time.Since(d.began)) < d.until.Load() }

// ready says that the listener has begun.
func (d *daemon) ready(e readyEvent) {
	d.manager.tell(fmt.Sprintf("READY=1\nSTATUS=listening at %s", e.Relay))
}

// handled tells how the commands fare.
func (d *daemon) handled(r handler.Result) {
	if d.runs++; !r.Handled && !r.Interrupted {
		d.failures++
	}
	d.manager.tell(fmt.Sprintf("STATUS=%s of the command, %d failed", count(d.runs, "run"), d.failures))
}

// watch gives signs of life until ctx ends, twice in the time of the watchdog, as
// long as the listener hears something in time and responds. Then, or once the
// function it returns is called, it says that the listener ends.
func (d *daemon) watch(ctx context.Context, responds func(context.Context) bool) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() {
		d.live(ctx, responds)
		<-ctx.Done()
		d.manager.tell("STOPPING=1")
	})
	return func() {
		cancel()
		tasks.Wait()
	}
}

func (d *daemon) live(ctx context.Context, responds func(context.Context) bool) {
	if d.manager.watchdog == 0 {
		return
	}
	ticker := time.NewTicker(max(d.manager.watchdog/2, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		in, cancel := context.WithTimeout(ctx, d.manager.watchdog/4)
		if d.turns() && responds(in) {
			d.manager.tell("WATCHDOG=1")
		}
		cancel()
	}
}

// responds reports whether the listener can print and read its store before ctx
// ends.
func (l *listener) responds(ctx context.Context) bool {
	for !l.mu.TryLock() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Millisecond):
		}
	}
	s := l.session
	l.mu.Unlock()
	if s == nil {
		return true // it has only begun
	}
	_, err := s.Withdrawn(ctx)
	return err == nil
}
