package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
)

// openMemory opens a store that is in memory. All its transactions share one
// connection, which is the database.
func openMemory(ctx context.Context, vaultKey *suite.Seed) (*Store, error) {
	db, err := sql.Open("sqlite", ":memory:?_txlock=immediate&_pragma=foreign_keys(ON)")
	if err != nil {
		return nil, coded(err)
	}
	db.SetMaxOpenConns(1)
	db.SetMaxIdleConns(1) // or the database would end between two transactions
	s := &Store{seal: sealKey(vaultKey), writer: db, reader: db}
	if err := s.migrate(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// lockMemory takes the receive role of a store that no other process has.
func (s *Store) lockMemory() (release func() error, err error) {
	if !s.held.CompareAndSwap(false, true) {
		return nil, fault.New(fault.LockBusy, "this store is being received into already")
	}
	return func() error {
		s.held.Store(false)
		return nil
	}, nil
}
