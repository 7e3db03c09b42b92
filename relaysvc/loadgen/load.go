package loadgen

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// MaxRecipients bounds the identities of one load.
const MaxRecipients = 1000

// Config says what a load consists of. The zero value of a field is its
// default, where one is named.
type Config struct {
	URL string // the relay's canonical public URL, under which it is reached
	// Senders bounds the clients of later runs. Default: 1.
	Senders int
	// Recipients are registered for the time of the load, up to MaxRecipients.
	// Default: 64. A relay bounds what one recipient's queue holds, so that few
	// of them are soon full.
	Recipients int
	// Size is the bytes of a send's body, its permit included. Default: 14,000.
	Size int
	// Clock returns the time in Unix seconds. Default: the system clock.
	Clock func() int64
}

func (c *Config) check() error {
	setDefault(&c.Senders, 1)
	setDefault(&c.Recipients, 64)
	setDefault(&c.Size, 14_000)
	if c.Clock == nil {
		c.Clock = func() int64 { return time.Now().Unix() }
	}
	switch {
	case wire.CheckRelayURL(c.URL, wire.Development) != nil:
		return fault.New(fault.InvalidArgument, "%q is not the canonical URL of a relay", c.URL)
	case c.Senders < 1 || c.Senders > MaxClients:
		return fault.New(fault.InvalidArgument, "%d clients, outside [1, %d]", c.Senders, MaxClients)
	case c.Recipients < 1 || c.Recipients > MaxRecipients:
		return fault.New(fault.InvalidArgument, "%d recipients, outside [1, %d]", c.Recipients, MaxRecipients)
	case c.Size < 1 || c.Size > wire.MaxSendBodyBytes:
		return fault.New(fault.InvalidArgument, "a body of %d bytes, outside [1, %d]", c.Size, wire.MaxSendBodyBytes)
	}
	return nil
}

func setDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// Load is a relay, recipients registered there, and what is sent to them. One
// run at a time uses it.
type Load struct {
	target     target
	clock      func() int64
	recipients []*recipient
	senders    [][]*lane // the lanes of each sender
	sent       atomic.Int64
}

// setupWorkers make and register identities at the same time.
const setupWorkers = 8

// Open registers recipients at a relay and makes the packets for them. When it
// fails it has unregistered what it registered. Codes: invalid_argument, and
// those of 07#client-rules.
func Open(ctx context.Context, c Config) (*Load, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	t, err := newTarget(c.URL)
	if err != nil {
		return nil, err
	}
	l := &Load{target: t, clock: c.Clock, recipients: make([]*recipient, c.Recipients)}
	if err := l.prepare(ctx, c); err != nil {
		return nil, errors.Join(err, l.Close(context.WithoutCancel(ctx)))
	}
	return l, nil
}

func (l *Load) prepare(ctx context.Context, c Config) error {
	// What is signed is a few seconds old, so that unregistering right away is
	// later than registering (07#registration).
	now := c.Clock() - 5
	if err := l.makeRecipients(ctx, now); err != nil {
		return err
	}
	return l.makeLanes(ctx, c, now)
}

func (l *Load) makeRecipients(ctx context.Context, now int64) error {
	return each(ctx, len(l.recipients), func(ctx context.Context, i int) error {
		r, err := newRecipient(now)
		if err != nil {
			return err
		}
		l.recipients[i] = r
		return r.register(ctx, l.target.url, now)
	})
}

// makeLanes pairs senders and recipients, so that each has its share of the
// others and none is left out.
func (l *Load) makeLanes(ctx context.Context, c Config, now int64) error {
	names := make([]string, c.Senders)
	for i := range names {
		names[i] = wire.ACEID(suite.Hex256(suite.RandomBytes(32)))
	}
	lanes := make([]*lane, max(c.Senders, c.Recipients))
	err := each(ctx, len(lanes), func(_ context.Context, i int) (err error) {
		to := i % c.Recipients
		lanes[i], err = newLane(l.target, names[i%c.Senders], l.recipients[to], c.Size, now)
		if err == nil {
			lanes[i].recipient = to
		}
		return err
	})
	l.senders = make([][]*lane, c.Senders)
	for i, lane := range lanes {
		l.senders[i%c.Senders] = append(l.senders[i%c.Senders], lane)
	}
	return err
}

// closeTimeout bounds the unregistering. Each deletes a whole queue.
const closeTimeout = 2 * time.Minute

// Close unregisters the recipients, and their queues with them. The codes are
// those of 07#client-rules, for the first that failed.
func (l *Load) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	now := l.clock()
	failures := make([]error, len(l.recipients)+1)
	failures[len(l.recipients)] = each(ctx, len(l.recipients), func(ctx context.Context, i int) error {
		if r := l.recipients[i]; r != nil {
			failures[i] = r.unregister(ctx, l.target.url, now)
		}
		return nil // the others are to be unregistered all the same
	})
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// BodySize returns the bytes of the body of one send.
func (l *Load) BodySize() int { return l.senders[0][0].bodySize() }

// each calls do for 0 to n-1, a few at a time, until one fails or ctx ends. It
// waits for those in progress and returns the first error.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	going, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var group sync.WaitGroup
	var next atomic.Int64
	for range min(setupWorkers, n) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && going.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					fail(err)
				}
			}
		})
	}
	group.Wait()
	if err := context.Cause(going); fault.CodeOf(err) == "" {
		return fault.Wrap(fault.RelayUnavailable, err)
	}
	return context.Cause(going)
}
