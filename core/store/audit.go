package store

import (
	"strings"

	"github.com/ace-toolkit/ace/core/audit"
)

// AuditBounds say how much of the audit log is kept.
type AuditBounds struct {
	Seconds int64 // the age of the oldest row
	Rows    int64 // looked at from time to time, so that there may be a few more
}

// defaultAuditBounds hold until [Store.BoundAudit] sets others.
var defaultAuditBounds = AuditBounds{Seconds: 90 * 86400, Rows: 100_000}

// BoundAudit sets how much of the audit log is kept. A member of 0 is the usual
// one: 90 days, 100,000 rows. It is called before others use the store.
func (s *Store) BoundAudit(b AuditBounds) {
	if b.Seconds > 0 {
		s.auditBounds.Seconds = b.Seconds
	}
	if b.Rows > 0 {
		s.auditBounds.Rows = b.Rows
	}
}

// Audit is a row of the audit log. Members that do not apply are "" and 0.
type Audit struct {
	Seq       int64 // given by the store, in the order of the log
	At        int64
	Event     audit.Event
	Code      string
	Peer      string // of a packet as it states it, which need not be true
	MessageID string // likewise
	Relay     string
	KELSeq    int64 // last event of a log
	ExpiresAt int64 // of a permit or a document
	Count     int64 // of what the event is about
}

const auditColumns = "at, event, code, peer, message_id, relay, kel_seq, expires_at, count"

func (a *Audit) fields() []any {
	return []any{&a.Seq, &a.At, &a.Event, &a.Code, &a.Peer, &a.MessageID, &a.Relay, &a.KELSeq, &a.ExpiresAt, &a.Count}
}

// AddAudit adds a row to the audit log, and removes some when there are too many.
func (tx *Tx) AddAudit(a Audit) error {
	var seq int64
	_, err := tx.get("INSERT INTO audit ("+auditColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq",
		[]any{a.At, string(a.Event), a.Code, a.Peer, a.MessageID, a.Relay, a.KELSeq, a.ExpiresAt, a.Count}, &seq)
	if err != nil || seq%tx.store.auditBounds.every() != 0 {
		return err
	}
	return tx.trimAudit()
}

// every is after how many new rows they are counted.
func (b AuditBounds) every() int64 { return max(1, min(256, b.Rows/16)) }

// trimAudit removes rows beyond the bound. The oldest about packets go first:
// anybody can send those, and nobody is to push the owner's decisions out of the
// log with them.
func (tx *Tx) trimAudit() error {
	var rows int64
	if _, err := tx.get("SELECT count(*) FROM audit", nil, &rows); err != nil {
		return err
	}
	over := rows - tx.store.auditBounds.Rows
	if over <= 0 {
		return nil
	}
	removed, err := tx.exec("DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE event GLOB 'message.*' ORDER BY seq LIMIT ?)", over)
	if err != nil || removed == over {
		return err
	}
	return tx.run("DELETE FROM audit WHERE seq IN (SELECT seq FROM audit ORDER BY seq LIMIT ?)", over-removed)
}

// PruneAudit removes the rows that are too old at now.
func (tx *Tx) PruneAudit(now int64) error {
	return tx.run("DELETE FROM audit WHERE at <= ?", now-tx.store.auditBounds.Seconds)
}

// AuditFilter selects rows of the audit log. Zero members select everything.
type AuditFilter struct {
	After     int64 // rows behind this Seq
	Since     int64 // at or after
	Peer      string
	MessageID string // or the start of one
	Events    []audit.Event
	Limit     int // the newest Limit
}

// Audits returns the selected rows, oldest first.
func (tx *Tx) Audits(f AuditFilter) ([]Audit, error) {
	limit := -1
	if f.Limit > 0 {
		limit = f.Limit
	}
	names := make([]string, len(f.Events))
	for i, e := range f.Events {
		names[i] = string(e)
	}
	list := strings.Join(names, " ")
	return rows(tx, func(r scanner) (a Audit, err error) { return a, r.Scan(a.fields()...) }, `SELECT seq, `+auditColumns+` FROM
		(SELECT seq, `+auditColumns+` FROM audit WHERE seq > ?1 AND at >= ?2 AND (?3 = '' OR peer = ?3)
			AND substr(message_id, 1, length(?4)) = ?4 AND (?5 = '' OR instr(' ' || ?5 || ' ', ' ' || event || ' ') > 0)
			ORDER BY seq DESC LIMIT ?6)
		ORDER BY seq`, f.After, f.Since, f.Peer, f.MessageID, list, limit)
}
