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

// Known is what a store knows by name, for somebody who is typing.
type Known struct {
	Peers    [][2]string // ACE ID and petname, "" for none: peers with a name, contacts and requesters
	Threads  [][2]string // thread ID and ACE ID, the one that changed last first
	Received [][2]string // message ID and ACE ID, newest first
	Sent     [][2]string // message ID and ACE ID of the Outbox, newest first
}

// ReadKnown reads up to most of each from the store at path, without its vault key
// and without changing it. It is empty for a store that is not there or of another
// schema version. Code: storage_failed.
func ReadKnown(ctx context.Context, path string, most int) (k Known, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err := ownerfile.CheckFile(path); err != nil {
		return k, err
	}
	conn, err := sqlconn.Open(sqlconn.FileURI(path), coded, "busy_timeout(50)", "query_only(ON)")
	if err != nil {
		return k, fault.Wrap(fault.StorageFailed, err)
	}
	defer conn.Close()
	tx := &Tx{ctx: ctx, conn: conn}
	var version int
	if _, err := tx.get("PRAGMA user_version", nil, &version); err != nil || version != len(migrations) {
		return k, err
	}
	for _, q := range []struct {
		into  *[][2]string
		query string
	}{
		{&k.Peers, `SELECT peer, name FROM petname UNION ALL
			SELECT peer, '' FROM (SELECT peer FROM contact UNION SELECT peer FROM request) WHERE peer NOT IN (SELECT peer FROM petname)
			ORDER BY 2 DESC, 1 LIMIT ?`},
		{&k.Threads, "SELECT thread_id, peer FROM thread ORDER BY head_at DESC LIMIT ?"},
		{&k.Received, "SELECT message_id, peer FROM message ORDER BY seq DESC LIMIT ?"},
		{&k.Sent, "SELECT message_id, peer FROM outbox ORDER BY seq DESC LIMIT ?"},
	} {
		*q.into, err = rows(tx, func(r scanner) (p [2]string, err error) { return p, r.Scan(&p[0], &p[1]) }, q.query, most)
		if err != nil {
			return k, err
		}
	}
	return k, nil
}
