package relaysvc

import (
	"math"
	"sync"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// Limits bound what the relay does for others. Rates are per minute, and a
// minute's worth may come at once. Nothing is bounded per address but through
// its client network (07#client-networks), and streams not even that
// (07#listen).
type Limits struct {
	// QueueEntries and QueueBytes bound a recipient's queue of packets sent
	// with a permit. Default: 10,000 and 64 MiB.
	QueueEntries, QueueBytes int64
	// SenderEntries and SenderBytes bound one sender's share of a recipient's
	// queue. Default: a half of the queue's bounds.
	SenderEntries, SenderBytes int64
	// NetworkStored and NetworkQueued are the byte budgets of a client
	// network: for what is stored of the identities that registered from it
	// (registrations, descriptors, card records, wake registrations,
	// horizons), and for the packets queued for them. Default: 256 MiB and
	// 2 GiB.
	NetworkStored, NetworkQueued int64
	// BlockPeers caps the peers whose blocks are tracked for an identity, at
	// least MIN_BLOCK_CAP. Default: 4096.
	BlockPeers int
	// StreamsPerIdentity and Streams bound open listen streams. Default: 16
	// and 10,000.
	StreamsPerIdentity, Streams int
	// Publications bounds the registrations, descriptors and card records of
	// one client network. Default: 1200.
	Publications int64
	// StrangersFrom and StrangersTo bound the packets that strangers of one
	// client network send and that one recipient gets. Default: 600 and 300.
	StrangersFrom, StrangersTo int64
	// Connections bounds the connections open at the same time, and the
	// requests in progress over HTTP/2. Default: 20,000.
	Connections int
	// BodyMemory bounds the bytes of request bodies in memory at the same
	// time. So does it, each apart, those of inbox pages and streams, and those
	// of the directory and the lookups, which need no authentication.
	// Default: 256 MiB.
	BodyMemory int64
	// DiskFloor is the free space in bytes below which the relay takes no
	// more packets and documents, so that there is room for what frees space.
	// Default: 256 MiB.
	DiskFloor int64
}

func (l *Limits) check() error {
	if l.BlockPeers != 0 && l.BlockPeers < wire.MinBlockCap {
		return fault.New(fault.InvalidArgument, "a cap of %d block peers is below %d", l.BlockPeers, wire.MinBlockCap)
	}
	setDefault(&l.QueueEntries, 10_000)
	setDefault(&l.QueueBytes, 64<<20)
	setDefault(&l.SenderEntries, max(1, l.QueueEntries/2))
	setDefault(&l.SenderBytes, max(1, l.QueueBytes/2))
	setDefault(&l.NetworkStored, 256<<20)
	setDefault(&l.NetworkQueued, 2<<30)
	setDefault(&l.Connections, 20_000)
	setDefault(&l.BodyMemory, 256<<20)
	setDefault(&l.DiskFloor, 256<<20)
	setDefault(&l.BlockPeers, 4096)
	setDefault(&l.StreamsPerIdentity, 16)
	setDefault(&l.Streams, 10_000)
	setDefault(&l.Publications, 1200)
	setDefault(&l.StrangersFrom, 600)
	setDefault(&l.StrangersTo, 300)
	return nil
}

func setDefault[T int | int64](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// rounding is what the sums of a bucket may be off by. An event that comes after
// the delay that was asked for is not refused for it.
const rounding = 1e-9

// maxBuckets bounds the memory of the limiter: some 100 bytes each.
const maxBuckets = 1 << 18

// limiter counts events by key. A key is a kind of event with the client
// network or identity that it is counted for.
type limiter struct {
	mu      sync.Mutex
	buckets map[string]bucket // guarded by mu
}

// bucket has spent this much of a minute's worth at that time.
type bucket struct {
	spent float64
	at    int64
}

func newLimiter() *limiter { return &limiter{buckets: map[string]bucket{}} }

// allow counts one event of key at now, of which perMinute are allowed. It
// refuses with rate_limited, and then counts nothing.
func (l *limiter) allow(key string, perMinute, now int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[key].after(perMinute, now)
	if _, known := l.buckets[key]; known {
		// Also when it refuses: a clock that was set back starts counting here.
		l.buckets[key] = b
	}
	if over := b.spent + 1 - float64(perMinute); over > rounding {
		e := fault.New(relayapi.RateLimited, "more than %d a minute", perMinute)
		e.RetryAfter = int64(math.Ceil(over * 60 / float64(perMinute)))
		return e
	}
	l.makeRoom(maxBuckets, now)
	b.spent++
	l.buckets[key] = b
	return nil
}

// makeRoom forgets counts when there are as many as there may be: those that are
// over and, if that is not enough, any eighth. That lets some through; keeping
// more would let whoever has many networks fill the memory. The caller holds mu.
func (l *limiter) makeRoom(most int, now int64) {
	if len(l.buckets) < most {
		return
	}
	l.drop(now)
	for key := range l.buckets {
		if len(l.buckets) <= most-most/8 {
			return
		}
		delete(l.buckets, key)
	}
}

// after returns b as it is at now: what was spent comes back evenly.
func (b bucket) after(perMinute, now int64) bucket {
	passed := max(0, now-b.at)
	return bucket{spent: max(0, b.spent-float64(passed)*float64(perMinute)/60), at: now}
}

// forget drops the counts that are older than a minute.
func (l *limiter) forget(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(now)
}

func (l *limiter) drop(now int64) {
	for key, b := range l.buckets {
		if now-b.at > 60 {
			delete(l.buckets, key)
		}
	}
}
