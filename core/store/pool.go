package store

import (
	"context"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/sqlconn"
)

const (
	// busyPatience is how long a transaction waits for another process.
	busyPatience = 5 * time.Second
	// maxReaders bounds the connections that read at the same time.
	maxReaders = 4
)

// pragmas hold on every connection to a file. The timeout is short because
// patiently repeats: a wait inside SQLite does not end with its context.
var pragmas = []string{"busy_timeout(50)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "secure_delete(ON)"}

// pool are the connections of one kind, for as many goroutines at a time.
type pool struct {
	uri, begin string
	pragmas    []string
	idle       chan *sqlconn.Conn // nil for one that is not open yet
	once       sync.Once
}

func newPool(uri, begin string, connections int, pragmas ...string) *pool {
	p := &pool{uri: uri, begin: begin, pragmas: pragmas, idle: make(chan *sqlconn.Conn, connections)}
	for range connections {
		p.idle <- nil
	}
	return p
}

// take waits for a connection.
func (p *pool) take(ctx context.Context) (c *sqlconn.Conn, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case c, ok := <-p.idle:
		if !ok {
			return nil, errClosed
		}
		if c != nil {
			return c, nil
		}
		err := patiently(ctx, func() (err error) {
			c, err = p.open()
			return err
		})
		if err != nil {
			p.idle <- nil
			return nil, err
		}
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pool) open() (*sqlconn.Conn, error) {
	c, err := sqlconn.Open(p.uri, coded, p.pragmas...)
	if err != nil {
		return nil, err
	}
	if err := c.GatherCommits(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

var errClosed = fault.New(fault.StorageFailed, "store is closed")

func (p *pool) give(c *sqlconn.Conn) { p.idle <- c }

// close waits for the connections that are in use.
func (p *pool) close() {
	p.once.Do(func() {
		for range cap(p.idle) {
			if c := <-p.idle; c != nil {
				c.Close()
			}
		}
		close(p.idle)
	})
}

// patiently repeats f while another process holds the lock that it needs, until
// the time for that or ctx is over.
func patiently(ctx context.Context, f func() error) error {
	err := f()
	if !sqlconn.IsBusy(err) {
		return err
	}
	for end := time.Now().Add(busyPatience); sqlconn.IsBusy(err) && ctx.Err() == nil && time.Now().Before(end); {
		err = f()
	}
	return err
}

// rollback ends a transaction that was not committed.
func rollback(c *sqlconn.Conn) {
	if c.InTransaction() {
		_ = c.Command("ROLLBACK") // it is undone all the same when the file is opened again
	}
}

// truncateLog empties the write-ahead log and reports whether nobody kept it
// from that.
func truncateLog(ctx context.Context, c *sqlconn.Conn) (truncated bool, err error) {
	s, err := c.Prepare("PRAGMA wal_checkpoint(TRUNCATE)")
	if err != nil {
		return false, err
	}
	for end := time.Now().Add(busyPatience); ; {
		var busy bool
		if _, err = s.Step(); err == nil {
			err = s.Scan(&busy)
			s.Reset()
		}
		waiting := busy || sqlconn.IsBusy(err)
		if !waiting || ctx.Err() != nil || !time.Now().Before(end) {
			return err == nil && !busy, err
		}
	}
}
