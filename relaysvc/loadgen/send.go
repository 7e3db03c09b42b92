package loadgen

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// Send lets clients send packets with permits, each over its own connection.
// A recipient whose queue is full gets nothing more; a client that has only
// such recipients ends. Code: invalid_argument (the pace, or more clients than
// the load has senders).
func (l *Load) Send(ctx context.Context, p Pace) (*Result, error) {
	if p.Clients > len(l.senders) {
		return nil, fault.New(fault.InvalidArgument, "%d clients of a load with %d senders", p.Clients, len(l.senders))
	}
	p.sample = func() float64 { return l.metric(ctx, fsyncMetric) }
	clients := make([]*client, p.Clients)
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	return Run(ctx, p, func(i int) func() error {
		c := &client{load: l, lanes: l.senders[i]}
		clients[i] = c
		return func() error { return c.send(ctx) }
	})
}

// client is one sender with its kept connection.
type client struct {
	load  *Load
	conn  *conn // nil before the first send and after a failure
	lanes []*lane
	next  int // lane

	// Where they are set: what to do before send number n leaves, and after
	// one on a lane has been accepted.
	leaving  func(n int64)
	accepted func(*lane)
}

// send sends one packet on the next lane.
func (c *client) send(ctx context.Context) error {
	l := c.lane()
	if l == nil {
		return errDone
	}
	if c.conn == nil {
		conn, err := c.load.target.dial(ctx)
		if err != nil {
			return err
		}
		c.conn = conn
	}
	n := c.load.sent.Add(1)
	if c.leaving != nil {
		c.leaving(n)
	}
	err := c.conn.exchange(l.number(n))
	var refused *fault.Error
	switch {
	case err == nil && c.accepted != nil:
		c.accepted(l)
	case err == nil:
	case errors.As(err, &refused) && refused.Status != 0:
		l.full = refused.Remote == string(relayapi.RecipientInboxFull)
	default:
		c.close()
	}
	return err
}

// lane returns the next lane that is not full, or nil.
func (c *client) lane() *lane {
	for range c.lanes {
		l := c.lanes[c.next%len(c.lanes)]
		c.next++
		if !l.full {
			return l
		}
	}
	return nil
}

func (c *client) close() {
	if c != nil && c.conn != nil {
		c.conn.close()
		c.conn = nil
	}
}
