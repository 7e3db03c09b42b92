package relaydb

import "sync"

// grace tells when nobody reads any more what was there at some moment: what a
// reader has found in the database must stay in the packet log until it has
// read it there.
type grace struct {
	mu      sync.Mutex
	current *readings
	before  []*readings // begun earlier and not over yet
}

// readings are those that began between two calls of over.
type readings struct {
	n    int
	over chan struct{} // closed when there are none left, and no more come
}

func newGrace() *grace { return &grace{current: &readings{over: make(chan struct{})}} }

// enter begins a reading that ends with leave.
func (g *grace) enter() *readings {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current.n++
	return g.current
}

func (g *grace) leave(r *readings) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r.n--; r.n == 0 && r != g.current {
		close(r.over)
	}
}

// wait returns true when all readings are over that have begun, false when
// giveUp is closed before. One goroutine waits at a time.
func (g *grace) wait(giveUp <-chan struct{}) bool {
	g.mu.Lock()
	g.before = append(g.before, g.current)
	if g.current.n == 0 {
		close(g.current.over)
	}
	g.current = &readings{over: make(chan struct{})}
	g.mu.Unlock()
	for len(g.before) > 0 {
		select {
		case <-g.before[0].over:
			g.before = g.before[1:]
		case <-giveUp:
			return false
		}
	}
	return true
}
