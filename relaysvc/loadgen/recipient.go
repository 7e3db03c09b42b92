package loadgen

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// recipient is an identity that exists for the time of the load. Its keys are
// in memory alone.
type recipient struct {
	id         *kel.Identity
	registered bool
}

func newRecipient(now int64) (*recipient, error) {
	root, next, signing := newKey(), newKey(), newKey()
	state, err := kel.Incept(root, kel.Commitment(wire.SchemeMLDSA65, next.PublicKey()), now)
	if err != nil {
		return nil, err
	}
	state, err = state.Delegate(root, signing.PublicKey(), now, 0)
	if err != nil {
		return nil, err
	}
	return &recipient{id: kel.NewIdentity(state, signing)}, nil
}

func newKey() *suite.SigningKey { return suite.NewSigningKey(suite.NewSeed()) }

// client returns a client that signs for the recipient, for one request or two.
func (r *recipient) client(relay string) *relayclient.Client {
	return relayclient.New(relayclient.Config{Identity: r.id, URLs: wire.Development, Configured: []string{relay}})
}

// register sees the request through even when ctx ends: one that is given up
// might be accepted after the recipient has unregistered.
func (r *recipient) register(ctx context.Context, relay string, now int64) error {
	c := r.client(relay)
	defer c.Close()
	_, err := c.Register(context.WithoutCancel(ctx), relay, now)
	var refused *fault.Error
	r.registered = !errors.As(err, &refused) || refused.Status == 0 // as far as is known
	return err
}

func (r *recipient) unregister(ctx context.Context, relay string, now int64) error {
	if !r.registered {
		return nil
	}
	c := r.client(relay)
	defer c.Close()
	if err := c.Unregister(ctx, relay, now); err != nil && !errors.Is(err, fault.NotRegistered) {
		return err
	}
	r.registered = false
	return nil
}
