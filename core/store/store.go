// Package store is the endpoint's durable state: one SQLite file that only its
// owner can read.
//
// It knows bytes and scalars, not meanings: what a row says, and when it may
// change, is known by the packages above, which work in transactions of
// [Store.Update] and [Store.View]. SQL text is found here alone. Prekey seeds
// and what people wrote are sealed before they reach a row (see prekeys.go and
// seal.go), and what was deleted is gone from the files after [Store.Scrub].
//
// Several processes may open one store. A writer waits its turn for a few
// seconds and then fails with lock_busy; every other failure is storage_failed.
// The receive role is held by one process at a time ([Store.LockReceive]). A
// store of no path is in memory and gone when it closes.
package store

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/core/sqlconn"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

// Store is an open store. It is safe for concurrent use.
type Store struct {
	path   string
	seal   []byte // subkey that prekey seeds are sealed under
	bodies bodyKeys
	writer *pool
	reader *pool
	scrub  atomic.Bool // rows were deleted whose bytes have to leave the files
	held   atomic.Bool // the receive role of a store in memory is
	closed atomic.Bool
	keys   keyring

	auditBounds AuditBounds

	handled int64 // rows that the writer has changed for handlers; it is the writer's
}

// Open opens the store at path, making it and its folder when they are not
// there. The folder has to be 0700 and the file 0600, both owned by the user.
// The vault key, which is not kept, seals prekey seeds, message bodies, contents
// of the Outbox and contact requests. A store of an older program is brought up
// to date, and nothing that it had in the clear is left. Without a path ("") the
// store is in memory: for tests, and for agents that keep nothing. Codes:
// storage_failed, lock_busy.
func Open(ctx context.Context, path string, vaultKey *suite.Seed) (*Store, error) {
	if path == "" {
		return openMemory(ctx, vaultKey)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fault.Wrap(fault.StorageFailed, err)
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	bodies, err := newBodyKeys(vaultKey)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, seal: sealKey(vaultKey), bodies: bodies, auditBounds: defaultAuditBounds}
	sqlconn.SyncDataOnly()
	uri := sqlconn.FileURI(path)
	s.writer = newPool(uri, "BEGIN IMMEDIATE", 1, pragmas...)
	s.reader = newPool(uri, "BEGIN", maxReaders, append(pragmas, "query_only(1)")...)
	if err := s.prepare(ctx); err != nil {
		s.reader.close()
		s.writer.close()
		return nil, err
	}
	return s, nil
}

// prepareFile makes the folder and an empty file where there is none, and
// checks that nobody but the owner can reach them. SQLite gives the files beside
// the database its mode, and takes them as it finds them.
func prepareFile(path string) error {
	if err := ownerfile.EnsureDir(filepath.Dir(path)); err != nil {
		return err
	}
	for _, beside := range []string{"", "-wal", "-shm"} {
		if err := ownerfile.CheckFile(path + beside); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fault.Wrap(fault.StorageFailed, err)
	}
	return fault.Wrap(fault.StorageFailed, f.Close())
}

// LockReceive takes the receive role of this store, which one process has at a
// time, and leaves command and now, in Unix seconds, for others to read. Call
// release at the end. Codes: lock_busy, which names the holder, and
// storage_failed.
func (s *Store) LockReceive(command string, now int64) (release func() error, err error) {
	if s.path == "" {
		return s.lockMemory()
	}
	return LockReceive(s.path, command, now)
}

// LockReceive is [Store.LockReceive] for a store that is not open.
func LockReceive(path, command string, now int64) (release func() error, err error) {
	lock, err := ownerfile.Acquire(path+"-receive.lock", command, now)
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}

func (s *Store) prepare(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	rebuilt, err := s.rebuild(ctx)
	if err != nil {
		return err
	}
	// A process that ended before its Scrub may have left deleted seeds behind.
	s.scrub.Store(true)
	if err := s.Scrub(ctx); err != nil || !rebuilt || s.scrub.Load() {
		return err
	}
	return s.Update(ctx, (*Tx).tracesGone)
}

// Close scrubs and closes the store, when the transactions under way have ended.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	err := s.Scrub(context.Background())
	s.reader.close()
	s.writer.close()
	s.keys.clear()
	clear(s.seal)
	return err
}

// Update runs f in a transaction that may write and commits it unless f fails.
// An error of f is returned as it is; what f changed is then undone.
func (s *Store) Update(ctx context.Context, f func(*Tx) error) error {
	return s.run(ctx, s.writer, func(tx *Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		failpoint.Here(failpoint.Save)
		if err := tx.commit(); err != nil {
			return err
		}
		failpoint.Here(failpoint.Saved)
		s.keys.forget(tx.deletedKeys)
		if tx.scrub {
			s.scrub.Store(true)
		}
		return nil
	})
}

// View runs f in a transaction that sees one state of the store.
func (s *Store) View(ctx context.Context, f func(*Tx) error) error {
	return s.run(ctx, s.reader, f)
}

// run runs f in a transaction, and undoes what f has not committed.
func (s *Store) run(ctx context.Context, p *pool, f func(*Tx) error) error {
	c, err := p.take(ctx)
	if err != nil {
		return failed(ctx, err)
	}
	defer p.give(c)
	if err := patiently(ctx, func() error { return c.Command(p.begin) }); err != nil {
		return failed(ctx, err)
	}
	defer rollback(c)
	return f(&Tx{ctx: ctx, conn: c, store: s, writes: p == s.writer})
}

// Scrub empties the write-ahead log when seeds were deleted since the last
// time, so that their sealed bytes are in no file: secure_delete clears the
// pages of the database, but the log keeps the old ones until it is truncated.
// A reader of another process can keep it from that; the next Scrub tries
// again. Code: storage_failed.
func (s *Store) Scrub(ctx context.Context) error {
	if s.path == "" || !s.scrub.Load() {
		return nil
	}
	c, err := s.writer.take(ctx)
	if err != nil {
		return failed(ctx, err)
	}
	defer s.writer.give(c)
	truncated, err := truncateLog(ctx, c)
	switch {
	case sqlconn.IsBusy(err):
		return nil
	case err != nil:
		return failed(ctx, err)
	case truncated:
		s.scrub.Store(false)
	}
	return nil
}

// failed gives err its code, unless it is the end of the caller's context.
func failed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return coded(err)
}

func coded(err error) error {
	switch {
	case err == nil:
		return nil
	case fault.CodeOf(err) != "":
		return err
	case sqlconn.IsBusy(err):
		return fault.Wrapf(fault.LockBusy, err, "store is in use by another process")
	}
	return fault.Wrapf(fault.StorageFailed, err, "store")
}
