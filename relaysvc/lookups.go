package relaysvc

import (
	"net/http"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// The lookups of 07#descriptors-and-cards. They need no authentication and
// answer everybody alike.

// serveDescriptor is GET /v1/descriptor/{aceId}.
func (s *Server) serveDescriptor(w http.ResponseWriter, r *request) error {
	if err := checkTarget(r.target); err != nil {
		return err
	}
	agent, err := s.db.Descriptor(r.Context(), r.target, r.now)
	if err != nil {
		return err
	}
	return s.accept(w, agent)
}

// serveCard is GET /v1/card/{aceId}.
func (s *Server) serveCard(w http.ResponseWriter, r *request) error {
	if err := checkTarget(r.target); err != nil {
		return err
	}
	bundle, err := s.db.Card(r.Context(), r.target)
	if err != nil {
		return err
	}
	return s.accept(w, bundle)
}

// serveHandle is GET /v1/handles/{handle}.
func (s *Server) serveHandle(w http.ResponseWriter, r *request) error {
	if !wire.IsHandle(r.target) {
		return fault.New(fault.InvalidArgument, "path: not a handle")
	}
	bundle, err := s.db.Handle(r.Context(), r.target, s.audience)
	if err != nil {
		return err
	}
	return s.accept(w, bundle)
}

func checkTarget(aceID string) error {
	if !wire.IsACEID(aceID) {
		return fault.New(fault.InvalidArgument, "path: not an ACE ID")
	}
	return nil
}
