package store

import (
	"context"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
)

// openMemory opens a store that is in memory. All its transactions share one
// connection, which is the database.
func openMemory(ctx context.Context, vaultKey *suite.Seed) (*Store, error) {
	bodies, err := newBodyKeys(vaultKey)
	if err != nil {
		return nil, err
	}
	s := &Store{seal: sealKey(vaultKey), bodies: bodies, auditBounds: defaultAuditBounds, writer: newPool(":memory:", "BEGIN IMMEDIATE", 1, "foreign_keys(ON)")}
	s.reader = s.writer
	if err := s.migrate(ctx); err != nil {
		s.writer.close()
		return nil, err
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
