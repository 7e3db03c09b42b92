package relaysvc

import (
	"container/list"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// connections bounds how many connections are open at the same time. The bound
// protects the process; it is not one per address, which 07#listen forbids for
// streams. So that nobody keeps others out by keeping connections, one on which
// nothing is asked makes room for the next.
type connections struct {
	mu      sync.Mutex
	changed *sync.Cond // of mu: a place is or can be made free, the bound moved, or the end
	open    int        // guarded by mu, as what follows
	limit   int
	closed  bool
	idle    *list.List // of net.Conn between two requests, the longest first
	idleAt  map[net.Conn]*list.Element
}

func newConnections(limit int) *connections {
	c := &connections{limit: limit, idle: list.New(), idleAt: map[net.Conn]*list.Element{}}
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

// take waits for a place, for which it ends a connection that is idle. It
// answers false after end.
func (c *connections) take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.limit && !c.closed {
		longest := c.idle.Front()
		if longest == nil {
			c.changed.Wait()
			continue
		}
		conn := c.forget(longest)
		c.mu.Unlock()
		cutOff(conn) // gives its place back
		c.mu.Lock()
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

// watch is the http.Server.ConnState of the main listener.
func (c *connections) watch(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.idleAt[conn]; e != nil {
		c.forget(e)
	}
	if state == http.StateIdle {
		c.idleAt[conn] = c.idle.PushBack(conn)
		c.changed.Signal()
	}
}

// forget takes a connection from those that are idle. The caller holds mu.
func (c *connections) forget(e *list.Element) net.Conn {
	conn := c.idle.Remove(e).(net.Conn)
	delete(c.idleAt, conn)
	return conn
}

// cutOff closes a connection, and one over TLS without the goodbye that its
// client might have no room for.
func cutOff(conn net.Conn) {
	if over, ok := conn.(*securedConn); ok {
		conn = over.over
	}
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	conn.Close()
}

// bound changes the limit. Connections over a lower one stay open, until one
// that is idle has to make room.
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

// boundedListener accepts one connection more than there are places, which
// waits for one. Those beyond wait where the operating system keeps them.
type boundedListener struct {
	net.Listener
	places *connections
	log    *slog.Logger
}

func (l *boundedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		var number syscall.Errno
		if errors.As(err, &number) {
			// Too many open files, for one. The number alone: the rest of the
			// text has addresses. net/http tries again, up to a second later.
			l.log.Error("no connection can be accepted", "error", number)
		}
		return nil, err
	}
	if !l.places.take() {
		conn.Close()
		return nil, net.ErrClosed
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
