package store

import (
	"context"

	"github.com/ace-toolkit/ace/core/sqlconn"
)

// Tx is one transaction. It is valid only inside the function it was given to,
// and of use to the goroutine of that alone. It does nothing more once the
// context it was begun with has ended.
type Tx struct {
	ctx         context.Context
	conn        *sqlconn.Conn
	store       *Store
	writes      bool
	scrub       bool
	deletedKeys []string // prekeys whose rows it has deleted
}

// Version names a state of the store, as a writing transaction sees it. Two that
// are equal name the same one, but for what is the handlers' (see [Tx.aside]); the same
// state may have several.
type Version struct {
	others int64 // what other connections have committed, by a number of SQLite's
	own    int64 // rows that this one has changed
}

// Version returns that of the store as tx has it, its own changes included.
func (tx *Tx) Version() (v Version, err error) {
	_, err = tx.get("PRAGMA data_version", nil, &v.others)
	v.own = tx.conn.TotalChanges() - tx.store.handled
	return v, err
}

func (tx *Tx) commit() error {
	if err := tx.ctx.Err(); err != nil {
		return err
	}
	return failed(tx.ctx, tx.conn.Commit())
}

// statement returns a statement with its parameters bound.
func (tx *Tx) statement(query string, args []any) (*sqlconn.Stmt, error) {
	if err := tx.ctx.Err(); err != nil {
		return nil, err
	}
	s, err := tx.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return s, s.Bind(args)
}

// exec runs a statement and returns how many rows it changed.
func (tx *Tx) exec(query string, args ...any) (int64, error) {
	s, err := tx.statement(query, args)
	if err == nil {
		err = s.Run()
	}
	if err != nil {
		return 0, failed(tx.ctx, err)
	}
	return tx.conn.Changes(), nil
}

// run is exec for callers that do not count.
func (tx *Tx) run(query string, args ...any) error {
	_, err := tx.exec(query, args...)
	return err
}

// script runs statements without parameters that are not needed again.
func (tx *Tx) script(text string) error { return failed(tx.ctx, tx.conn.Script(text)) }

// get scans the one row of a query and reports whether there is one.
func (tx *Tx) get(query string, args []any, into ...any) (bool, error) {
	s, err := tx.statement(query, args)
	if err != nil {
		return false, failed(tx.ctx, err)
	}
	ok, err := s.Step()
	if err != nil || !ok {
		return false, failed(tx.ctx, err)
	}
	defer s.Reset()
	return true, failed(tx.ctx, s.Scan(into...))
}

// rows collects the rows of a query, each read by scan, which runs no other.
func rows[T any](tx *Tx, scan func(row scanner) (T, error), query string, args ...any) ([]T, error) {
	s, err := tx.statement(query, args)
	if err != nil {
		return nil, failed(tx.ctx, err)
	}
	defer s.Reset()
	var out []T
	for {
		more, err := s.Step()
		if err != nil || !more {
			return out, failed(tx.ctx, err)
		}
		v, err := scan(s)
		if err != nil {
			return nil, failed(tx.ctx, err)
		}
		out = append(out, v)
	}
}

// scanner is a row of a query.
type scanner interface{ Scan(into ...any) error }
