package core

import (
	"context"
	"strings"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
)

// AuditEntry is one row of the audit log (see package audit). Members that do not
// apply are "" and 0.
type AuditEntry struct {
	Seq       int64 // in the order of the log
	At        int64
	Event     audit.Event
	Code      string
	Peer      string // of a packet as it states it, which need not be true
	PeerName  string
	MessageID string // likewise
	Relay     string
	KELSeq    int64
	ExpiresAt int64
	Count     int64
}

// AuditFilter selects rows of the audit log. Zero members select everything.
type AuditFilter struct {
	After     int64 // rows behind this Seq
	Since     int64 // at or after
	Peer      string
	MessageID string // or at least 8 characters that it begins with
	Events    []audit.Event
	Limit     int // the newest Limit, 0: all
}

// Audit returns the selected rows of the audit log, in its order. Code:
// invalid_argument for a MessageID that cannot be one.
func (e *Endpoint) Audit(ctx context.Context, f AuditFilter) (list []AuditEntry, err error) {
	if f.MessageID != "" {
		if err := checkMessagePrefix(f.MessageID); err != nil {
			return nil, err
		}
	}
	if err := e.foldJournal(ctx); err != nil {
		return nil, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Audits(store.AuditFilter(f))
		if err != nil || len(rows) == 0 {
			return err
		}
		names, err := tx.Names()
		for _, r := range rows {
			list = append(list, AuditEntry{r.Seq, r.At, r.Event, r.Code, r.Peer, names[r.Peer], r.MessageID, r.Relay, r.KELSeq, r.ExpiresAt, r.Count})
		}
		return err
	})
	return list, err
}

// checkMessagePrefix refuses what is neither a message ID nor the start of one.
func checkMessagePrefix(id string) error {
	if len(id) < minMessagePrefix || strings.Trim(id, "0123456789abcdef-") != "" {
		return fault.New(fault.InvalidArgument, "%.80q is not a message ID nor %d characters of one", id, minMessagePrefix)
	}
	return nil
}
