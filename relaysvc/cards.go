package relaysvc

import (
	"errors"
	"net/http"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// claimWindow is the day in which a client network binds at most
// HANDLE_CLAIMS_PER_NETWORK_PER_DAY handles. It slides.
const claimWindow = 86400

// servePublishCard is POST /v1/card (07#descriptors-and-cards).
func (s *Server) servePublishCard(w http.ResponseWriter, r *request) error {
	network := s.clientNetwork(r.Request)
	if err := s.limiter.allow("publish "+network, s.config.Limits.Publications, r.now); err != nil {
		return err
	}
	body, err := s.readBody(w, r, wire.MaxPublishedAgentBytes)
	if err != nil {
		return err
	}
	bundle, err := descriptor.VerifyCard(body, r.now, s.descriptorOptions())
	if err != nil {
		return err
	}
	claim := func(b relaydb.Bindings) (bool, error) { return s.claim(bundle, b, r.now) }
	if err := s.db.PublishCard(r.Context(), relaydb.Card{
		ACEID:    bundle.ACEID,
		KELEnd:   bundle.KELEnd(),
		IssuedAt: bundle.IssuedAt,
		Claims:   bundle.ClaimsDigest(),
		Home:     bundle.Home,
		Handle:   bundle.Handle,
		Skeleton: relayapi.Skeleton(bundle.Handle),
		Open:     bundle.Contact == descriptor.ContactOpen,
		Listed:   bundle.Listed,
		Tags:     bundle.Card.Tags,
		Raw:      bundle.Raw(),
		Network:  network,
	}, r.now-claimWindow, r.now, claim); err != nil {
		return err
	}
	return s.accept(w, relayapi.OK())
}

// claim reports whether storing the bundle binds its handle.
func (s *Server) claim(bundle *descriptor.CardBundle, b relaydb.Bindings, now int64) (bool, error) {
	outcome, err := relayapi.Claim{
		Relay:    s.audience,
		Home:     bundle.Home,
		Handle:   bundle.Handle,
		Held:     b.Held,
		Taken:    b.Taken,
		InWindow: b.Claims,
	}.Decide()
	var e *fault.Error
	if errors.As(err, &e) && e.Code == relayapi.RateLimited {
		e.RetryAfter = b.Oldest + claimWindow - now
	}
	return outcome == relayapi.Bound, err
}
