package relaydb

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/core/wire"
)

// Stats says what the store holds.
type Stats struct {
	Entries, Bytes  int64 // queued for all identities, strangers' packets included
	StrangerEntries int64 // of these, without a permit
	OldestAge       int64 // seconds since the oldest entry was queued, 0 for none
	Registered      int64 // identities
	Suspended       int64 // of these, by the operator
	Retired         int64 // identities that unregistered
	Quarantined     int64 // entries put aside
	Damaged         int64 // packets found since the store was opened that were not those queued
	Nonces          int64 // remembered
	NetworkStored   int64 // bytes charged to the client network with most of them
	NetworkQueued   int64 // bytes queued for the client network with most of them
	FileSize        int64 // bytes of the database, of its write-ahead log and of the packet log
	LogSize         int64
	PacketLogSize   int64
}

// Stats returns what the store holds at now. Sums of the queues are exact, what
// has to be counted is counted at most one hundredth of the time and may be
// older. Code: storage_failed.
func (d *DB) Stats(ctx context.Context, now int64) (Stats, error) {
	total := d.writer.tx.counted
	s := Stats{
		Entries: total.entries.Load() + total.strangers.Load(), Bytes: total.bytes.Load(), StrangerEntries: total.strangers.Load(),
		Damaged: d.corrupt.Load(), FileSize: sizeOf(d.path), LogSize: sizeOf(d.path + "-wal"), PacketLogSize: d.log.Size(),
	}
	var err error
	if s.OldestAge, err = d.oldest(ctx, now); err != nil {
		return s, err
	}
	if _, err := d.read(ctx, "SELECT count(*) FROM quarantine", nil, &s.Quarantined); err != nil {
		return s, err
	}
	return s, d.counts.into(&s, func(c *counted) error { return d.count(ctx, c) })
}

// oldest returns the age of the oldest entry that is not expired. Entries of a
// kind live equally long, so that the first to expire is the oldest.
func (d *DB) oldest(ctx context.Context, now int64) (int64, error) {
	age := int64(0)
	for _, kind := range []struct {
		stranger bool
		life     int64
	}{{false, wire.OfflineWindowSeconds}, {true, wire.ContactRequestTTLSeconds}} {
		var expires int64
		ok, err := d.read(ctx, selectOldest, []any{kind.stranger, now}, &expires)
		if err != nil {
			return 0, err
		}
		if ok {
			age = max(age, now-(expires-kind.life))
		}
	}
	return age, nil
}

const selectOldest = "SELECT expires_at FROM entries WHERE stranger = ? AND expires_at > ? ORDER BY expires_at LIMIT 1"

func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// counted is what only a look at every row tells.
type counted struct{ registered, suspended, retired, nonces, stored, queued int64 }

func (d *DB) count(ctx context.Context, c *counted) error {
	_, err := d.read(ctx, `
SELECT coalesce(sum(registered), 0), coalesce(sum(registered AND suspended), 0), count(*) - coalesce(sum(registered), 0),
  (SELECT count(*) FROM nonces), coalesce((SELECT max(stored) FROM networks), 0), coalesce((SELECT max(queued) FROM networks), 0)
FROM identities`, nil, &c.registered, &c.suspended, &c.retired, &c.nonces, &c.stored, &c.queued)
	return err
}

// counter keeps what was counted until counting again has become cheap enough.
type counter struct {
	mu   sync.Mutex
	last counted   // guarded by mu, as what follows
	next time.Time // when to count again
}

func (c *counter) into(s *Stats, count func(*counted) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if start := time.Now(); !start.Before(c.next) {
		if err := count(&c.last); err != nil {
			return err
		}
		c.next = time.Now().Add(100 * time.Since(start))
	}
	s.Registered, s.Suspended, s.Retired, s.Nonces = c.last.registered, c.last.suspended, c.last.retired, c.last.nonces
	s.NetworkStored, s.NetworkQueued = c.last.stored, c.last.queued
	return nil
}

// damaged counts a packet that is not the one that was queued.
func (d *DB) damaged(reason string) {
	d.corrupt.Add(1)
	if d.options.Damaged != nil {
		d.options.Damaged(reason)
	}
}
