package relaysvc

import (
	"context"
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
	return s.serveDocument(w, r, func(ctx context.Context) ([]byte, error) {
		return s.db.Descriptor(ctx, r.target, r.now)
	})
}

// serveCard is GET /v1/card/{aceId}.
func (s *Server) serveCard(w http.ResponseWriter, r *request) error {
	if err := checkTarget(r.target); err != nil {
		return err
	}
	return s.serveDocument(w, r, func(ctx context.Context) ([]byte, error) {
		return s.db.Card(ctx, r.target)
	})
}

// serveHandle is GET /v1/handles/{handle}.
func (s *Server) serveHandle(w http.ResponseWriter, r *request) error {
	if !wire.IsHandle(r.target) {
		return fault.New(fault.InvalidArgument, "path: not a handle")
	}
	return s.serveDocument(w, r, func(ctx context.Context) ([]byte, error) {
		return s.db.Handle(ctx, r.target, s.audience)
	})
}

// serveDocument answers with a document. There is memory for the longest one
// until the client has taken it. Code: rate_limited (too many answers at the
// same time).
func (s *Server) serveDocument(w http.ResponseWriter, r *request, find func(context.Context) ([]byte, error)) error {
	if !s.answers.take(r.Context(), wire.MaxPublishedAgentBytes, bodyPatience) {
		return errNoMemory
	}
	defer s.answers.give(wire.MaxPublishedAgentBytes)
	document, err := find(r.Context())
	if err != nil {
		return err
	}
	return s.acceptLent(w, document, s.answers, wire.MaxPublishedAgentBytes)
}

func checkTarget(aceID string) error {
	if !wire.IsACEID(aceID) {
		return fault.New(fault.InvalidArgument, "path: not an ACE ID")
	}
	return nil
}
