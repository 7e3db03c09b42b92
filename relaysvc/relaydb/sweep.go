package relaydb

import (
	"context"
	"database/sql"
)

// Sweep deletes the entries and nonces whose time is over, of queues that
// nobody sends to as well, and empties the write-ahead log: what was deleted
// is then in none of the files. It takes a transaction for each queue, so that
// nobody waits for the whole.
func (d *DB) Sweep(ctx context.Context, now int64) error {
	if err := d.write(ctx, func(t *tx) error {
		_, err := t.exec("DELETE FROM nonces WHERE expires_at < ?", now)
		return err
	}); err != nil {
		return err
	}
	var queues []int64
	if err := d.each(ctx, "SELECT DISTINCT identity FROM entries WHERE expires_at <= ?", []any{now},
		func(rows *sql.Rows) (bool, error) {
			var id int64
			err := rows.Scan(&id)
			queues = append(queues, id)
			return true, err
		}); err != nil {
		return err
	}
	for _, id := range queues {
		if err := d.write(ctx, func(t *tx) error { return t.expire(id, now) }); err != nil {
			return err
		}
	}
	var busy, pages, moved int64
	_, err := d.read(ctx, "PRAGMA wal_checkpoint(TRUNCATE)", nil, &busy, &pages, &moved)
	return err
}
