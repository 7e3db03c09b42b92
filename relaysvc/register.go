package relaysvc

import (
	"context"
	"errors"
	"net/http"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// serveRegister is POST /v1/register (07#registration).
func (s *Server) serveRegister(w http.ResponseWriter, r *request) error {
	network := s.clientNetwork(r.Request)
	if err := s.limiter.allow("publish "+network, s.limits().Publications, r.now); err != nil {
		return err
	}
	body, err := s.readBody(w, r, wire.MaxPublishedAgentBytes)
	if err != nil {
		return err
	}
	registration, err := relayapi.VerifyRegistrationBytes(body, s.audience, r.now, s.registrationOptions())
	if err != nil {
		return err
	}
	status, err := s.register(r.Context(), registration, network)
	if err != nil {
		return err
	}
	return s.accept(w, relayapi.OKStatus(status))
}

// register is 07#registration step 6, on account of a client network.
func (s *Server) register(ctx context.Context, r *relayapi.Registration, network string) (status relayapi.Status, err error) {
	err = decide(func() error {
		seen, record, err := s.record(ctx, r.ACEID)
		if err != nil {
			return err
		}
		status, err = r.Against(record, horizon(seen))
		if err != nil || status == relayapi.Idempotent {
			return err
		}
		store := func() error { return s.db.Register(ctx, s.toStore(r, network), known(seen)) }
		if status == relayapi.Refreshed {
			return stored(store())
		}
		// A stream opened under another registration or delegation delivers
		// nothing from here on (07#registration).
		return stored(s.hub.supersede(r.ACEID, store))
	})
	return status, err
}

// known returns what the store says of an identity, nil for one never seen.
func known(i relaydb.Identity) *relaydb.Identity {
	if i.Incarnation == 0 {
		return nil
	}
	return &i
}

// horizon returns that of an identity whose KEL is deleted, else nil.
func horizon(i relaydb.Identity) *relayapi.Horizon {
	if known(i) == nil || i.KELKept {
		return nil
	}
	return &relayapi.Horizon{EpochSeq: i.EpochSeq, EpochHash: i.EpochHash, LastSeq: i.EndSeq, LastHash: i.KELEnd, Barrier: i.Barrier}
}

func (s *Server) toStore(r *relayapi.Registration, network string) relaydb.Registration {
	start := r.State.EpochStart()
	return relaydb.Registration{
		ACEID:     r.ACEID,
		Timestamp: r.Timestamp,
		Digest:    r.MDigest,
		KELEnd:    r.State.LastHash(),
		EndSeq:    r.State.Seq(),
		EpochSeq:  start,
		EpochHash: r.State.Events()[start].Hash,
		KEL:       r.State.Raw(),
		Network:   network,
		Budget:    s.limits().NetworkStored,
	}
}

// budgetRetry is the delay in seconds that a client is asked for whose network
// has used up its bytes. They come back when its identities unregister or their
// descriptors expire, which takes hours rather than seconds.
const budgetRetry = 3600

// stored gives the refusal of a byte budget its code and its delay
// (07#registration).
func stored(err error) error {
	if !errors.Is(err, relaydb.OverBudget) {
		return err
	}
	e := fault.New(relayapi.RateLimited, "%s", relaydb.OverBudget)
	e.RetryAfter = budgetRetry
	return e
}

// serveUnregister is POST /v1/unregister (07#registration). The authentication
// timestamp becomes the barrier.
func (s *Server) serveUnregister(w http.ResponseWriter, r *request) error {
	h, err := relayapi.ParseHeaders(r.Header)
	if err != nil {
		return err
	}
	err = s.authenticated(r, h, kel.ActionUnregister, relayapi.UnregisterPayload(), func(c caller) error {
		if conflict := c.record.Unregister(h.Timestamp); conflict != nil {
			if err := s.db.Spend(r.Context(), c.Caller); err != nil {
				return err
			}
			return conflict
		}
		return s.hub.supersede(h.ID, func() error {
			return s.db.Unregister(r.Context(), c.Caller, c.identity, h.Timestamp, r.now)
		})
	})
	if err != nil {
		return err
	}
	return s.accept(w, relayapi.OK())
}
