package relaydb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// maxProblems bounds the problems that a report lists.
const maxProblems = 100

// Report says what a check of a whole store found.
type Report struct {
	Generation  int64 // of stream IDs
	Identities  int64 // registered
	Entries     int64 // queued packets
	Bytes       int64 // of these
	Quarantined int64 // entries put aside because their bytes had changed
	TakenAt     int64 // when the backup was made; 0 for a store that is none
	Problems    []string
}

func (r *Report) problem(format string, args ...any) {
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
	}
}

// Verify checks the whole store while it is in use: the structure of the file,
// the digest of every packet and the totals kept beside the rows.
func (d *DB) Verify(ctx context.Context) (Report, error) {
	defer d.grace.leave(d.grace.enter())
	return verify(ctx, d.reader, d.log)
}

// VerifyFile is [DB.Verify] for a store that no relay has open, or a backup.
// Codes: storage_failed, lock_busy.
func VerifyFile(ctx context.Context, path string, now int64) (Report, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Report{}, fault.Wrap(fault.StorageFailed, err)
	}
	if err := ownerfile.CheckFile(path); err != nil {
		return Report{}, err
	}
	// A store has a lock beside it, a backup has none and may be where nothing
	// can be written.
	if _, err := os.Stat(path + ".lock"); err == nil {
		lock, err := ownerfile.Acquire(path+".lock", "ace relay verify", now)
		if err != nil {
			return Report{}, err
		}
		defer func() { _ = lock.Release() }()
	}
	return verifyClosed(ctx, path)
}

func verifyClosed(ctx context.Context, path string) (Report, error) {
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return Report{}, storage(err)
	}
	defer db.Close()
	if err := checkRelay(ctx, db); err != nil {
		return Report{}, fault.Wrapf(fault.CodeOf(err), err, "%s", path)
	}
	log, err := logOf(ctx, db, path)
	if err != nil {
		return Report{}, err
	}
	r, err := verify(ctx, db, log)
	return r, errors.Join(err, log.Close())
}

// logOf opens the packet log of a store to read in it.
func logOf(ctx context.Context, db *sql.DB, path string) (*packetlog.Log, error) {
	var id []byte
	if err := db.QueryRowContext(ctx, "SELECT log_id FROM relay").Scan(&id); err != nil {
		return nil, storage(err)
	}
	if len(id) != len(packetlog.ID{}) {
		return nil, fault.New(fault.StorageFailed, "%s names no packet log", path)
	}
	return packetlog.Open(filepath.Dir(path), packetlog.ID(id), packetlog.Options{})
}

// checkRelay refuses a database that is not a store of this version.
func checkRelay(ctx context.Context, db *sql.DB) error {
	var have int
	var relay bool
	if err := db.QueryRowContext(ctx, `
SELECT user_version, EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'relay')
FROM pragma_user_version`).Scan(&have, &relay); err != nil {
		return storage(err)
	}
	switch {
	case !relay:
		return fault.New(fault.StorageFailed, "not the store of a relay")
	case have != version:
		return fault.New(fault.StorageFailed, "the store has schema version %d, this program knows %d", have, version)
	}
	return nil
}

func verify(ctx context.Context, db *sql.DB, log *packetlog.Log) (Report, error) {
	var r Report
	for _, check := range []func(context.Context, *sql.DB, *Report) error{
		checkStructure, countRows, checkQueues, checkCharges, checkErasures,
	} {
		if err := check(ctx, db, &r); err != nil {
			return r, storage(err)
		}
	}
	return r, storage(checkPackets(ctx, db, log, &r))
}

// checkErasures looks for entries whose packet is about to be erased.
func checkErasures(ctx context.Context, db *sql.DB, r *Report) error {
	var n int64
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM erasures x JOIN entries e ON e.place = x.place").Scan(&n)
	if n > 0 {
		r.problem("%d entries whose packet is to be erased", n)
	}
	return err
}

func checkStructure(ctx context.Context, db *sql.DB, r *Report) error {
	rows, err := db.QueryContext(ctx, "PRAGMA integrity_check(50)")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		if line != "ok" {
			r.problem("structure: %s", line)
		}
	}
	return rows.Err()
}

func countRows(ctx context.Context, db *sql.DB, r *Report) error {
	err := db.QueryRowContext(ctx, `
SELECT (SELECT generation FROM relay), (SELECT count(*) FROM identities WHERE registered = 1), (SELECT count(*) FROM quarantine)`).
		Scan(&r.Generation, &r.Identities, &r.Quarantined)
	if err != nil {
		return err
	}
	var backup bool
	if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'backup')").Scan(&backup); err != nil || !backup {
		return err
	}
	return db.QueryRowContext(ctx, "SELECT taken_at FROM backup").Scan(&r.TakenAt)
}

// checkPackets compares every packet with its digest.
func checkPackets(ctx context.Context, db *sql.DB, log *packetlog.Log, r *Report) error {
	var synced int64
	if err := db.QueryRowContext(ctx, "SELECT synced FROM relay").Scan(&synced); err != nil {
		return err
	}
	rows, err := db.QueryContext(ctx, `
SELECT e.identity, e.generation, e.seq, e.size, e.digest, coalesce(e.place, -1), b.packet
FROM entries e LEFT JOIN bodies b ON b.id = e.body ORDER BY e.place`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var identity, generation, seq, size, place int64
		var digest, packet sql.RawBytes
		if err := rows.Scan(&identity, &generation, &seq, &size, &digest, &place, &packet); err != nil {
			return err
		}
		if place >= 0 {
			if packet, err = readLogged(log, place, size); err != nil {
				return err
			}
			if packet == nil && place >= synced {
				continue // cut off with the power: nobody was answered, and the next start drops it
			}
		}
		r.Entries++
		r.Bytes += int64(len(packet))
		if sum := sha256.Sum256(packet); !bytes.Equal(sum[:], digest) || size != int64(len(packet)) {
			r.problem("entry %d-%d of queue %d: the packet is not the one that was queued", generation, seq, identity)
		}
	}
	return rows.Err()
}

// readLogged reads a packet of the log, nil for one that is not there.
func readLogged(log *packetlog.Log, place, size int64) ([]byte, error) {
	packet := make([]byte, size)
	err := log.ReadAt(packet, place)
	if errors.Is(err, packetlog.ErrMissing) {
		return nil, nil
	}
	return packet, err
}

// checkQueues compares the totals of every queue with its entries.
func checkQueues(ctx context.Context, db *sql.DB, r *Report) error {
	rows, err := db.QueryContext(ctx, `
SELECT q.identity FROM queues q LEFT JOIN (
  SELECT identity, sum(1 - stranger) AS entries, sum(CASE stranger WHEN 0 THEN size ELSE 0 END) AS bytes,
    sum(stranger) AS strangers, sum(CASE stranger WHEN 1 THEN size ELSE 0 END) AS stranger_bytes, max(seq) AS seq
  FROM entries GROUP BY identity) e ON e.identity = q.identity
WHERE (q.entries, q.bytes, q.strangers, q.stranger_bytes)
   <> (coalesce(e.entries, 0), coalesce(e.bytes, 0), coalesce(e.strangers, 0), coalesce(e.stranger_bytes, 0))`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		r.problem("queue %d: its totals are not those of its entries", id)
	}
	return rows.Err()
}
