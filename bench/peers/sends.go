package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ace-toolkit/ace/relaysvc/loadgen"
)

// system is one of those that are compared.
type system interface {
	name() string
	// prepare makes it ready once, with its data in dir. The error wraps
	// errMissing when it is not installed.
	prepare(ctx context.Context, dir string) error
	// session starts it with nothing stored, for so many clients.
	session(ctx context.Context, clients int) (*session, error)
	// close ends what prepare has started.
	close() error
}

var errMissing = errors.New("not installed")

// session is a system that takes messages.
type session struct {
	run   func(context.Context, loadgen.Pace) (*loadgen.Result, error)
	pid   int // the process whose CPU time is of interest, or 0
	close func() error
}

func allSystems(o *options) []system {
	return []system{
		&relay{ace: o.ace, body: o.body},
		&postgres{body: o.peerBody},
		&redis{body: o.peerBody},
		&natsServer{body: o.peerBody},
	}
}

// measureSends lets every system take messages, all of them in turn in each
// round, each round beginning with another one.
func measureSends(ctx context.Context, o *options, dir string, t *table) (err error) {
	systems, err := prepareSystems(ctx, o, dir, t)
	defer func() {
		for _, s := range systems {
			err = errors.Join(err, s.close())
		}
	}()
	if err != nil {
		return err
	}
	for round := range o.rounds {
		t.addVerify(verifyCPU())
		for _, clients := range o.clients {
			for i := range systems {
				s := systems[(round+i)%len(systems)]
				if err := measureOne(ctx, o, s, clients, t); err != nil {
					return fmt.Errorf("%s: %w", s.name(), err)
				}
			}
		}
	}
	return nil
}

// prepareSystems also returns those that it had prepared before one failed.
func prepareSystems(ctx context.Context, o *options, dir string, t *table) (ready []system, err error) {
	for _, s := range allSystems(o) {
		if o.systems != nil && !slices.Contains(o.systems, s.name()) {
			continue
		}
		folder := filepath.Join(dir, s.name())
		if err := os.Mkdir(folder, 0o711); err != nil {
			return ready, err
		}
		err := s.prepare(ctx, folder)
		if errors.Is(err, errMissing) {
			progress("%s is left out: %v", s.name(), err)
			t.skipped = append(t.skipped, fmt.Sprintf("%s: %v", s.name(), err))
			continue
		}
		ready = append(ready, s)
		if err != nil {
			return ready, fmt.Errorf("%s: %w", s.name(), err)
		}
	}
	if len(ready) == 0 {
		return nil, errors.New("no system to measure")
	}
	return ready, nil
}

func measureOne(ctx context.Context, o *options, s system, clients int, t *table) (err error) {
	flushDisk() // what the last one has left to write is not this one's
	session, err := s.session(ctx, clients)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.close()) }()
	r, err := session.run(ctx, loadgen.Pace{Clients: clients, Duration: o.measured, Warmup: o.warmup, PID: session.pid})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	progress("%-8s %3d clients  %7.0f/s  p50 %8.2f ms  p99 %8.2f ms  client %3.0f µs  %s", s.name(), clients,
		r.PerSecond(), millis(r.Latency.P50), millis(r.Latency.P99), r.OwnCPU/float64(max(1, r.Accepted))*1e6, describe(r.Errors))
	if r.Accepted == 0 {
		return fmt.Errorf("nothing was accepted: %s", describe(r.Errors))
	}
	t.addSend(s.name(), r)
	return nil
}

func describe(errors []loadgen.ErrorCount) (text string) {
	for _, e := range errors {
		text += fmt.Sprintf("%d × %s ", e.Count, e.Code)
	}
	return text
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
