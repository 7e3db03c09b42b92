package store

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/sqlconn"
)

// Condition is how a store on disk is.
type Condition struct {
	Exists   bool
	Bytes    int64 // of the database
	LogBytes int64 // of the write-ahead log beside it
	Damage   string
	// Version is that of the schema. One of an older program is brought to ours
	// when the store is opened. What follows is read only of one that is ours.
	Version, OurVersion int
	Identity            string // whose store it is, "" for nobody's yet
	Unhandled           int64
	Pending             int64 // messages of the Outbox without an outcome
	Overdue             int64 // of these, the attempts that should have been made
	Ending              int64 // of these, first attempted so long ago that their time ends
	Quarantined         int64
	NewestAt            int64 // the latest time at which a message came or was queued, 0 for none
}

// Examine looks at the store at path from outside, without its vault key and
// without changing it, as far as it can be read: what cannot is its Damage. The
// attempts that were due at overdue or before count as overdue, the messages first
// attempted at ending or before as ending. All pages are read. Code:
// storage_failed.
func Examine(ctx context.Context, path string, overdue, ending int64) (c Condition, err error) {
	c.OurVersion = len(migrations)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fault.Wrap(fault.StorageFailed, err)
	}
	c.Exists, c.Bytes = true, info.Size()
	if log, err := os.Stat(path + "-wal"); err == nil {
		c.LogBytes = log.Size()
	}
	if err := ownerfile.CheckFile(path); err != nil {
		return c, err
	}
	conn, err := sqlconn.Open(sqlconn.FileURI(path), coded, "busy_timeout(1000)", "query_only(ON)")
	if err != nil {
		c.Damage = err.Error()
		return c, nil
	}
	defer conn.Close()
	conn.KeepLog()
	if err := c.read(&Tx{ctx: ctx, conn: conn}, overdue, ending); err != nil {
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		c.Damage = err.Error()
	}
	return c, nil
}

func (c *Condition) read(tx *Tx, overdue, ending int64) error {
	var whole string
	if _, err := tx.get("PRAGMA quick_check(1)", nil, &whole); err != nil {
		return err
	}
	if whole != "ok" {
		c.Damage = whole
		return nil
	}
	if _, err := tx.get("PRAGMA user_version", nil, &c.Version); err != nil || c.Version != c.OurVersion {
		return err
	}
	for _, q := range []struct {
		query string
		args  []any
		into  any
	}{
		{"SELECT coalesce((SELECT value FROM note WHERE name = 'identity'), '')", nil, &c.Identity},
		{"SELECT coalesce((SELECT max(seq) FROM message), 0) - value FROM counter WHERE name = 'handled'", nil, &c.Unhandled},
		{"SELECT count(*) FROM outbox WHERE state = 'pending'", nil, &c.Pending},
		{"SELECT count(*) FROM outbox WHERE state = 'pending' AND next_attempt_at <= ?", []any{overdue}, &c.Overdue},
		{"SELECT count(*) FROM outbox WHERE state = 'pending' AND attempts > 0 AND first_attempt_at <= ?", []any{ending}, &c.Ending},
		{"SELECT count(*) FROM quarantine", nil, &c.Quarantined},
		{"SELECT max(coalesce((SELECT max(received_at) FROM message), 0), coalesce((SELECT max(created_at) FROM outbox), 0))", nil, &c.NewestAt},
	} {
		if _, err := tx.get(q.query, q.args, q.into); err != nil {
			return err
		}
	}
	return nil
}
