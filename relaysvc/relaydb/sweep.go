package relaydb

import (
	"context"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

// sweepBatch bounds the nonces that one transaction forgets.
const sweepBatch = 1000

const (
	selectExpired = `
SELECT identity, generation, seq, size, body, stranger, coalesce(place, -1) FROM entries WHERE stranger = ? AND expires_at <= ? ORDER BY expires_at LIMIT 128`
	deleteNonces = `
DELETE FROM nonces WHERE (identity, nonce) IN (SELECT identity, nonce FROM nonces WHERE expires_at < ? LIMIT 1000)`
)

// Sweep deletes what has expired, of queues that nobody sends to as well, and
// has what was deleted erased: it is then in none of the files, unless a reader
// was in the way for long or it had not reached the disk yet, when that is left
// to the background.
// It looks at nothing else, and takes a transaction for each batch, so that
// nobody waits for the whole.
//
// A clock that jumped ahead makes it forget nothing early: see [Options].
func (d *DB) Sweep(ctx context.Context, now int64) error {
	now = d.passed(now)
	if err := d.sweepNonces(ctx, now); err != nil {
		return err
	}
	for _, stranger := range []bool{false, true} {
		if err := d.sweepEntries(ctx, stranger, now); err != nil {
			return err
		}
	}
	if err := d.releaseExpired(ctx, now); err != nil {
		return err
	}
	if err := d.eraser.flush(ctx); err != nil {
		return err
	}
	return d.keeper.erase(ctx)
}

func (d *DB) sweepNonces(ctx context.Context, now int64) error {
	for {
		var n int64
		if err := d.write(ctx, func(t *tx) error {
			var err error
			n, err = t.exec(deleteNonces, now)
			return err
		}); err != nil || n < sweepBatch {
			return err
		}
	}
}

func (d *DB) sweepEntries(ctx context.Context, stranger bool, now int64) error {
	for {
		var more bool
		if err := d.write(ctx, func(t *tx) error {
			var victims []victim
			var err error
			if victims, more, err = t.victims(selectExpired, stranger, now); err != nil {
				return err
			}
			failpoint.Here(failpoint.Sweep)
			return t.drop(victims)
		}); err != nil || !more {
			return err
		}
	}
}

// passed returns the time by which the store forgets: now, unless that is
// ahead of what has passed since it was opened.
func (d *DB) passed(now int64) int64 {
	if d.options.Elapsed == nil {
		return now
	}
	return min(now, d.opened+d.options.Elapsed()-d.elapsed)
}
