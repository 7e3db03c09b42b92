package relaydb

import "context"

// Block is a block decision of the caller.
type Block struct {
	Peer     string
	Blocked  bool
	Revision int64
}

// Block stores b unless the caller tracks peersMax peers already. A peer that
// is blocked no more is tracked as well, for its revision. Refusals: Changed,
// Replayed, OldRevision, TooManyPeers.
func (d *DB) Block(ctx context.Context, c Caller, b Block, peersMax int) error {
	return d.write(ctx, func(t *tx) error {
		id, err := t.admit(c)
		if err != nil {
			return err
		}
		var revision, peers int64
		known, err := t.row("SELECT revision FROM blocks WHERE identity = ? AND peer = ?", []any{id, b.Peer}, &revision)
		if err != nil {
			return err
		}
		if known && b.Revision <= revision {
			return OldRevision
		}
		if _, err := t.row("SELECT count(*) FROM blocks WHERE identity = ?", []any{id}, &peers); err != nil {
			return err
		}
		if !known && peers >= int64(peersMax) {
			return TooManyPeers
		}
		_, err = t.exec(`
INSERT INTO blocks (identity, peer, blocked, revision) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET blocked = excluded.blocked, revision = excluded.revision`, id, b.Peer, b.Blocked, b.Revision)
		return err
	})
}
