package relaydb

import (
	"context"

	"github.com/ace-toolkit/ace/core/wire"
)

// What is left of an identity that unregistered is its row in identities, with
// the barrier, the epoch start and the last event, and its rows in descriptors
// and cards, with issuedAt and claims of the newest ones. They have a fixed
// size and stay for good. The KEL stays for OFFLINE_WINDOW_SECONDS
// (07#registration).

// releaseBatch bounds what one transaction of a sweep deletes, some of it of a
// megabyte.
const releaseBatch = 32

const (
	selectRetiredKEL        = "SELECT id FROM identities WHERE retired_at IS NOT NULL AND retired_at <= ? AND kel_kept = 1 LIMIT 1"
	selectExpiredDescriptor = "SELECT identity FROM descriptors WHERE expires_at <= ? AND agent IS NOT NULL LIMIT 1"
	selectUnusedWake        = "SELECT identity FROM wakes WHERE used_at <= ? LIMIT 1"
)

// releaseExpired deletes what identities no longer have a claim to at now: the
// KELs of those that unregistered, descriptors, wake registrations and packets
// that were put aside.
func (d *DB) releaseExpired(ctx context.Context, now int64) error {
	for _, release := range []func(context.Context, int64) error{d.releaseKELs, d.releaseDescriptors, d.releaseWakes, d.releaseQuarantine} {
		if err := release(ctx, now); err != nil {
			return err
		}
	}
	return nil
}

// releaseKELs deletes the KELs of identities that unregistered
// OFFLINE_WINDOW_SECONDS ago.
func (d *DB) releaseKELs(ctx context.Context, now int64) error {
	return d.release(ctx, selectRetiredKEL, now-wire.OfflineWindowSeconds, (*tx).releaseKEL)
}

func (t *tx) releaseKEL(id int64) error {
	if _, err := t.exec("DELETE FROM kels WHERE identity = ?", id); err != nil {
		return err
	}
	if _, err := t.exec("UPDATE identities SET kel_kept = 0 WHERE id = ?", id); err != nil {
		return err
	}
	return t.settle(id)
}

// releaseDescriptors deletes descriptors that have expired. They count no more
// by themselves; this gives their bytes back and takes them from the directory.
func (d *DB) releaseDescriptors(ctx context.Context, now int64) error {
	return d.release(ctx, selectExpiredDescriptor, now, (*tx).releaseDescriptor)
}

func (t *tx) releaseDescriptor(id int64) error {
	if _, err := t.exec("UPDATE descriptors SET agent = NULL WHERE identity = ?", id); err != nil {
		return err
	}
	if _, err := t.exec("DELETE FROM descriptor_profiles WHERE identity = ?", id); err != nil {
		return err
	}
	if err := t.relist(id); err != nil {
		return err
	}
	return t.settle(id)
}

// release calls one for every identity that query finds with the time, a batch
// in a transaction. What was called for is found no more.
func (d *DB) release(ctx context.Context, query string, time int64, one func(t *tx, id int64) error) error {
	for more := true; more; {
		if err := d.write(ctx, func(t *tx) error {
			for range releaseBatch {
				var id int64
				var err error
				if more, err = t.row(query, []any{time}, &id); err != nil || !more {
					return err
				}
				if err := one(t, id); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
