package relaysvc

import (
	"context"
	"net/http"
	"slices"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// servePublishDescriptor is POST /v1/descriptor (07#descriptors-and-cards).
func (s *Server) servePublishDescriptor(w http.ResponseWriter, r *request) error {
	if err := s.limiter.allow("publish "+s.clientNetwork(r.Request), s.limits().Publications, r.now); err != nil {
		return err
	}
	body, err := s.readBody(w, r, wire.MaxPublishedAgentBytes)
	if err != nil {
		return err
	}
	agent, err := descriptor.Verify(body, r.now, s.descriptorOptions())
	if err != nil {
		return err
	}
	if err := s.db.CheckPublisher(r.Context(), agent.ACEID, agent.KELEnd()); err != nil {
		return err
	}
	if !slices.Contains(agent.Relays, s.audience) {
		return fault.New(fault.InvalidArgument, "descriptor.relays: this relay is not among them")
	}
	if err := s.storeDescriptor(r.Context(), agent); err != nil {
		return err
	}
	return s.accept(w, relayapi.OK())
}

// storeDescriptor stores a verified descriptor of a registered identity in
// place of an older one.
func (s *Server) storeDescriptor(ctx context.Context, agent *descriptor.PublishedAgent) error {
	profiles := make([]string, len(agent.Profiles))
	for i, p := range agent.Profiles {
		profiles[i] = p.ID
	}
	return stored(s.db.PublishDescriptor(ctx, relaydb.Descriptor{
		ACEID:     agent.ACEID,
		KELEnd:    agent.KELEnd(),
		IssuedAt:  agent.IssuedAt,
		Claims:    agent.ClaimsDigest(),
		ExpiresAt: agent.ExpiresAt,
		Profiles:  profiles,
		Raw:       agent.Raw(),
		Budget:    s.limits().NetworkStored,
	}))
}
