package relaydb

import (
	"context"

	"github.com/ace-toolkit/ace/core/wire"
)

// quarantine puts an entry aside whose packet is not the one that was queued.
// Where the store does not even let that happen, the entry stays and is found
// again by who reads next: it is served to nobody either way.
func (d *DB) quarantine(ctx context.Context, b damage, now int64) {
	d.damaged(b.reason)
	_ = d.write(ctx, func(t *tx) error {
		victims, _, err := t.victims(removeQuery("identity = ? AND generation = ? AND seq = ?"), b.identity, b.generation, b.seq)
		if err != nil || len(victims) == 0 {
			return err // acknowledged meanwhile
		}
		return t.dropAll(victims, func(v victim) error { return t.putAside(v, now, b.reason) })
	})
}

// putAside keeps the body of an entry for the operator: out of the packet log,
// whose segments go, and where it is when it is in the database, whose pages
// may be damaged.
func (t *tx) putAside(v victim, now int64, reason string) (err error) {
	if v.place >= 0 {
		if v.body, err = t.copyBody(v); err != nil {
			return err
		}
		if err := t.eraseLater(v); err != nil {
			return err
		}
	}
	_, err = t.exec("INSERT INTO quarantine (identity, generation, seq, at, reason, body) VALUES (?, ?, ?, ?, ?, ?)",
		v.identity, v.generation, v.seq, now, reason, v.body)
	return err
}

// selectOldQuarantine leaves out what cannot be deleted.
const selectOldQuarantine = "SELECT id FROM quarantine WHERE at <= ? AND reason <> '" + damagedPages + "' LIMIT 1"

// releaseQuarantine deletes packets that were put aside OFFLINE_WINDOW_SECONDS
// ago, when they would have expired at the latest: nobody asks for them any more.
func (d *DB) releaseQuarantine(ctx context.Context, now int64) error {
	return d.release(ctx, selectOldQuarantine, now-wire.OfflineWindowSeconds, (*tx).dropQuarantined)
}

// dropQuarantined deletes a packet that was put aside, or keeps it as one whose
// pages are damaged, too.
func (t *tx) dropQuarantined(id int64) error {
	var body int64
	if _, err := t.row("SELECT body FROM quarantine WHERE id = ?", []any{id}, &body); err != nil {
		return err
	}
	if t.damaged[body] {
		_, err := t.exec("UPDATE quarantine SET reason = ? WHERE id = ?", damagedPages, id)
		return err
	}
	if _, err := t.exec("DELETE FROM bodies WHERE id = ?", body); isCorrupt(err) {
		return &damagedBody{err, body}
	} else if err != nil {
		return err
	}
	_, err := t.exec("DELETE FROM quarantine WHERE id = ?", id)
	return err
}
