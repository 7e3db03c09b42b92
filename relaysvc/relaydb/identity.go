package relaydb

import (
	"context"

	"github.com/ace-toolkit/ace/internal/failpoint"
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
	EndSeq      int64  // seq of that event
	EpochSeq    int64  // seq of the KEL's last icp or rot
	EpochHash   string // hash of that event
	KELKept     bool   // false once the KEL of an unregistered identity is deleted
}

const selectIdentity = `
SELECT registered, incarnation, registered_at, digest, coalesce(barrier, -1), kel_end, end_seq, epoch_seq, epoch_hash, kel_kept
FROM identities WHERE ace_id = ?`

func (i *Identity) fields() []any {
	return []any{
		&i.Registered, &i.Incarnation, &i.Timestamp, &i.Digest, &i.Barrier,
		&i.KELEnd, &i.EndSeq, &i.EpochSeq, &i.EpochHash, &i.KELKept,
	}
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

// KEL returns the canonical JSON of an identity's KEL, which is kept for a while
// after unregister. It refuses with Changed when the KEL does not end in kelEnd
// or is deleted.
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
	EndSeq    int64
	EpochSeq  int64
	EpochHash string
	KEL       []byte // canonical JSON
	Network   string // client network of the request
	Budget    int64  // bytes that may be stored for that network; 0 for any number
}

// Register stores r with its KEL. The decision was made against seen, nil for
// an identity never seen; it is refused with Changed when the store says
// something else by now, and with OverBudget when the network has no room.
func (d *DB) Register(ctx context.Context, r Registration, seen *Identity) error {
	return d.write(ctx, func(t *tx) error {
		if seen == nil {
			return t.insertIdentity(r)
		}
		return t.updateIdentity(r, *seen)
	})
}

func (t *tx) insertIdentity(r Registration) error {
	var known bool
	if _, err := t.row("SELECT EXISTS (SELECT 1 FROM identities WHERE ace_id = ?)", []any{r.ACEID}, &known); err != nil {
		return err
	}
	if known {
		return Changed
	}
	stored := horizonBytes + int64(len(r.KEL))
	if err := t.chargeNetwork(r.Network, stored, r.Budget); err != nil {
		return err
	}
	if _, err := t.exec(`
INSERT INTO identities (ace_id, registered, incarnation, registered_at, digest, kel_end, end_seq, epoch_seq, epoch_hash, network, stored)
VALUES (?, 1, 1, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.ACEID, r.Timestamp, r.Digest, r.KELEnd, r.EndSeq, r.EpochSeq, r.EpochHash, r.Network, stored); err != nil {
		return err
	}
	if _, err := t.exec(`
INSERT INTO kels (identity, log) SELECT id, ? FROM identities WHERE ace_id = ?`, r.KEL, r.ACEID); err != nil {
		return err
	}
	failpoint.Here(failpoint.Register)
	_, err := t.exec(`
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
	if seen.Registered && seen.KELEnd == r.KELEnd {
		_, err := t.exec("UPDATE identities SET registered_at = ?, digest = ? WHERE ace_id = ?",
			r.Timestamp, r.Digest, r.ACEID)
		return err
	}
	id, err := t.chargeRegistration(r, seen.Registered)
	if err != nil {
		return err
	}
	if _, err := t.exec(`
UPDATE identities SET registered = 1, incarnation = incarnation + 1, registered_at = ?, digest = ?,
  kel_end = ?, end_seq = ?, epoch_seq = ?, epoch_hash = ?, retired_at = NULL, kel_kept = 1 WHERE id = ?`,
		r.Timestamp, r.Digest, r.KELEnd, r.EndSeq, r.EpochSeq, r.EpochHash, id); err != nil {
		return err
	}
	failpoint.Here(failpoint.Register)
	if _, err := t.exec(`
INSERT INTO kels (identity, log) VALUES (?, ?) ON CONFLICT DO UPDATE SET log = excluded.log`, id, r.KEL); err != nil {
		return err
	}
	// Documents of the earlier KEL count no more.
	return t.relist(id)
}

// chargeRegistration charges an identity for its new KEL and returns its row.
// One that unregistered is charged to the network of r from here on, with its
// horizon; one that is registered stays with the network it registered from.
func (t *tx) chargeRegistration(r Registration, registered bool) (int64, error) {
	var id, before, stored int64
	if _, err := t.row(`
SELECT i.id, coalesce(length(k.log), 0), i.stored FROM identities i LEFT JOIN kels k ON k.identity = i.id WHERE i.ace_id = ?`,
		[]any{r.ACEID}, &id, &before, &stored); err != nil {
		return 0, err
	}
	delta := int64(len(r.KEL)) - before
	if registered {
		return id, t.charge(id, delta, r.Budget)
	}
	return id, t.move(id, r.Network, stored+delta, r.Budget)
}

// Unregister ends the registration that seen describes, and with it the queue,
// the documents, the blocks and the wake registration; the KEL for its time, the
// horizon, the handle and the spent nonces stay. The timestamp becomes the
// barrier.
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
	if err := t.remove("identity = ?", id); err != nil {
		return err
	}
	for _, query := range []string{
		"UPDATE descriptors SET agent = NULL WHERE identity = ?",
		"DELETE FROM descriptor_profiles WHERE identity = ?",
		// The home has no fixed size.
		"UPDATE cards SET bundle = NULL, home = '', listed = 0 WHERE identity = ?",
		"DELETE FROM card_tags WHERE identity = ?",
		"DELETE FROM directory WHERE identity = ?",
		"DELETE FROM blocks WHERE identity = ?",
		"DELETE FROM wakes WHERE identity = ?",
	} {
		failpoint.Here(failpoint.Unregister)
		if _, err := t.exec(query, id); err != nil {
			return err
		}
	}
	return t.settle(id)
}

// Caller is an authenticated request whose signature was checked against the
// given incarnation.
type Caller struct {
	ACEID       string
	Incarnation int64
	Nonce       string
	Forget      int64 // the nonce may be forgotten after this time
	// Fetch is the time of a request with which the endpoint fetches or
	// acknowledges, which arms its wake registration; 0 for any other.
	Fetch int64
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
	case c.Fetch == 0:
		return id, nil
	}
	return id, t.rearm(id, c.Fetch)
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
