package core

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// SetWake has the home relay tell a gateway when the identity's queue there has
// entries, so that an endpoint that is not running can be woken to fetch them.
// token is what the gateway issued for this endpoint: 22 to 512 letters, digits,
// "_" and "-". It replaces an earlier registration, and ends with the identity's
// registration or after seven days without a fetch. Delivery does not depend on
// it (07#wake-hints).
// Codes: invalid_argument; relay_rejected, with not_found where the relay does
// not offer wake hints; and those of 07#client-rules.
func (e *Endpoint) SetWake(ctx context.Context, gateway, token string) error {
	wake, err := relayapi.NewWake(gateway, token, e.urls)
	if err != nil {
		return err
	}
	return e.atHome(ctx, func(now int64) error {
		return e.onceRegistered(ctx, now, func() error { return e.client.SetWake(ctx, e.config.Relay, wake, now) })
	})
}

// ClearWake removes the registration that SetWake made, if there is one. Codes
// as for SetWake.
func (e *Endpoint) ClearWake(ctx context.Context) error {
	return e.atHome(ctx, func(now int64) error {
		err := e.client.DeleteWake(ctx, e.config.Relay, now)
		if errors.Is(err, fault.NotRegistered) {
			return nil // and has no wake
		}
		return err
	})
}

// atHome runs a request to the home relay.
func (e *Endpoint) atHome(ctx context.Context, f func(now int64) error) error {
	if e.config.Relay == "" {
		return fault.New(fault.InvalidArgument, "the identity has no relay")
	}
	now, err := e.now()
	if err != nil {
		return err
	}
	return f(now)
}
