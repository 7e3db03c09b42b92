package relaydb

import (
	"context"
	"database/sql"

	"github.com/ace-toolkit/ace/core/wire"
)

// A wake registration is armed by its storing and by every request with which
// its endpoint fetches, and disarmed by the wake that it is then due. What is
// due is a row as well, so that a restart drops none (07#wake-hints).

// WakeTarget is where the wakes of an identity go.
type WakeTarget struct{ Gateway, Token string }

// SetWake stores the caller's wake registration in place of an older one, and
// arms it. The network it registered from may store budget bytes (0: any
// number). Refusals: Changed, Replayed, OverBudget.
func (d *DB) SetWake(ctx context.Context, c Caller, w WakeTarget, budget, now int64) error {
	return d.write(ctx, func(t *tx) error {
		id, err := t.admit(c)
		if err != nil {
			return err
		}
		size := len(w.Gateway) + len(w.Token)
		if err := t.replace(id, "SELECT length(gateway) + length(token) FROM wakes WHERE identity = ?", size, budget); err != nil {
			return err
		}
		// A wake that is due stays so, and the time of the last one stays.
		_, err = t.exec(`
INSERT INTO wakes (identity, gateway, token, armed, armed_seq, used_at)
SELECT ?, ?, ?, 1, last_seq, ? FROM queues WHERE identity = ?
ON CONFLICT DO UPDATE SET gateway = excluded.gateway, token = excluded.token, armed = 1, armed_seq = excluded.armed_seq,
  used_at = max(used_at, excluded.used_at)`,
			id, w.Gateway, w.Token, now, id)
		return err
	})
}

// DeleteWake removes the caller's wake registration, if there is one.
// Refusals: Changed, Replayed.
func (d *DB) DeleteWake(ctx context.Context, c Caller) error {
	return d.write(ctx, func(t *tx) error {
		id, err := t.admit(c)
		if err != nil {
			return err
		}
		return t.dropWake(id)
	})
}

func (t *tx) dropWake(id int64) error {
	if _, err := t.exec("DELETE FROM wakes WHERE identity = ?", id); err != nil {
		return err
	}
	return t.settle(id)
}

// rearm arms the wake registration of an identity that fetches at now, and
// keeps it alive. There may be none.
func (t *tx) rearm(id, now int64) error {
	_, err := t.exec(`
UPDATE wakes SET armed = 1, armed_seq = (SELECT last_seq FROM queues q WHERE q.identity = wakes.identity), used_at = max(used_at, ?)
WHERE identity = ? AND used_at > ?`, now, id, now-wire.OfflineWindowSeconds)
	return err
}

const selectUnwoken = `
SELECT i.ace_id FROM identities i JOIN wakes w ON w.identity = i.id JOIN queues q ON q.identity = i.id
WHERE w.armed = 1 AND q.last_seq > w.armed_seq AND w.used_at > ?`

// armedSample bounds the registrations that are looked at to find that none is
// armed. A relay that has more answers for each identity.
const armedSample = 100

// selectArmed tells whether a registration may be armed: one of the sample is,
// or there are others.
const selectArmed = "SELECT coalesce(max(armed), 0) OR count(*) > ? FROM (SELECT armed FROM wakes LIMIT ?)"

// Unwoken returns those of the given identities, or of all when there are none,
// whose wake registration is armed although an entry was queued since.
func (d *DB) Unwoken(ctx context.Context, aceIDs []string, now int64) ([]string, error) {
	var unwoken []string
	collect := func(rows *sql.Rows) (bool, error) {
		var aceID string
		err := rows.Scan(&aceID)
		unwoken = append(unwoken, aceID)
		return true, err
	}
	alive := now - wire.OfflineWindowSeconds
	if len(aceIDs) == 0 {
		return unwoken, d.each(ctx, selectUnwoken, []any{alive}, collect)
	}
	var armed bool
	if _, err := d.read(ctx, selectArmed, []any{armedSample, armedSample + 1}, &armed); err != nil || !armed {
		return nil, err
	}
	for _, aceID := range aceIDs {
		if err := d.each(ctx, selectUnwoken+" AND i.ace_id = ?", []any{alive, aceID}, collect); err != nil {
			return nil, err
		}
	}
	return unwoken, nil
}

// Disarm makes a wake due for each of the given identities whose wake
// registration is armed although an entry was queued since: at now, or interval
// seconds after the last one.
func (d *DB) Disarm(ctx context.Context, aceIDs []string, now, interval int64) error {
	return d.write(ctx, func(t *tx) error {
		for _, aceID := range aceIDs {
			// A clock that was set back defers by one interval at most.
			if _, err := t.exec(`
UPDATE wakes SET armed = 0, serial = serial + 1, due_at = min(max(?, woken_at + ?), ? + ?)
WHERE identity = (SELECT id FROM identities WHERE ace_id = ?) AND armed = 1 AND used_at > ?
  AND armed_seq < (SELECT last_seq FROM queues q WHERE q.identity = wakes.identity)`,
				now, interval, now, interval, aceID, now-wire.OfflineWindowSeconds); err != nil {
				return err
			}
		}
		return nil
	})
}

// Wake is a wake that is due.
type Wake struct {
	WakeTarget
	DueAt int64

	identity, serial int64
}

// Key tells the registrations of different identities apart.
func (w Wake) Key() int64 { return w.identity }

const selectDueWakes = `
SELECT gateway, token, due_at, identity, serial FROM wakes
WHERE due_at IS NOT NULL AND used_at > ? ORDER BY due_at LIMIT ?`

// DueWakes returns at most limit wakes that are or will be due, the earliest
// first, of registrations that have not expired at now.
func (d *DB) DueWakes(ctx context.Context, now, limit int64) ([]Wake, error) {
	var due []Wake
	err := d.each(ctx, selectDueWakes, []any{now - wire.OfflineWindowSeconds, limit},
		func(rows *sql.Rows) (bool, error) {
			var w Wake
			err := rows.Scan(&w.Gateway, &w.Token, &w.DueAt, &w.identity, &w.serial)
			due = append(due, w)
			return true, err
		})
	return due, err
}

// WakeSent notes that w was sent at a time. One that became due meanwhile is
// deferred to interval seconds after that.
func (d *DB) WakeSent(ctx context.Context, w Wake, at, interval int64) error {
	return d.write(ctx, func(t *tx) error {
		_, err := t.exec(`
UPDATE wakes SET woken_at = ?, due_at = CASE WHEN serial <> ? THEN max(due_at, ?) END WHERE identity = ?`,
			at, w.serial, at+interval, w.identity)
		return err
	})
}

// ForgetWake deletes the registration that w was sent for, whose token the
// gateway does not know. One with another token stays.
func (d *DB) ForgetWake(ctx context.Context, w Wake) error {
	return d.write(ctx, func(t *tx) error {
		var same bool
		if _, err := t.row("SELECT EXISTS (SELECT 1 FROM wakes WHERE identity = ? AND gateway = ? AND token = ?)",
			[]any{w.identity, w.Gateway, w.Token}, &same); err != nil || !same {
			return err
		}
		return t.dropWake(w.identity)
	})
}

// releaseWakes deletes the registrations whose endpoint has not asked for
// anything for OFFLINE_WINDOW_SECONDS.
func (d *DB) releaseWakes(ctx context.Context, now int64) error {
	return d.release(ctx, selectUnusedWake, now-wire.OfflineWindowSeconds, (*tx).dropWake)
}
