package relaysvc

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// The states that GET /health and its kin tell, the member status of their
// answer.
const (
	healthOK       = "ok"
	healthDraining = "draining"
	healthFailed   = "failed"    // the store takes no decisions
	healthDiskFull = "disk_full" // the disk of the store is below its floor
)

// readiness remembers the answer of the store, so that a request for nothing
// but a state does not cost a write each time.
type readiness struct {
	mu    sync.Mutex
	taken time.Time // guarded by mu, as what follows
	state string
}

// probeTimeout is how long the store may take to become ready.
const probeTimeout = 5 * time.Second

// readinessFresh is how old the answer of the store may be.
const readinessFresh = time.Second

func (r *readiness) get(take func() string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken.IsZero() || time.Since(r.taken) >= readinessFresh {
		r.state, r.taken = take(), time.Now()
	}
	return r.state
}

// serveHealth is GET /health, which is the operator's (07#operations): whether
// the relay does its work.
func (s *Server) serveHealth(w http.ResponseWriter, r *request) error {
	switch {
	case s.draining():
		return s.tell(w, healthDraining)
	case s.Probe(r.Context()) != nil:
		return s.tell(w, healthFailed)
	}
	return s.tell(w, healthOK)
}

// serveLive is GET /health/live: the process answers.
func (s *Server) serveLive(w http.ResponseWriter, _ *request) error { return s.tell(w, healthOK) }

// serveReady is GET /health/ready: whether clients should be sent here. It says
// no as soon as the relay drains, which is before it stops accepting.
func (s *Server) serveReady(w http.ResponseWriter, r *request) error {
	if s.draining() {
		return s.tell(w, healthDraining)
	}
	// The answer is for others too: it must not fail because one client left.
	return s.tell(w, s.readiness.get(func() string { return s.ready(context.WithoutCancel(r.Context())) }))
}

// ready asks the store and the disk.
func (s *Server) ready(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if s.Probe(ctx) != nil {
		return healthFailed
	}
	if s.disk.below(s.limits().DiskFloor) {
		return healthDiskFull
	}
	return healthOK
}

func (s *Server) tell(w http.ResponseWriter, state string) error {
	status := http.StatusOK
	if state != healthOK {
		status = http.StatusServiceUnavailable
	}
	s.write(w, status, fmt.Appendf(nil, `{"status":%q}`, state))
	return nil
}

// Probe waits until the store has taken a decision, or says why it does not.
// Codes: storage_failed, lock_busy.
func (s *Server) Probe(ctx context.Context) error { return s.db.Check(ctx) }

func (s *Server) draining() bool { return s.hub.isDraining() }
