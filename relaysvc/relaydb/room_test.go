package relaydb_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// sound checks the structure, the packets and the totals of a store.
func sound(t *testing.T, d *relaydb.DB) relaydb.Report {
	t.Helper()
	r, err := d.Verify(ctx)
	must(t, err)
	if len(r.Problems) > 0 {
		t.Fatalf("problems: %q", r.Problems)
	}
	return r
}

// try queues a packet of a sender with some bytes, which differ each time.
func try(t *testing.T, d *relaydb.DB, to, from string, size int, room relaydb.Room) error {
	t.Helper()
	text := suite.NewMessageID() + strings.Repeat("x", size-len(suite.NewMessageID()))
	queued, err := d.Enqueue(ctx, packet(to, from, text), room)
	if queued != (err == nil) {
		t.Fatalf("queued %v, error %v", queued, err)
	}
	return err
}

// TestSenderShare fills a sender's share of a queue. Others have room left, and
// what the sender has in other queues does not count.
func TestSenderShare(t *testing.T) {
	for name, room := range map[string]relaydb.Room{
		"entries": {Entries: 5, Bytes: 1 << 20, SenderEntries: 3},
		"bytes":   {Entries: 100, Bytes: 500, SenderBytes: 300},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDB(t)
			alice := registered(t, d, "alice")
			registered(t, d, "carol")
			from, other := wire.ACEID(suite.Hex256([]byte("1"))), wire.ACEID(suite.Hex256([]byte("2")))
			for range 3 {
				must(t, try(t, d, "alice", from, 100, room))
				must(t, try(t, d, "carol", from, 100, room))
			}
			refused(t, try(t, d, "alice", from, 100, room), relaydb.Full)
			must(t, errors.Join(try(t, d, "alice", other, 100, room), try(t, d, "alice", other, 100, room)))
			refused(t, try(t, d, "alice", other, 100, room), relaydb.Full)
			must(t, d.Ack(ctx, caller("alice", alice), "1-1"))
			must(t, try(t, d, "alice", from, 100, room))
			sound(t, d)
		})
	}
}

// TestDuplicateComesFirst sends what is queued already where there is no room.
func TestDuplicateComesFirst(t *testing.T) {
	d := newDB(t)
	registered(t, d, "alice")
	p := packet("alice", "bob", "once")
	enqueue(t, d, p)
	for name, room := range map[string]relaydb.Room{
		"queue": {Entries: 1, Bytes: 100}, "share": {Entries: 9, Bytes: 100, SenderEntries: 1},
		"network": {Entries: 9, Bytes: 100, NetworkQueued: 1}, "room": room,
	} {
		if queued, err := d.Enqueue(ctx, p, room); queued || err != nil {
			t.Errorf("%s: queued %v, error %v", name, queued, err)
		}
	}
	if n := len(queue(t, d, "alice")); n != 1 {
		t.Fatalf("%d entries", n)
	}
}

// TestNetworkBudget fills the budget of the network that recipients registered
// from.
func TestNetworkBudget(t *testing.T) {
	d := newDB(t)
	alice := registered(t, d, "alice")
	registered(t, d, "carol")
	must(t, d.Register(ctx, relaydb.Registration{ACEID: "dave", KELEnd: "end-dave", KEL: []byte("[]"), Network: "another"}, nil))
	room := relaydb.Room{Entries: 100, Bytes: 1 << 20, NetworkQueued: 250}
	must(t, errors.Join(try(t, d, "alice", "bob", 100, room), try(t, d, "carol", "bob", 100, room)))
	refused(t, try(t, d, "alice", "bob", 100, room), relaydb.OverBudget)
	refused(t, try(t, d, "carol", "bob", 100, room), relaydb.OverBudget)
	must(t, try(t, d, "dave", "bob", 100, room))
	must(t, d.Ack(ctx, caller("alice", alice), "1-1"))
	must(t, try(t, d, "carol", "bob", 100, room))
	sound(t, d)
}

// TestQuotaInPlaceOfRoom gives one identity less room and another one more.
func TestQuotaInPlaceOfRoom(t *testing.T) {
	d := newDB(t)
	registered(t, d, "alice")
	registered(t, d, "carol")
	must(t, d.SetQuota(ctx, "alice", &relaydb.Quota{Entries: 1, Bytes: 1000}))
	must(t, d.SetQuota(ctx, "carol", &relaydb.Quota{Entries: 3, Bytes: 1000}))
	room := relaydb.Room{Entries: 2, Bytes: 1000}
	for id, want := range map[string]int{"alice": 1, "carol": 3} {
		for range want {
			must(t, try(t, d, id, "bob", 100, room))
		}
		refused(t, try(t, d, id, "bob", 100, room), relaydb.Full)
	}
}

// TestSuspendedTakesNothing suspends a recipient, to whom a look and a packet
// then say what they say of an unknown one.
func TestSuspendedTakesNothing(t *testing.T) {
	d := newDB(t)
	registered(t, d, "alice")
	p := packet("alice", "bob", "before")
	enqueue(t, d, p)
	must(t, d.Suspend(ctx, "alice", true))
	refused(t, try(t, d, "alice", "bob", 100, room), relaydb.Unreachable)
	_, err := d.Recipient(ctx, p)
	refused(t, err, relaydb.Unreachable)
	if n := len(queue(t, d, "alice")); n != 1 {
		t.Fatalf("%d entries: what is queued stays its owner's", n)
	}
	must(t, d.Suspend(ctx, "alice", false))
	must(t, try(t, d, "alice", "bob", 100, room))
}

// TestExpiredMakesRoom fills a queue with what expires and then needs its room,
// before any sweep.
func TestExpiredMakesRoom(t *testing.T) {
	d := newDB(t)
	registered(t, d, "alice")
	room := relaydb.Room{Entries: 3, Bytes: 1000, SenderEntries: 2}
	old := packet("alice", "bob", "old")
	enqueue(t, d, old)
	must(t, errors.Join(try(t, d, "alice", "bob", 100, room), try(t, d, "alice", "eve", 100, room)))
	refused(t, try(t, d, "alice", "bob", 100, room), relaydb.Full)
	p := packet("alice", "bob", "new")
	p.Now, p.Expires = old.Expires, old.Expires+100
	if queued, err := d.Enqueue(ctx, p, room); err != nil || !queued {
		t.Fatalf("queued %v, error %v", queued, err)
	}
	// A twin of what has expired is no duplicate.
	again := old
	again.Now, again.Expires = p.Now, p.Expires
	if queued, err := d.Enqueue(ctx, again, relaydb.Room{Entries: 3, Bytes: 1000}); err != nil || !queued {
		t.Fatalf("queued %v, error %v", queued, err)
	}
	sound(t, d)
}

// TestExpiredTwin sends a packet whose expired twin is still stored and has to
// go, because there is room enough for both.
func TestExpiredTwin(t *testing.T) {
	d := newDB(t)
	registered(t, d, "alice")
	p := packet("alice", "bob", "twin")
	enqueue(t, d, p)
	enqueue(t, d, packet("alice", "bob", "another"))
	p.Now, p.Expires = p.Expires, p.Expires+100
	enqueue(t, d, p)
	if r := sound(t, d); r.Entries != 2 {
		t.Fatalf("%d entries", r.Entries)
	}
}

// TestTotalsOfGroups takes many decisions at the same time, of which commits
// take in several, and compares the totals with the rows.
func TestTotalsOfGroups(t *testing.T) {
	d := newDB(t)
	room := relaydb.Room{Entries: 20, Bytes: 1 << 20, SenderEntries: 12, Strangers: 16, PerNetwork: 2, NetworkQueued: 20_000}
	var group sync.WaitGroup
	for n := range 4 {
		id := fmt.Sprint("agent ", n)
		i := registered(t, d, id)
		callers := make([]relaydb.Caller, 40)
		for c := range callers {
			callers[c] = caller(id, i)
		}
		for sender := range 4 {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(n), uint64(sender)))
				for c := range callers {
					err := try(t, d, id, fmt.Sprint("sender ", sender), 100+random.IntN(400), room)
					if err != nil && !errors.Is(err, relaydb.Full) && !errors.Is(err, relaydb.OverBudget) {
						t.Error(err)
					}
					if c%4 == sender {
						if err := d.Ack(ctx, callers[c], fmt.Sprint("1-", c)); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	group.Wait()
	r := sound(t, d)
	s, err := d.Stats(ctx, now)
	must(t, err)
	if s.Entries != r.Entries || s.Bytes != r.Bytes || r.Entries == 0 {
		t.Fatalf("the statistics say %d entries of %d bytes, there are %d of %d", s.Entries, s.Bytes, r.Entries, r.Bytes)
	}
}
