package relaysvc

import (
	"context"
	"net/http"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// serveRegister is POST /v1/register (07#registration).
func (s *Server) serveRegister(w http.ResponseWriter, r *request) error {
	network := s.clientNetwork(r.Request)
	if err := s.limiter.allow("publish "+network, s.config.Limits.Publications, r.now); err != nil {
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
	status, err := s.register(r.Context(), registration, network, r.now)
	if err != nil {
		return err
	}
	return s.accept(w, relayapi.OKStatus(status))
}

// register is 07#registration step 6.
func (s *Server) register(ctx context.Context, r *relayapi.Registration, network string, now int64) (status relayapi.Status, err error) {
	err = decide(func() error {
		seen, record, err := s.record(ctx, r.ACEID)
		if err != nil {
			return err
		}
		status, err = r.Against(record, nil)
		if err != nil || status == relayapi.Idempotent {
			return err
		}
		if status != relayapi.Refreshed {
			// A stream opened under another registration or delegation
			// delivers nothing from here on (07#registration).
			defer s.hub.fence(r.ACEID)()
		}
		against := &seen
		if record == nil {
			against = nil
		}
		return s.db.Register(ctx, relaydb.Registration{
			ACEID:     r.ACEID,
			Timestamp: r.Timestamp,
			Digest:    r.MDigest,
			KELEnd:    r.State.LastHash(),
			KEL:       r.State.Raw(),
			Network:   network,
		}, against)
	})
	return status, err
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
		defer s.hub.fence(h.ID)()
		return s.db.Unregister(r.Context(), c.Caller, c.identity, h.Timestamp, r.now)
	})
	if err != nil {
		return err
	}
	return s.accept(w, relayapi.OK())
}
