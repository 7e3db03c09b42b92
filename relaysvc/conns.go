package relaysvc

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"syscall"
)

// connections bounds how many connections are open at the same time. The bound
// protects the process; it is not one per address, which 07#listen forbids for
// streams.
type connections struct {
	mu      sync.Mutex
	changed *sync.Cond // of mu: a place is free, the bound moved, or the end
	open    int        // guarded by mu, as what follows
	limit   int
	closed  bool
}

func newConnections(limit int) *connections {
	c := &connections{limit: limit}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// storeFiles is how many files a store of some size has open, at most.
const storeFiles = 128

// places returns how many connections there may be of as many as the operator
// allows. A quarter of the files that the process may have open is left to the
// store, for which it is a failed disk when it can open none.
func places(allowed int) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return allowed
	}
	limit := uint64(files.Cur)
	most := limit - min(limit, max(limit/4, storeFiles))
	return min(allowed, int(min(max(most, 1), 1<<30)))
}

// take waits for a place. It answers false after end.
func (c *connections) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.limit && !c.closed {
		c.changed.Wait()
	}
	if !c.closed {
		c.open++
	}
	return !c.closed
}

func (c *connections) give() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.changed.Signal()
}

// bound changes the limit. Connections over a lower one stay open.
func (c *connections) bound(limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = limit
	c.changed.Broadcast()
}

// end wakes who waits for a place: none will come.
func (c *connections) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.changed.Broadcast()
}

// most returns the limit.
func (c *connections) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// boundedListener accepts no more connections than there are places. Those
// beyond wait where the operating system keeps them.
type boundedListener struct {
	net.Listener
	places *connections
	log    *slog.Logger
}

func (l *boundedListener) Accept() (net.Conn, error) {
	if !l.places.take() {
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		l.places.give()
		var number syscall.Errno
		if errors.As(err, &number) {
			// Too many open files, for one. The number alone: the rest of the
			// text has addresses. net/http tries again, up to a second later.
			l.log.Error("no connection can be accepted", "error", number)
		}
		return nil, err
	}
	return &boundedConn{Conn: conn, give: sync.OnceFunc(l.places.give)}, nil
}

func (l *boundedListener) Close() error {
	l.places.end()
	return l.Listener.Close()
}

// boundedConn gives its place back when it is closed, however often that is.
type boundedConn struct {
	net.Conn
	give func()
}

func (c *boundedConn) Close() error {
	defer c.give()
	return c.Conn.Close()
}

// CloseWrite ends what is sent, so that a client which is still writing gets
// to read the answer.
func (c *boundedConn) CloseWrite() error { return closeWrite(c.Conn) }
