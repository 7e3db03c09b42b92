package store

import (
	"context"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/sqlconn"
)

// snapshotRules make a copy of a store safe to go on from. What was open at the
// time of the copy may have been decided since by the installation it was taken
// from:
//
//   - No seed is in a copy, sealed or not: seeds are deleted on time so that past
//     packets stay closed (04#prekey, 04#peer-prekeys), and a copy would outlive
//     them. Packets to them are answered with unknown_prekey, and their senders
//     take the prekey that is published next.
//   - No key of a peer is held: its issuer may have deleted it (04#peer-prekeys).
//   - No message is sent again by itself, nor one that was held. Its receipt may
//     have come since, the owner may have let it go or given it up, and a receiver
//     remembers it for a limited time only (06#deduplication). It is expired, which
//     says that its outcome is unknown until a receipt tells (06#outbox-sender).
//   - What was published is published anew, and the registration made again. So
//     are block decisions, with their revisions: the relay says which are no
//     longer the last (05#blocks).
//   - Entries of an inbox are counted anew.
//
// All else stays. The seen store knows what was taken in before the copy; what
// was taken in later may come again, as 05#admission-recovery has it for a store
// that is lost.
var snapshotRules = [...]string{
	"DELETE FROM prekey",
	"DELETE FROM held_prekey",
	"UPDATE own SET relay = ''",
	"UPDATE registration SET kel_end = ''",
	"UPDATE block SET posted = '', settled = '', superseded = 0",
	"DELETE FROM fetch",
}

const expireInSnapshot = `UPDATE outbox SET state = 'expired', abandoned = 1, settled_at = ?, claimed_until = 0,
	last_error = 'not attempted again after a backup' WHERE state IN ('pending', 'pending_approval')`

// Snapshot copies the store into an empty file at path, as it stands at one
// moment, and makes the copy safe to go on from (see snapshotRules). Others may
// use the store meanwhile. Codes: lock_busy, storage_failed.
func (s *Store) Snapshot(ctx context.Context, path string, now int64) error {
	if err := s.vacuumInto(ctx, path); err != nil {
		return err
	}
	c, err := sqlconn.Open(sqlconn.FileURI(path), coded, "journal_mode(MEMORY)", "secure_delete(ON)")
	if err != nil {
		return err
	}
	defer c.Close()
	tx := &Tx{ctx: ctx, conn: c}
	if err := tx.run(expireInSnapshot, now); err != nil {
		return err
	}
	for _, rule := range snapshotRules {
		if err := tx.run(rule); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) vacuumInto(ctx context.Context, path string) error {
	c, err := s.writer.take(ctx)
	if err != nil {
		return failed(ctx, err)
	}
	defer s.writer.give(c)
	tx := &Tx{ctx: ctx, conn: c, store: s}
	return patiently(ctx, func() error { return tx.run("VACUUM INTO ?", path) })
}

// Contents is what a snapshot holds.
type Contents struct {
	Messages, Outgoing int64
}

// CheckSnapshot checks a snapshot to the last page: that it is whole, of a
// version that this program knows, that of the identity, and without seeds. It
// changes nothing. Code: storage_failed.
func CheckSnapshot(ctx context.Context, path, aceID string) (c Contents, err error) {
	conn, err := sqlconn.Open(sqlconn.FileURI(path), coded, "query_only(ON)")
	if err != nil {
		return c, err
	}
	defer conn.Close()
	tx := &Tx{ctx: ctx, conn: conn}
	var whole, bound string
	var version, seeds int
	for _, q := range []struct {
		query string
		into  any
	}{
		{"PRAGMA integrity_check(1)", &whole},
		{"PRAGMA user_version", &version},
		{"SELECT value FROM note WHERE name = 'identity'", &bound},
		{"SELECT count(*) FROM prekey", &seeds},
		{"SELECT count(*) FROM message", &c.Messages},
		{"SELECT count(*) FROM outbox", &c.Outgoing},
	} {
		if _, err := tx.get(q.query, nil, q.into); err != nil {
			return c, err
		}
	}
	switch {
	case whole != "ok":
		return c, fault.New(fault.StorageFailed, "the copy of the store is damaged: %.200q", whole)
	case version < 1 || version > len(migrations):
		return c, fault.New(fault.StorageFailed, "the copy of the store has schema version %d, and this program knows up to %d: use a newer one", version, len(migrations))
	case bound != aceID:
		return c, fault.New(fault.StorageFailed, "the copy of the store belongs to %.80q, not to %s", bound, aceID)
	case seeds != 0:
		return c, fault.New(fault.StorageFailed, "the copy of the store has %d seeds", seeds)
	}
	return c, nil
}
