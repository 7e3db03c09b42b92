package relaysvc

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// The values of Config.WakeGateways that are no URL.
const (
	// AnyGateway allows every gateway whose address is not blocked. Whoever
	// registers can then have the relay make requests to hosts of their choice.
	AnyGateway = "*"
	// LoopbackGateways allows gateways on this machine, in development.
	LoopbackGateways = "loopback"
)

// maxWakeBody bounds the body of a wake registration, which has some 2600 bytes.
const maxWakeBody = 16 << 10

// wakeRoutes exist where wake hints are offered; elsewhere they are not_found
// (07#wake-hints).
var wakeRoutes = map[string]route{
	"PUT /v1/wake":    storing((*Server).serveSetWake),
	"DELETE /v1/wake": (*Server).serveDeleteWake,
}

// CheckWakeGateway checks a value of Config.WakeGateways.
// Code: invalid_argument.
func CheckWakeGateway(gateway string, urls wire.URLPolicy) error {
	if gateway == AnyGateway || gateway == LoopbackGateways && urls == wire.Development {
		return nil
	}
	return fault.Wrap(fault.InvalidArgument, wire.CheckRelayURL(gateway, urls))
}

func (c *Config) checkGateways() error {
	for _, g := range c.WakeGateways {
		if err := CheckWakeGateway(g, c.urls()); err != nil {
			return fault.Wrapf(fault.InvalidArgument, err, "wake gateway %.80q", g)
		}
	}
	return nil
}

func (c *Config) offersWakes() bool { return len(c.WakeGateways) > 0 }

// acceptsGateway reports whether the operator allows a gateway, a canonical
// relay URL.
func (c *Config) acceptsGateway(gateway string) bool {
	return slices.Contains(c.WakeGateways, gateway) || slices.Contains(c.WakeGateways, AnyGateway) ||
		slices.Contains(c.WakeGateways, LoopbackGateways) && isLoopback(gateway)
}

func isLoopback(gateway string) bool {
	u, err := url.Parse(gateway)
	return err == nil && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())
}

// serveSetWake is PUT /v1/wake (07#wake-hints).
func (s *Server) serveSetWake(w http.ResponseWriter, r *request) error {
	h, err := relayapi.ParseHeaders(r.Header)
	if err != nil {
		return err
	}
	body, err := s.readBody(w, r, maxWakeBody)
	if err != nil {
		return err
	}
	value, err := relayapi.ParseBody(body)
	if err != nil {
		return err
	}
	wake, err := relayapi.ParseWake(value, s.config.urls())
	if err != nil {
		return err
	}
	if !s.config.acceptsGateway(wake.Gateway) {
		return fault.New(fault.InvalidArgument, "wake.gateway: not one of this relay's")
	}
	payload := relayapi.WakePayload(wake.Gateway, wake.Token)
	if err := s.authenticated(r, h, kel.ActionWake, payload, func(c caller) error {
		return stored(s.db.SetWake(r.Context(), c.Caller, relaydb.WakeTarget(wake), s.limits().NetworkStored, r.now))
	}); err != nil {
		return err
	}
	return s.accept(w, relayapi.OK())
}

// serveDeleteWake is DELETE /v1/wake (07#wake-hints).
func (s *Server) serveDeleteWake(w http.ResponseWriter, r *request) error {
	h, err := relayapi.ParseHeaders(r.Header)
	if err != nil {
		return err
	}
	if err := s.authenticated(r, h, kel.ActionWake, relayapi.WakeDeletePayload(), func(c caller) error {
		return s.db.DeleteWake(r.Context(), c.Caller)
	}); err != nil {
		return err
	}
	return s.accept(w, relayapi.OK())
}

// wakeAfter has the recipient of an accepted packet woken if need be, after the
// answer is on its way: nothing that depends on its registration comes before
// (07#wake-hints).
func (s *Server) wakeAfter(w http.ResponseWriter, recipient string) {
	if s.waker == nil {
		return
	}
	// The client is gone when this fails, and its packet is queued all the same.
	_ = http.NewResponseController(w).Flush()
	s.waker.note(strings.Clone(recipient)) // part of the body
}

// fetches returns the time of a request that arms the caller's wake
// registration, 0 for one that does not (07#wake-hints).
func (s *Server) fetches(action string, now int64) int64 {
	if s.config.offersWakes() && slices.Contains([]string{kel.ActionInbox, kel.ActionInboxAck, kel.ActionListen}, action) {
		return now
	}
	return 0
}
