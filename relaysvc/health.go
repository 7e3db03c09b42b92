package relaysvc

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// The states that GET /health and its kin tell, the member status of their
// answer.
const (
	healthOK       = "ok"
	healthDraining = "draining"
	healthFailed   = "failed"    // the store takes no decisions
	healthDiskFull = "disk_full" // the disk of the store is below its floor
)

// probeTimeout is how long the store may take to answer whether it works.
const probeTimeout = 5 * time.Second

// probeFresh is how old its answer may be.
const probeFresh = time.Second

// watchedFor is how long after its last question somebody counts as watching
// whether the relay is ready: a few rounds of any balancer.
const watchedFor = time.Minute

// prober asks the store whether it works, one question at a time for all who
// want to know: anybody may ask for GET /health, and a store that hangs answers
// nobody.
type prober struct {
	tasks   sync.WaitGroup
	watched atomic.Int64 // Unix seconds of the last question about readiness

	mu   sync.Mutex
	last *probe // guarded by mu
}

type probe struct {
	began time.Time
	done  chan struct{} // closed when err is the answer
	err   error
}

// ask returns the question in progress, one that was answered just now, or a
// new one.
func (p *prober) ask(check func() error) *probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil && (!p.last.over() || time.Since(p.last.began) < probeFresh) {
		return p.last
	}
	q := &probe{began: time.Now(), done: make(chan struct{})}
	p.last = q
	p.tasks.Go(func() {
		defer close(q.done)
		q.err = check()
	})
	return q
}

// close waits for the question in progress, which the store answers when it
// closes, and forgets what it said before.
func (p *prober) close() {
	p.tasks.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = nil
}

func (q *probe) over() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// wait returns the answer. Code: storage_failed, also when ctx ends first.
func (q *probe) wait(ctx context.Context) error {
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return fault.Wrapf(fault.StorageFailed, ctx.Err(), "the store does not answer")
	}
}

// serveHealth is GET /health, which is the operator's (07#operations): whether
// the relay does its work.
func (s *Server) serveHealth(w http.ResponseWriter, r *request) error {
	return s.tell(w, s.health(r.Context()))
}

// serveLive is GET /health/live: the process answers.
func (s *Server) serveLive(w http.ResponseWriter, _ *request) error { return s.tell(w, healthOK) }

// serveReady is GET /health/ready: whether clients should be sent here. It says
// no as soon as the relay drains, which is before it stops accepting.
func (s *Server) serveReady(w http.ResponseWriter, r *request) error {
	state := s.health(r.Context())
	if state == healthOK && s.disk.below(s.limits().DiskFloor) {
		state = healthDiskFull
	}
	return s.tell(w, state)
}

// health asks the relay and its store.
func (s *Server) health(ctx context.Context) string {
	s.prober.watched.Store(time.Now().Unix())
	if s.draining() {
		return healthDraining
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if s.Probe(ctx) != nil {
		return healthFailed
	}
	return healthOK
}

// watched reports whether somebody, a balancer perhaps, has asked for the state
// of the relay and will want to know that it drains.
func (s *Server) watched() bool {
	return time.Since(time.Unix(s.prober.watched.Load(), 0)) < watchedFor
}

func (s *Server) tell(w http.ResponseWriter, state string) error {
	status := http.StatusOK
	if state != healthOK {
		status = http.StatusServiceUnavailable
	}
	s.write(w, status, fmt.Appendf(nil, `{"status":%q}`, state))
	return nil
}

// Probe waits until the store has taken a decision, which may be a second old,
// or says why it does not. Code: storage_failed.
func (s *Server) Probe(ctx context.Context) error {
	if err := s.db.Err(); err != nil {
		return err
	}
	check := func() error { return s.db.Check(context.Background()) }
	return s.prober.ask(check).wait(ctx)
}

func (s *Server) draining() bool { return s.hub.isDraining() }
