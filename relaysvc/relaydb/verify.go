package relaydb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ace-toolkit/ace/core/fault"
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
	// Unguarded: it could not be told whether a relay has the store open. If one
	// does, problems may be what it was writing.
	Unguarded bool
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
// It needs to write only where a relay did not close its store.
// Codes: storage_failed, also [ErrUnfinished]; lock_busy.
func VerifyFile(ctx context.Context, path string, now int64) (Report, error) {
	c, err := openClosed(ctx, path, "ace relay verify", now)
	if err != nil {
		return Report{}, err
	}
	r, err := verify(ctx, c.db, c.log)
	r.Unguarded = c.unguarded && r.TakenAt == 0
	return r, errors.Join(err, c.close())
}

// verifyClosed is VerifyFile for a file that nobody else knows.
func verifyClosed(ctx context.Context, path string) (Report, error) {
	c := newClosed(path)
	if err := c.open(ctx, false); err != nil {
		return Report{}, errors.Join(err, c.close())
	}
	r, err := verify(ctx, c.db, c.log)
	return r, errors.Join(err, c.close())
}

// logOf opens the packet log of a store to read in it.
func logOf(ctx context.Context, db *sql.DB, path string, readOnly bool) (*packetlog.Log, error) {
	var id []byte
	if err := db.QueryRowContext(ctx, "SELECT log_id FROM relay").Scan(&id); err != nil {
		return nil, storage(err)
	}
	if len(id) != len(packetlog.ID{}) {
		return nil, fault.New(fault.StorageFailed, "%s names no packet log", path)
	}
	return packetlog.Open(filepath.Dir(path), packetlog.ID(id), packetlog.Options{ReadOnly: readOnly})
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
		r.problem("entries whose packet is to be erased: %d", n)
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
