package cli

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/fault"
)

// echoName is the petname of the echo agent of a development relay.
const echoName = "echo"

// nameEcho gives the echo agent of the development relay that s is at its
// petname. The next relay has another echo agent, and the name goes over to it,
// but never away from a peer whom its owner gave that name.
func (a *app) nameEcho(ctx context.Context, s *session) error {
	if !s.id.settings.Dev {
		return nil
	}
	echo := a.echoAt(s.relay)
	if echo == "" || echo == s.id.settings.Echo {
		return nil
	}
	named, err := s.Resolve(ctx, echoName)
	switch {
	case errors.Is(err, fault.UnknownPeer):
	case err != nil:
		return err
	case named != s.id.settings.Echo:
		return nil
	default:
		if err := s.SetName(ctx, named, ""); err != nil {
			return err
		}
	}
	if err := s.SetName(ctx, echo, echoName); err != nil {
		return err
	}
	return a.changeSettings(s.id, func(s *settings) error {
		s.Echo = echo
		return nil
	})
}

// echoAt returns the ACE ID of the echo agent at a development relay of this
// user, "" when there is none to know of.
func (a *app) echoAt(relay string) string {
	relays, err := a.devRelays()
	if err != nil {
		return "" // who needs the relay is told
	}
	for _, d := range relays {
		if d.URL == relay {
			return d.Echo
		}
	}
	return ""
}
