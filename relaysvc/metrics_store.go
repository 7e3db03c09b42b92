package relaysvc

import (
	"context"
	"sync"
	"time"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// committed observes a commit of the store.
func (m *metrics) committed(c relaydb.Commit) {
	m.decisions.Add(uint64(c.Decisions))
	m.fsync.Observe(c.Took.Seconds())
	m.write.Observe(c.Whole.Seconds())
}

// sawKEL notes the length of a verified KEL.
func (m *metrics) sawKEL(events int) {
	for {
		most := m.kelEvents.Load()
		if int64(events) <= most || m.kelEvents.CompareAndSwap(most, int64(events)) {
			return
		}
	}
}

// storeWatch remembers what the store said of itself, so that GET /metrics costs
// it the same however often it is asked.
type storeWatch struct {
	mu    sync.Mutex
	taken time.Time // guarded by mu, as what follows
	stats relaydb.Stats
	err   error
}

// statsFresh is how old the figures of the store may be.
const statsFresh = 2 * time.Second

func (w *storeWatch) get(ask func() (relaydb.Stats, error)) (relaydb.Stats, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken.IsZero() || time.Since(w.taken) >= statsFresh {
		w.stats, w.err = ask()
		w.taken = time.Now()
	}
	return w.stats, w.err
}

// writeStore writes what the store does and holds. A store that does not answer
// leaves its figures out, so that nobody takes old ones for new.
func (s *Server) writeStore(ctx context.Context, e *exposition, now int64) {
	m := s.metrics
	e.counter("store_decisions_total", "Decisions made durable.", &m.decisions)
	e.histogram("store_fsync_seconds", "Time for a group of decisions to reach the disk.", m.fsync)
	e.histogram("store_write_seconds", "Time for the whole transaction of that group.", m.write)
	stats, err := m.store.get(func() (relaydb.Stats, error) {
		// The answer is for others too: it must not fail because one client left.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		return s.db.Stats(ctx, now)
	})
	if err != nil {
		e.gauge("store_up", "Whether the store answers.", 0)
		return
	}
	e.gauge("store_up", "Whether the store answers.", 1)
	e.gauge("queue_entries", "Packets queued, strangers' included.", float64(stats.Entries))
	e.gauge("queue_bytes", "Bytes of them.", float64(stats.Bytes))
	e.gauge("queue_oldest_age_seconds", "Age of the oldest queued packet.", float64(stats.OldestAge))
	e.gauge("stranger_entries", "Packets queued without a permit.", float64(stats.StrangerEntries))
	registrations := e.family("registrations", "gauge", "Identities by state; the suspended ones are registered as well.")
	registrations.add(float64(stats.Registered), "state", "registered")
	registrations.add(float64(stats.Suspended), "state", "suspended")
	registrations.add(float64(stats.Retired), "state", "retired")
	e.gauge("nonce_cache_entries", "Nonces remembered.", float64(stats.Nonces))
	limits := s.limits()
	e.gauge("network_bytes_ratio_max", "Part of its byte budgets that the client network nearest to them uses.",
		max(float64(stats.NetworkStored)/float64(limits.NetworkStored), float64(stats.NetworkQueued)/float64(limits.NetworkQueued)))
	e.gauge("quarantined_entries", "Packets put aside because their bytes changed.", float64(stats.Quarantined))
	e.family("corrupt_rows_total", "counter", "Packets found with other bytes than were queued.").add(float64(stats.Damaged))
	e.gauge("store_size_bytes", "Bytes of the files of the store.", float64(stats.FileSize+stats.LogSize+stats.PacketLogSize))
}

// writeDisk writes what there is to say about what surrounds the store.
func (s *Server) writeDisk(e *exposition) {
	if free, err := s.disk.free(); err == nil {
		e.gauge("disk_free_bytes", "Bytes free on the disk of the store.", float64(free))
	}
	e.gauge("disk_floor_bytes", "Free bytes below which the relay takes nothing more.", float64(s.limits().DiskFloor))
	e.gauge("kel_events_max", "Events of the longest key event log seen since the start.", float64(s.metrics.kelEvents.Load()))
	e.gauge("last_backup_timestamp_seconds", "Unix time of the last good backup since the start, 0 for none.", float64(s.metrics.backedUp.Load()))
}
