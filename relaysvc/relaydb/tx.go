package relaydb

import (
	"strings"
	"sync/atomic"

	"github.com/ace-toolkit/ace/core/sqlconn"
	"github.com/ace-toolkit/ace/relaysvc/packetlog"
)

// tx runs statements on the writing connection, inside a transaction.
type tx struct {
	conn                    *conn
	begin, commit, rollback *sqlconn.Stmt
	packets                 packetStatements
	totals                  totalsCache
	generation              int64
	nextBody                int64
	log                     *packetlog.Log
	batch                   packetlog.Batch // what the packets of this transaction add to the log
	said                    []byte          // scratch
	alone                   bool            // there are packets alone
	synced                  int64           // as the database knows it
	usage                   *usage
	uses                    []used         // changes of it
	erasing                 bool           // something of the log is to be erased
	erased                  bool           // something was deleted or overwritten
	damaged                 map[int64]bool // bodies that cannot be deleted
	change                  counts
	counted                 *queued // what all committed transactions come to
}

// counts is what a transaction changes in the sum of all queues.
type counts struct{ entries, bytes, strangers int64 }

// queued is the sum of all queues.
type queued struct{ entries, bytes, strangers atomic.Int64 }

func (q *queued) add(c counts) {
	q.entries.Add(c.entries)
	q.bytes.Add(c.bytes)
	q.strangers.Add(c.strangers)
}

// prepare makes the statements that every group needs and reads what is kept
// in memory. The tables are there.
func (t *tx) prepare() error {
	for text, s := range map[string]**sqlconn.Stmt{"BEGIN IMMEDIATE": &t.begin, "COMMIT": &t.commit, "ROLLBACK": &t.rollback} {
		var err error
		if *s, err = t.conn.Prepare(text); err != nil {
			return err
		}
	}
	if err := t.packets.prepare(t.conn); err != nil {
		return err
	}
	t.totals.init()
	t.counted, t.damaged, t.usage = &queued{}, map[int64]bool{}, &usage{}
	if err := t.replay(); err != nil {
		return err
	}
	if err := t.usage.init(t); err != nil {
		return err
	}
	var c counts
	if _, err := t.row(`
SELECT (SELECT generation FROM relay), (SELECT synced FROM relay), (SELECT coalesce(max(id), 0) + 1 FROM bodies),
  coalesce(sum(entries), 0), coalesce(sum(bytes + stranger_bytes), 0), coalesce(sum(strangers), 0) FROM queues`,
		nil, &t.generation, &t.synced, &t.nextBody, &c.entries, &c.bytes, &c.strangers); err != nil {
		return err
	}
	t.counted.add(c)
	return nil
}

// committed keeps what a transaction has changed.
func (t *tx) committed() {
	t.counted.add(t.change)
	t.usage.change(t.log, t.uses)
	t.forget()
}

// forget drops what is known of a transaction that has ended.
func (t *tx) forget() {
	t.change = counts{}
	t.uses = t.uses[:0]
	t.totals.clear()
}

// exec runs query and returns the number of rows it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	s, err := t.conn.Prepare(query)
	if err != nil {
		return 0, err
	}
	if err := s.Bind(args); err != nil {
		return 0, err
	}
	if err := s.Run(); err != nil {
		return 0, err
	}
	n := t.conn.Changes()
	t.erased = t.erased || n > 0 && erases(query)
	return n, nil
}

func erases(query string) bool {
	query = strings.TrimSpace(query)
	return strings.HasPrefix(query, "DELETE") || strings.HasPrefix(query, "UPDATE") || strings.Contains(query, "DO UPDATE")
}

// row runs query and reports whether there is a row for dest.
func (t *tx) row(query string, args []any, dest ...any) (bool, error) {
	s, err := t.conn.Prepare(query)
	if err != nil {
		return false, err
	}
	if err := s.Bind(args); err != nil {
		return false, err
	}
	ok, err := s.Step()
	if err != nil || !ok {
		return false, err
	}
	defer s.Reset()
	return true, s.Scan(dest...)
}

// writeSynced notes how far the packet log has reached the disk.
func (t *tx) writeSynced() error {
	synced := t.log.Synced()
	if synced == t.synced {
		return nil
	}
	s := t.packets.updateSynced
	s.BindInt(1, synced)
	if err := s.Run(); err != nil {
		return err
	}
	t.synced = synced
	return nil
}
