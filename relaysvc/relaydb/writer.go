package relaydb

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ace-toolkit/ace/core/fault"
)

//go:embed schema.sql
var schema string

// version is the schema's, kept in user_version.
const version = 2

// groupLimit bounds the decisions that one commit makes durable.
const groupLimit = 64

// errClosed is what a decision gets that comes after Close.
var errClosed = fault.New(fault.StorageFailed, "the store is closed")

// job is a decision that waits for the writer. run may be called a second time
// when the transaction that it was part of was undone.
type job struct {
	run  func(*tx) error
	done chan error
}

// write runs fn in a transaction and returns once that is durable. A Refusal
// keeps what fn did before it; any other error undoes it.
//
// A context that ends stops the waiting for a place, not a decision that the
// writer has taken: its outcome is always told.
func (d *DB) write(ctx context.Context, fn func(*tx) error) error {
	j := &job{run: fn, done: make(chan error, 1)}
	select {
	case d.jobs <- j:
		return <-j.done
	case <-d.closing:
		return errClosed
	case <-ctx.Done():
		return fault.Wrap(fault.LockBusy, ctx.Err())
	}
}

// Check reports whether the store still takes decisions. One that broke does
// so again only after it has been opened anew.
func (d *DB) Check(ctx context.Context) error {
	return d.write(ctx, func(*tx) error { return nil })
}

// writer owns the one connection that writes.
type writer struct {
	db   *sql.DB
	conn *sql.Conn
	tx   *tx
	// broken is set by a commit that failed to reach the disk. What the
	// files hold is then unknown, and asking the disk again can answer "done"
	// for pages that were lost, so that nothing is written any more.
	broken error
}

func openWriter(ctx context.Context, path string) (*writer, error) {
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, storage(err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, storage(err)
	}
	w := &writer{db: db, conn: conn, tx: &tx{cache: statements{prepare: conn.PrepareContext}}}
	if err := w.migrate(ctx); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// migrate makes the tables of a new store. It refuses a store of a later
// version and a database that is no relay's, and leaves both as they are.
func (w *writer) migrate(ctx context.Context) error {
	var have, tables int
	var relay bool
	if err := w.conn.QueryRowContext(ctx, `
SELECT user_version, (SELECT count(*) FROM sqlite_schema),
  EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'relay') FROM pragma_user_version`).
		Scan(&have, &tables, &relay); err != nil {
		return storage(err)
	}
	switch {
	case relay && have > version:
		return fault.New(fault.StorageFailed, "the store has schema version %d, this program knows %d", have, version)
	case tables > 0 && !(relay && have == version):
		return fault.New(fault.StorageFailed, "not the store of a relay")
	}
	create := ""
	if tables == 0 {
		create = "BEGIN IMMEDIATE;\n" + schema + "\nPRAGMA user_version = 2;\nCOMMIT"
	}
	_, err := w.conn.ExecContext(ctx, "PRAGMA journal_mode = WAL;\n"+create)
	return storage(err)
}

func (w *writer) close() {
	w.tx.cache.close()
	w.conn.Close()
	w.db.Close()
}

// loop takes decisions until closing is closed. Those that wait while one
// group is being committed form the next: nothing is delayed to gather more.
func (w *writer) loop(jobs <-chan *job, closing <-chan struct{}) {
	defer w.close()
	for {
		select {
		case j := <-jobs:
			w.commit(gather(jobs, j))
		case <-closing:
			return
		}
	}
}

func gather(jobs <-chan *job, first *job) []*job {
	group := []*job{first}
	for len(group) < groupLimit {
		select {
		case j := <-jobs:
			group = append(group, j)
		default:
			return group
		}
	}
	return group
}

// commit makes a group durable in one transaction. When one of its decisions
// fails, the whole is undone and each is taken on its own, so that no failure
// reaches another.
func (w *writer) commit(group []*job) {
	results, err := w.transact(group)
	if err != nil && len(group) > 1 && w.broken == nil {
		for _, j := range group {
			w.commit([]*job{j})
		}
		return
	}
	for i, j := range group {
		if err != nil {
			j.done <- err
			continue
		}
		j.done <- results[i]
	}
}

// transact runs a group in one transaction and returns their refusals.
func (w *writer) transact(group []*job) (results []error, err error) {
	if w.broken != nil {
		return nil, w.broken
	}
	if _, err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	for _, j := range group {
		err := j.run(w.tx)
		if failed(err) {
			return nil, w.undo(err)
		}
		results = append(results, err)
	}
	if _, err := w.tx.exec("COMMIT"); err != nil {
		if resultCode(err) == sqlite3.SQLITE_IOERR {
			w.broken = err
		}
		return nil, w.undo(err)
	}
	return results, nil
}

// undo rolls back after err and returns it.
func (w *writer) undo(err error) error {
	if _, rollback := w.tx.exec("ROLLBACK"); rollback != nil && w.broken == nil && resultCode(rollback) != sqlite3.SQLITE_ERROR {
		// SQLITE_ERROR: SQLite has rolled back by itself.
		w.broken = rollback
	}
	return err
}

// failed reports whether err is a failure of the store, not a refusal.
func failed(err error) bool {
	return errors.Is(err, fault.StorageFailed) || errors.Is(err, fault.LockBusy)
}

// tx runs statements on the writing connection, inside a transaction.
type tx struct{ cache statements }

// exec runs query and returns the number of rows it changed.
func (t *tx) exec(query string, args ...any) (int64, error) {
	stmt, err := t.cache.get(context.Background(), query)
	if err != nil {
		return 0, err
	}
	r, err := stmt.Exec(args...)
	if err != nil {
		return 0, storage(err)
	}
	n, err := r.RowsAffected()
	return n, storage(err)
}

// row runs query and reports whether there is a row for dest.
func (t *tx) row(query string, args []any, dest ...any) (bool, error) {
	stmt, err := t.cache.get(context.Background(), query)
	if err != nil {
		return false, err
	}
	return found(stmt.QueryRow(args...).Scan(dest...))
}
