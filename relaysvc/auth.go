package relaysvc

import (
	"context"
	"errors"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// nonceMemory is how long a nonce is remembered, in seconds: as long as a
// request signed at the far end of the window is fresh (07#authentication).
const nonceMemory = 2*wire.TimestampWindowSeconds + 1

// maxDecisions bounds how often a request is decided anew because the
// registration that it rests on changed meanwhile.
const maxDecisions = 8

// decide runs fn until it meets no relaydb.Changed.
func decide(fn func() error) error {
	var err error
	for range maxDecisions {
		if err = fn(); !errors.Is(err, relaydb.Changed) {
			return err
		}
	}
	return fault.Wrap(relayapi.InternalError, err)
}

// caller is an authenticated caller whose nonce is not reserved yet.
type caller struct {
	relaydb.Caller
	identity relaydb.Identity
	record   *relayapi.Record
}

// authenticated checks a request for action up to its nonce, in the order of
// 07#authentication, and then runs fn, which reserves the nonce with its own
// effect in one transaction. Its arguments have been validated before.
func (s *Server) authenticated(r *request, h relayapi.Headers, action string, payload []byte, fn func(caller) error) error {
	return decide(func() error {
		identity, record, err := s.record(r.Context(), h.ID)
		if err != nil {
			return err
		}
		var registered *kel.State
		if record != nil && record.Registered {
			registered = record.State
		}
		start := time.Now()
		err = h.Verify(action, payload, s.audience, registered, r.now)
		s.metrics.checked(start, err)
		if err != nil {
			return err
		}
		if h.Timestamp <= s.db.RestoredAt() {
			// Its nonce may have been spent after the backup was made.
			return fault.New(fault.StaleTimestamp, "timestamp %d is before the relay's store was restored", h.Timestamp)
		}
		return fn(caller{
			Caller: relaydb.Caller{
				ACEID: h.ID, Incarnation: identity.Incarnation, Nonce: h.Nonce, Forget: r.now + nonceMemory,
				Fetch: s.fetches(action, r.now),
			},
			identity: identity,
			record:   record,
		})
	})
}

// record returns what the relay keeps of an identity, and no record for one
// never seen or whose KEL is deleted.
func (s *Server) record(ctx context.Context, aceID string) (relaydb.Identity, *relayapi.Record, error) {
	i, err := s.db.Identity(ctx, aceID)
	if errors.Is(err, relaydb.NotRegistered) {
		return i, nil, nil
	}
	if err != nil {
		return i, nil, err
	}
	if !i.KELKept {
		return i, nil, nil
	}
	state, err := s.state(ctx, aceID, i.KELEnd)
	if err != nil {
		return i, nil, err
	}
	return i, &relayapi.Record{
		State:      state,
		Timestamp:  i.Timestamp,
		MDigest:    i.Digest,
		Registered: i.Registered,
		Barrier:    i.Barrier,
	}, nil
}

// state returns the state of a stored KEL that ends in kelEnd. The bound on
// future events held when it was stored, and a clock that was set back since
// must not make a registered identity fail.
func (s *Server) state(ctx context.Context, aceID, kelEnd string) (*kel.State, error) {
	if state := s.states.get(kelEnd); state != nil {
		return state, nil
	}
	raw, err := s.db.KEL(ctx, aceID, kelEnd)
	if err != nil {
		return nil, err
	}
	log, err := wire.Parse(raw, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrapf(fault.StorageFailed, err, "stored kel")
	}
	state, err := s.kels.Verify(log, wire.MaxInt)
	if err != nil {
		// It was verified before it was stored.
		return nil, fault.Wrapf(fault.StorageFailed, err, "stored kel")
	}
	s.states.put(state)
	s.metrics.sawKEL(len(state.Events()))
	return state, nil
}
