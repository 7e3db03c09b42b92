package relaysvc

import (
	"context"
	"errors"
	"net/http"
	"slices"

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
	if err := s.limiter.allow("publish "+network, s.limits().Publications, r.now); err != nil {
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
	if err := s.storeCard(r.Context(), bundle, network, r.now); err != nil {
		return err
	}
	return s.accept(w, relayapi.OK())
}

// storeCard stores a verified card record of a registered identity in place of
// an older one, and binds its handle on account of a client network.
func (s *Server) storeCard(ctx context.Context, bundle *descriptor.CardBundle, network string, now int64) error {
	claim := func(b relaydb.Bindings) (bool, error) { return s.claim(bundle, b, now) }
	return stored(s.db.PublishCard(ctx, relaydb.Card{
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
		Budget:   s.limits().NetworkStored,
	}, now-claimWindow, now, claim))
}

// claim reports whether storing the bundle binds its handle.
func (s *Server) claim(bundle *descriptor.CardBundle, b relaydb.Bindings, now int64) (bool, error) {
	outcome, err := relayapi.Claim{
		Relay:    s.audience,
		Home:     bundle.Home,
		Handle:   bundle.Handle,
		Held:     b.Held,
		Taken:    b.Taken || s.reserved(bundle.Handle),
		InWindow: b.Claims,
	}.Decide()
	var e *fault.Error
	if errors.As(err, &e) && e.Code == relayapi.RateLimited {
		e.RetryAfter = b.Oldest + claimWindow - now
	}
	return outcome == relayapi.Bound, err
}

// reserved reports whether the operator keeps the handle, or one that looks
// like it, by configuration. What is reserved later is in the store.
func (s *Server) reserved(handle string) bool {
	skeleton := relayapi.Skeleton(handle)
	return slices.ContainsFunc(s.config.ReservedHandles, func(r string) bool { return relayapi.Skeleton(r) == skeleton })
}
