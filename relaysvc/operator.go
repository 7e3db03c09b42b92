package relaysvc

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// Operator is what whoever runs the relay may do to it while it serves. No
// request over HTTP reaches it.
type Operator struct{ server *Server }

// Operator returns the operator's side of the relay.
func (s *Server) Operator() Operator { return Operator{s} }

// Status is the state of the relay now.
type Status struct {
	PublicURL string
	Data      string // folder of its store
	Draining  bool
	Streams   int   // open listen streams
	Failure   error // of the store, nil while it takes decisions
	Now       int64
}

// Now returns the time of the relay in Unix seconds.
func (o Operator) Now() int64 { return o.server.config.Clock() }

// Status returns the state of the relay. A store that does not answer within
// 5 s, as on a disk that hangs, is a failure of it.
func (o Operator) Status(ctx context.Context) Status {
	s := o.server
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return Status{
		PublicURL: s.audience,
		Data:      s.dataDir(),
		Draining:  s.hub.isDraining(),
		Streams:   s.hub.count(),
		Failure:   s.Probe(ctx),
		Now:       o.Now(),
	}
}

// dataDir returns the folder of the store, as it is called from every other.
func (s *Server) dataDir() string {
	dir := filepath.Dir(s.config.DBPath)
	if whole, err := filepath.Abs(dir); err == nil {
		return whole
	}
	return dir
}

// Drain bounds a drain. Nil is what the relay was configured with.
type Drain struct{ Deadline, Spread *time.Duration }

// or returns the times of a drain, which are otherwise those of t. A spread
// that leaves no time after it is cut.
func (d Drain) or(t Timeouts) Timeouts {
	if d.Deadline != nil {
		t.Drain = max(0, *d.Deadline)
	}
	if d.Spread != nil {
		t.Spread = max(0, *d.Spread)
	}
	t.Spread = min(t.Spread, t.Drain)
	return t
}

// Drain makes Serve drain and return. It does not wait for that; asking again
// changes nothing.
func (o Operator) Drain(d Drain) {
	select {
	case o.server.drains <- d:
	default:
	}
}

// Account returns what the relay knows of an identity. Codes: unknown_peer,
// storage_failed.
func (o Operator) Account(ctx context.Context, aceID string) (relaydb.Account, error) {
	a, err := o.server.db.Account(ctx, aceID)
	return a, operatorError(err)
}

// Accounts lists at most limit identities that follow after, by ACE ID.
// Code: storage_failed.
func (o Operator) Accounts(ctx context.Context, after string, limit int) ([]relaydb.Account, error) {
	all, err := o.server.db.Accounts(ctx, after, limit)
	return all, operatorError(err)
}

// Suspend takes an identity out of sight, or brings it back: while it is
// suspended, a send to it is refused like one to an unknown recipient and no
// lookup finds it. What is queued stays its owner's to fetch. Codes:
// unknown_peer, storage_failed.
func (o Operator) Suspend(ctx context.Context, aceID string, suspended bool) error {
	return operatorError(o.server.db.Suspend(ctx, aceID, suspended))
}

// Purge ends a registration and deletes what its unregister would delete, its
// queue among it. Codes: unknown_peer, not_registered, storage_failed.
func (o Operator) Purge(ctx context.Context, aceID string) error {
	return operatorError(o.server.hub.supersede(aceID, func() error {
		return o.server.db.Purge(ctx, aceID, o.server.config.Clock())
	}))
}

// SetQuota bounds the queue of one identity; nil gives it the relay's bounds.
// Codes: invalid_argument, unknown_peer, storage_failed.
func (o Operator) SetQuota(ctx context.Context, aceID string, q *relaydb.Quota) error {
	if q != nil && (q.Entries < 1 || q.Bytes < 1) {
		return fault.New(fault.InvalidArgument, "a quota of %d entries and %d bytes lets nothing in", q.Entries, q.Bytes)
	}
	return operatorError(o.server.db.SetQuota(ctx, aceID, q))
}

// Handles lists at most limit bound and reserved handles that follow after.
// Code: storage_failed.
func (o Operator) Handles(ctx context.Context, after string, limit int) ([]relaydb.Handle, error) {
	all, err := o.server.db.Handles(ctx, after, limit)
	return all, operatorError(err)
}

// Reserve keeps a handle, and all that look like it, from being claimed.
// Codes: invalid_argument, handle_taken, storage_failed.
func (o Operator) Reserve(ctx context.Context, handle string) error {
	if !wire.IsHandle(handle) {
		return fault.New(fault.InvalidArgument, "%.80q is not a handle", handle)
	}
	err := o.server.db.Reserve(ctx, handle, relayapi.Skeleton(handle), o.server.config.Clock())
	if errors.Is(err, relaydb.Taken) {
		return fault.New(relayapi.HandleTaken, "%s, or one that looks like it, is bound to an identity for good", handle)
	}
	return operatorError(err)
}

// Release lifts a reservation. A handle that is bound stays bound for good.
// Codes: invalid_argument, unknown_peer, storage_failed.
func (o Operator) Release(ctx context.Context, handle string) error {
	if !wire.IsHandle(handle) {
		return fault.New(fault.InvalidArgument, "%.80q is not a handle", handle)
	}
	err := o.server.db.Release(ctx, relayapi.Skeleton(handle))
	if errors.Is(err, relaydb.Unknown) {
		return fault.New(fault.UnknownPeer, "%s is not reserved", handle)
	}
	return operatorError(err)
}

// Backup copies the store into a new file and checks the copy.
// Code: storage_failed.
func (o Operator) Backup(ctx context.Context, path string) (relaydb.Backup, error) {
	s, now := o.server, o.server.config.Clock()
	b, err := s.db.Backup(ctx, path, now)
	if err == nil && b.Restorable() {
		s.metrics.backedUp.Store(now)
	}
	return b, err
}

// Verify checks the whole store. Code: storage_failed.
func (o Operator) Verify(ctx context.Context) (relaydb.Report, error) {
	return o.server.db.Verify(ctx)
}

// Collect removes what has expired without waiting for the next sweep.
// Code: storage_failed.
func (o Operator) Collect(ctx context.Context) error {
	return o.server.db.Sweep(ctx, o.server.config.Clock())
}

// operatorError gives a refusal of the store its code.
func operatorError(err error) error {
	var refusal relaydb.Refusal
	if !errors.As(err, &refusal) {
		return err
	}
	if refusal == relaydb.Unknown {
		return fault.New(fault.UnknownPeer, "no such identity is or was registered at this relay")
	}
	return fault.Wrap(codes[refusal], refusal)
}
