package relaydb

import (
	"context"
	"database/sql"
)

// The operator's decisions. None of them is part of the protocol; each keeps
// what the protocol promises to the identities.

// Account is what an operator sees of an identity.
type Account struct {
	ACEID        string
	Handle       string // "" for none
	Registered   bool
	Suspended    bool
	RegisteredAt int64  // signed timestamp of the newest registration
	RetiredAt    int64  // when it unregistered, 0 while registered
	Network      string // client network it registered from
	Stored       int64  // bytes charged for what is stored of it, its queue apart
	Entries      int64  // queued with a permit
	Bytes        int64
	Strangers    int64 // queued without one
	Quota        *Quota
}

// Quota bounds the queue of one identity in place of the relay's own bounds.
type Quota struct{ Entries, Bytes int64 }

const selectAccounts = `
SELECT i.ace_id, coalesce(h.handle, ''), i.registered, i.suspended, i.registered_at, coalesce(i.retired_at, 0), i.network, i.stored,
  q.entries, q.bytes, q.strangers, u.entries, u.bytes
FROM identities i JOIN queues q ON q.identity = i.id
LEFT JOIN handles h ON h.identity = i.id LEFT JOIN quotas u ON u.identity = i.id `

func scanAccount(rows interface{ Scan(...any) error }) (Account, error) {
	var a Account
	var entries, bytes sql.NullInt64
	err := rows.Scan(&a.ACEID, &a.Handle, &a.Registered, &a.Suspended, &a.RegisteredAt, &a.RetiredAt, &a.Network, &a.Stored,
		&a.Entries, &a.Bytes, &a.Strangers, &entries, &bytes)
	if entries.Valid {
		a.Quota = &Quota{Entries: entries.Int64, Bytes: bytes.Int64}
	}
	return a, err
}

// Account returns what is known of an identity that is or was registered.
// Refusal: Unknown.
func (d *DB) Account(ctx context.Context, aceID string) (Account, error) {
	var found []Account
	err := d.each(ctx, selectAccounts+"WHERE i.ace_id = ?", []any{aceID}, func(rows *sql.Rows) (bool, error) {
		a, err := scanAccount(rows)
		found = append(found, a)
		return false, err
	})
	switch {
	case err != nil:
		return Account{}, err
	case len(found) == 0:
		return Account{}, Unknown
	}
	return found[0], nil
}

// Accounts returns at most limit identities in order of ACE ID, from the one
// that follows after.
func (d *DB) Accounts(ctx context.Context, after string, limit int) ([]Account, error) {
	var all []Account
	err := d.each(ctx, selectAccounts+"WHERE i.ace_id > ? ORDER BY i.ace_id LIMIT ?", []any{after, limit},
		func(rows *sql.Rows) (bool, error) {
			a, err := scanAccount(rows)
			all = append(all, a)
			return true, err
		})
	return all, err
}

// Suspend sets or lifts an identity's suspension. Refusal: Unknown.
func (d *DB) Suspend(ctx context.Context, aceID string, suspended bool) error {
	return d.write(ctx, func(t *tx) error {
		var id int64
		ok, err := t.row("UPDATE identities SET suspended = ? WHERE ace_id = ? RETURNING id", []any{suspended, aceID}, &id)
		switch {
		case err != nil:
			return err
		case !ok:
			return Unknown
		}
		return t.relist(id)
	})
}

// Purge ends an identity's registration as its own unregister at now would,
// and deletes the same. Refusals: Unknown, NotRegistered.
func (d *DB) Purge(ctx context.Context, aceID string, now int64) error {
	return d.write(ctx, func(t *tx) error {
		var id, registeredAt int64
		var registered bool
		ok, err := t.row("SELECT id, registered, registered_at FROM identities WHERE ace_id = ?", []any{aceID}, &id, &registered, &registeredAt)
		switch {
		case err != nil:
			return err
		case !ok:
			return Unknown
		case !registered:
			return NotRegistered
		}
		// The barrier is above every registration that was accepted, or one of
		// them could be played back.
		return t.retire(id, max(now, registeredAt), now)
	})
}

// SetQuota bounds the queue of an identity; nil gives it the relay's bounds
// again. What is queued stays. Refusal: Unknown.
func (d *DB) SetQuota(ctx context.Context, aceID string, q *Quota) error {
	return d.write(ctx, func(t *tx) error {
		var id int64
		ok, err := t.row("SELECT id FROM identities WHERE ace_id = ?", []any{aceID}, &id)
		switch {
		case err != nil:
			return err
		case !ok:
			return Unknown
		case q == nil:
			_, err = t.exec("DELETE FROM quotas WHERE identity = ?", id)
			return err
		}
		_, err = t.exec(`
INSERT INTO quotas (identity, entries, bytes) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET entries = excluded.entries, bytes = excluded.bytes`, id, q.Entries, q.Bytes)
		return err
	})
}

// Handle is a handle that is bound or reserved.
type Handle struct {
	Handle string
	ACEID  string // of the identity it is bound to, "" for a reservation
	At     int64  // when it was bound or reserved
}

// Handles returns at most limit bound and reserved handles in order, from the
// one that follows after.
func (d *DB) Handles(ctx context.Context, after string, limit int) ([]Handle, error) {
	var all []Handle
	err := d.each(ctx, `
SELECT * FROM (
  SELECT h.handle, i.ace_id, h.bound_at FROM handles h JOIN identities i ON i.id = h.identity
  UNION ALL SELECT handle, '', at FROM reserved_handles)
WHERE handle > ? ORDER BY handle LIMIT ?`, []any{after, limit}, func(rows *sql.Rows) (bool, error) {
		var h Handle
		err := rows.Scan(&h.Handle, &h.ACEID, &h.At)
		all = append(all, h)
		return true, err
	})
	return all, err
}

// Reserve keeps every handle of a skeleton from being claimed from now on. One
// that is bound stays bound. Refusal: Taken, when it is bound already.
func (d *DB) Reserve(ctx context.Context, handle, skeleton string, now int64) error {
	return d.write(ctx, func(t *tx) error {
		var bound bool
		if _, err := t.row("SELECT EXISTS (SELECT 1 FROM handles WHERE skeleton = ?)", []any{skeleton}, &bound); err != nil {
			return err
		}
		if bound {
			return Taken
		}
		_, err := t.exec("INSERT INTO reserved_handles (skeleton, handle, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", skeleton, handle, now)
		return err
	})
}

// Release lifts the reservation of a skeleton. Refusal: Unknown.
func (d *DB) Release(ctx context.Context, skeleton string) error {
	return d.write(ctx, func(t *tx) error {
		n, err := t.exec("DELETE FROM reserved_handles WHERE skeleton = ?", skeleton)
		if err == nil && n == 0 {
			err = Unknown
		}
		return err
	})
}
