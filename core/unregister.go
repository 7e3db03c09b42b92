package core

import (
	"context"
	"errors"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/store"
)

// ErrWithdrawn is in the chain of the error, not_registered, of what needs a
// registration after [Endpoint.Unregister]. [Endpoint.Publish] ends it.
var ErrWithdrawn = errors.New("the identity was taken from its relay, and only its owner publishes it again")

// Unregister removes the identity's registration at its home relay, and with it
// the queue, the descriptor, the card record and the blocks there
// (07#registration). It holds the receive lock, and nothing but
// [Endpoint.Publish] registers the identity again. It reports false for an
// identity that the relay did not know. Codes: lock_busy, invalid_argument
// without a relay, and those of 07#client-rules.
func (e *Endpoint) Unregister(ctx context.Context) (registered bool, err error) {
	if e.config.Relay == "" {
		return false, fault.New(fault.InvalidArgument, "the identity has no relay")
	}
	release, err := e.lockReceive()
	if err != nil {
		return false, err
	}
	defer release()
	now, err := e.now()
	if err != nil {
		return false, err
	}
	// The mark comes first: a registration under way elsewhere, whose timestamp is
	// then below the barrier, has to take another one and sees it.
	before, err := e.withdraw(ctx, true)
	if err != nil {
		return false, err
	}
	registered, err = e.unregister(ctx, now)
	if err != nil {
		_, undo := e.withdraw(context.WithoutCancel(ctx), before)
		return false, errors.Join(err, undo)
	}
	return registered, e.store.Update(ctx, func(tx *store.Tx) error {
		if err := tx.AddAudit(store.Audit{At: now, Event: audit.RelayUnregistered, Relay: e.config.Relay}); err != nil {
			return err
		}
		return e.forgetPublication(tx)
	})
}

// Withdrawn reports whether the owner has unregistered the identity and not
// published it since. Code: storage_failed.
func (e *Endpoint) Withdrawn(ctx context.Context) (withdrawn bool, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		withdrawn, err = tx.Withdrawn()
		return err
	})
	return withdrawn, err
}

// withdraw marks whether the identity is taken from its relay, and returns what
// was marked before.
func (e *Endpoint) withdraw(ctx context.Context, withdrawn bool) (before bool, err error) {
	before, err = e.Withdrawn(ctx)
	if err != nil || before == withdrawn {
		return before, err
	}
	return before, e.store.Update(ctx, func(tx *store.Tx) error { return tx.SetWithdrawn(withdrawn) })
}

// errWithdrawn refuses what needs a registration.
func errWithdrawn() error { return fault.Wrap(fault.NotRegistered, ErrWithdrawn) }

// unregister asks the relay, which wants a timestamp after that of the last
// registration (07#registration), and first of all the log under which the
// request is signed.
func (e *Endpoint) unregister(ctx context.Context, now int64) (registered bool, err error) {
	err = e.tryUnregister(ctx, now)
	if !errors.Is(err, fault.NotRegistered) && e.needsRegistration(ctx, err) {
		// The registration that follows a new key did not come through.
		if _, err = e.registerWith(ctx, now, true); err == nil {
			err = e.tryUnregister(ctx, now)
		}
	}
	if errors.Is(err, fault.NotRegistered) {
		return false, nil
	}
	return err == nil, err
}

func (e *Endpoint) tryUnregister(ctx context.Context, now int64) (err error) {
	for _, ahead := range conflictSteps {
		var at int64
		if at, err = e.reserveTimestamp(ctx, now+ahead, true); err != nil {
			return err
		}
		if err = e.client.Unregister(ctx, e.config.Relay, at); remoteError(err) != string(relayapi.IdentityConflict) {
			break
		}
	}
	return err
}

// forgetPublication records that nothing stands at the home relay. The time of
// the last registration stays: the next one has to be later than the barrier.
func (e *Endpoint) forgetPublication(tx *store.Tx) error {
	last, _, err := tx.Registration(e.config.Relay)
	if err != nil {
		return err
	}
	if err := tx.SetRegistration(e.config.Relay, store.Registration{Timestamp: last.Timestamp}); err != nil {
		return err
	}
	for _, kind := range []store.DocumentKind{store.OwnDescriptor, store.OwnCard} {
		own, ok, err := tx.Own(kind)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		own.Relay = ""
		if err := tx.SetOwn(kind, own); err != nil {
			return err
		}
	}
	return nil
}
