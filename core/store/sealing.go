package store

import (
	"context"

	"github.com/ace-toolkit/ace/core/sqlconn"
)

// sealingBatch is how many rows the migration has in memory at a time.
const sealingBatch = 200

// tracesLeft names the counter that is there from the sealing of rows that were
// in the clear until nothing of them is left in the files.
const tracesLeft = "traces_left"

// unsealed are the tables with rows in the clear in a store of before sealed.sql,
// with the statements that read a batch of them and seal one.
var unsealed = [...]struct{ table, batch, seal string }{
	{messageTable, "SELECT seq, peer, message_id, sealed FROM message WHERE seq > ? ORDER BY seq LIMIT ?", "UPDATE message SET sealed = ? WHERE seq = ?"},
	{outboxTable, "SELECT seq, peer, message_id, sealed FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?", "UPDATE outbox SET sealed = ? WHERE seq = ?"},
	{requestTable, "SELECT seq, peer, '', sealed FROM request WHERE seq > ? ORDER BY seq LIMIT ?", "UPDATE request SET sealed = ? WHERE seq = ?"},
}

// clearRow is a row whose body is not sealed yet.
type clearRow struct {
	seq             int64
	peer, messageID string
	body            []byte
}

func scanClearRow(r scanner) (c clearRow, err error) {
	return c, r.Scan(&c.seq, &c.peer, &c.messageID, &c.body)
}

// sealRows seals the rows that a program of before sealed.sql has written. It is
// part of the migration's one transaction: a store has all of them sealed or
// none.
func (tx *Tx) sealRows() error {
	for _, t := range unsealed {
		for last := int64(0); ; {
			batch, err := rows(tx, scanClearRow, t.batch, last, sealingBatch)
			if err != nil {
				return err
			}
			if len(batch) == 0 {
				break
			}
			for _, c := range batch {
				if err := tx.run(t.seal, tx.sealBody(t.table, c.peer, c.messageID, c.body), c.seq); err != nil {
					return err
				}
				last = c.seq
			}
		}
	}
	return tx.setCounter(tracesLeft, 1)
}

// vacuumInMemory bounds the size of a store, in bytes, that is rebuilt with
// memory alone. Of a larger one SQLite keeps the copy in a nameless file of the
// system's temporary folder, in which bodies are sealed already.
const vacuumInMemory = 64 << 20

// rebuild writes the file anew once after rows were sealed, and reports whether it
// did: secure_delete clears what is deleted, but not what SQLite left in unused
// parts of pages when it moved rows. What is interrupted is done again at the
// next opening, and so is what another process keeps from being done.
func (s *Store) rebuild(ctx context.Context) (done bool, err error) {
	c, err := s.writer.take(ctx)
	if err != nil {
		return false, failed(ctx, err)
	}
	defer s.writer.give(c)
	tx := &Tx{ctx: ctx, conn: c, store: s, writes: true}
	if _, due, err := tx.counter(tracesLeft); err != nil || !due {
		return false, err
	}
	err = patiently(ctx, tx.vacuum)
	if sqlconn.IsBusy(err) {
		return false, nil
	}
	return err == nil, err
}

// tracesGone notes that nothing is left of rows in the clear: the file is written
// anew and its log is empty.
func (tx *Tx) tracesGone() error {
	return tx.run("DELETE FROM counter WHERE name = ?", tracesLeft)
}

func (tx *Tx) vacuum() error {
	var pages, size int64
	if _, err := tx.get("PRAGMA page_count", nil, &pages); err != nil {
		return err
	}
	if _, err := tx.get("PRAGMA page_size", nil, &size); err != nil {
		return err
	}
	if pages*size <= vacuumInMemory {
		if err := tx.script("PRAGMA temp_store = MEMORY"); err != nil {
			return err
		}
	}
	return tx.script("VACUUM")
}
