package relaydb

import (
	"context"
	"database/sql"
)

// Identity is what the store says of an identity, without its KEL.
type Identity struct {
	Registered bool
	// Incarnation grows when the identity registers anew, rotates or
	// unregisters. A decision that looked at one incarnation does not hold
	// for the next.
	Incarnation int64
	Timestamp   int64  // of the newest accepted registration
	Digest      string // hex SHA-256 of its M
	Barrier     int64  // timestamp of the newest accepted unregister, -1 for none
	KELEnd      string // hash of the last event of the KEL
}

const selectIdentity = `
SELECT registered, incarnation, registered_at, digest, coalesce(barrier, -1), kel_end
FROM identities WHERE ace_id = ?`

func (i *Identity) fields() []any {
	return []any{&i.Registered, &i.Incarnation, &i.Timestamp, &i.Digest, &i.Barrier, &i.KELEnd}
}

// Identity returns what is known of an identity that is or was registered. For
// one never seen it refuses with NotRegistered.
func (d *DB) Identity(ctx context.Context, aceID string) (Identity, error) {
	var i Identity
	ok, err := d.read(ctx, selectIdentity, []any{aceID}, i.fields()...)
	if err == nil && !ok {
		err = NotRegistered
	}
	return i, err
}

// KEL returns the canonical JSON of an identity's KEL, which is kept after
// unregister. It refuses with Changed when the KEL does not end in kelEnd.
func (d *DB) KEL(ctx context.Context, aceID, kelEnd string) ([]byte, error) {
	var log []byte
	ok, err := d.read(ctx, `
SELECT k.log FROM identities i JOIN kels k ON k.identity = i.id
WHERE i.ace_id = ? AND i.kel_end = ?`, []any{aceID, kelEnd}, &log)
	if err == nil && !ok {
		err = Changed
	}
	return log, err
}

// Registration is an accepted registration to store.
type Registration struct {
	ACEID     string
	Timestamp int64
	Digest    string // hex SHA-256 of its M
	KELEnd    string
	KEL       []byte // canonical JSON
	Network   string // client network of the request
}

// Register stores r with its KEL. The decision was made against seen, nil for
// an identity never seen; it is refused with Changed when the store says
// something else by now.
func (d *DB) Register(ctx context.Context, r Registration, seen *Identity) error {
	return d.write(ctx, func(t *tx) error {
		if seen == nil {
			return t.insertIdentity(r)
		}
		return t.updateIdentity(r, *seen)
	})
}

func (t *tx) insertIdentity(r Registration) error {
	n, err := t.exec(`
INSERT INTO identities (ace_id, registered, incarnation, registered_at, digest, kel_end, network)
VALUES (?, 1, 1, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		r.ACEID, r.Timestamp, r.Digest, r.KELEnd, r.Network)
	switch {
	case err != nil:
		return err
	case n == 0:
		return Changed
	}
	if _, err := t.exec(`
INSERT INTO kels (identity, log) SELECT id, ? FROM identities WHERE ace_id = ?`, r.KEL, r.ACEID); err != nil {
		return err
	}
	_, err = t.exec(`
INSERT INTO queues (identity, last_seq, entries, bytes) SELECT id, 0, 0, 0 FROM identities WHERE ace_id = ?`, r.ACEID)
	return err
}

func (t *tx) updateIdentity(r Registration, seen Identity) error {
	var now Identity
	if _, err := t.row(selectIdentity, []any{r.ACEID}, now.fields()...); err != nil {
		return err
	}
	if now != seen {
		return Changed
	}
	// A refreshed registration changes nothing that another decision rests on.
	refreshed := seen.Registered && seen.KELEnd == r.KELEnd
	if refreshed {
		_, err := t.exec("UPDATE identities SET registered_at = ?, digest = ? WHERE ace_id = ?",
			r.Timestamp, r.Digest, r.ACEID)
		return err
	}
	if _, err := t.exec(`
UPDATE identities SET registered = 1, incarnation = incarnation + 1, registered_at = ?, digest = ?, kel_end = ?,
       retired_at = NULL, network = CASE WHEN registered THEN network ELSE ? END
WHERE ace_id = ?`, r.Timestamp, r.Digest, r.KELEnd, r.Network, r.ACEID); err != nil {
		return err
	}
	if seen.KELEnd == r.KELEnd {
		return nil
	}
	_, err := t.exec(`
UPDATE kels SET log = ? WHERE identity = (SELECT id FROM identities WHERE ace_id = ?)`, r.KEL, r.ACEID)
	return err
}

// Unregister ends the registration that seen describes, and with it the queue,
// the documents and the blocks; the KEL, the bounds on later documents, the
// handle and the spent nonces stay. The timestamp becomes the barrier.
// Refusals: Changed, Replayed.
func (d *DB) Unregister(ctx context.Context, c Caller, seen Identity, timestamp, now int64) error {
	return d.write(ctx, func(t *tx) error {
		var stored Identity
		if _, err := t.row(selectIdentity, []any{c.ACEID}, stored.fields()...); err != nil {
			return err
		}
		if stored != seen {
			return Changed
		}
		id, err := t.admit(c)
		if err != nil {
			return err
		}
		return t.retire(id, timestamp, now)
	})
}

func (t *tx) retire(id, barrier, now int64) error {
	if _, err := t.exec(`
UPDATE identities SET registered = 0, incarnation = incarnation + 1, barrier = ?, retired_at = ?
WHERE id = ?`, barrier, now, id); err != nil {
		return err
	}
	for _, query := range []string{
		"DELETE FROM entries WHERE identity = ?",
		"UPDATE queues SET entries = 0, bytes = 0 WHERE identity = ?",
		"UPDATE descriptors SET agent = NULL WHERE identity = ?",
		"DELETE FROM descriptor_profiles WHERE identity = ?",
		"UPDATE cards SET bundle = NULL, listing = NULL WHERE identity = ?",
		"DELETE FROM card_tags WHERE identity = ?",
		"DELETE FROM blocks WHERE identity = ?",
	} {
		if _, err := t.exec(query, id); err != nil {
			return err
		}
	}
	return nil
}

// Caller is an authenticated request whose signature was checked against the
// given incarnation.
type Caller struct {
	ACEID       string
	Incarnation int64
	Nonce       string
	Forget      int64 // the nonce may be forgotten after this time
}

// Spend reserves the caller's nonce. Refusals: Changed, Replayed.
func (d *DB) Spend(ctx context.Context, c Caller) error {
	return d.write(ctx, func(t *tx) error {
		_, err := t.admit(c)
		return err
	})
}

// admit reserves the caller's nonce and returns its row.
func (t *tx) admit(c Caller) (int64, error) {
	var id int64
	ok, err := t.row(`
SELECT id FROM identities WHERE ace_id = ? AND registered = 1 AND incarnation = ?`, []any{c.ACEID, c.Incarnation}, &id)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 0, Changed
	}
	n, err := t.exec(`
INSERT INTO nonces (identity, nonce, expires_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, id, c.Nonce, c.Forget)
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, Replayed
	}
	return id, nil
}

// Block is a block decision of the caller.
type Block struct {
	Peer     string
	Blocked  bool
	Revision int64
}

// Block stores b unless the caller tracks peersMax peers already. Refusals:
// Changed, Replayed, OldRevision, TooManyPeers.
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

// registered returns the row of a registered identity whose KEL ends in
// kelEnd. Refusals: NotRegistered, OtherKEL.
func (t *tx) registered(aceID, kelEnd string) (int64, error) {
	var id int64
	var same bool
	ok, err := t.row(`
SELECT id, kel_end = ? FROM identities WHERE ace_id = ? AND registered = 1`, []any{kelEnd, aceID}, &id, &same)
	switch {
	case err != nil:
		return 0, err
	case !ok:
		return 0, NotRegistered
	case !same:
		return 0, OtherKEL
	}
	return id, nil
}

// nullable is the SQL null for an empty text.
func nullable(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }
