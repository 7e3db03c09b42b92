package delivery_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// naiveSeen is 06#deduplication word by word over a slice.
type naiveSeen struct {
	c       int64
	h       int64
	of      map[string]int64
	entries []store.Seen
}

func (s *naiveSeen) judge(e store.Seen) delivery.Verdict {
	for _, x := range s.entries {
		if x.Peer == e.Peer && x.MessageID == e.MessageID {
			return delivery.VerdictDuplicate
		}
	}
	if h, ok := s.of[e.Peer]; e.Timestamp <= s.h || ok && e.Timestamp <= h {
		return delivery.VerdictBeyondHorizon
	}
	return delivery.VerdictNew
}

func compareSeen(a, b store.Seen) int {
	return cmp.Or(cmp.Compare(a.Timestamp, b.Timestamp), cmp.Compare(a.Peer, b.Peer), cmp.Compare(a.MessageID, b.MessageID))
}

func (s *naiveSeen) raise(peer string, t int64) {
	if h, ok := s.of[peer]; !ok || t > h {
		s.of[peer] = t
	}
}

func (s *naiveSeen) removeIf(gone func(store.Seen) bool) {
	s.entries = slices.DeleteFunc(s.entries, gone)
}

func (s *naiveSeen) commit(e store.Seen, now int64) {
	s.entries = append(s.entries, e)
	slices.SortFunc(s.entries, compareSeen)
	for len(s.entries) > 0 && s.entries[0].Timestamp < now-2*wire.OfflineWindowSeconds {
		s.h = max(s.h, s.entries[0].Timestamp)
		s.entries = s.entries[1:]
	}
	for {
		var own []store.Seen
		for _, x := range s.entries {
			if x.Peer == e.Peer {
				own = append(own, x)
			}
		}
		if int64(len(own)) <= max(1, s.c/16) {
			break
		}
		s.evict(own[0])
	}
	for int64(len(s.entries)) > s.c {
		s.evict(s.entries[0])
	}
	s.fold()
}

func (s *naiveSeen) evict(e store.Seen) {
	s.removeIf(func(x store.Seen) bool { return x == e })
	s.raise(e.Peer, e.Timestamp)
	s.removeIf(func(x store.Seen) bool { return x.Peer == e.Peer && x.Timestamp <= s.of[e.Peer] })
}

func (s *naiveSeen) fold() {
	low := func(_ string, h int64) bool { return h <= s.h }
	maps.DeleteFunc(s.of, low)
	if int64(len(s.of)) <= s.c {
		return
	}
	senders := slices.SortedFunc(maps.Keys(s.of), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.of[a], s.of[b]), cmp.Compare(a, b))
	})
	for _, x := range senders[:int64(len(senders))-s.c/2] {
		s.h = max(s.h, s.of[x])
		delete(s.of, x)
	}
	s.removeIf(func(x store.Seen) bool { return x.Timestamp <= s.h })
	maps.DeleteFunc(s.of, low)
}

// TestSeenStoreModel compares the seen store with the naive one over random
// packets, clocks that go back included: with what it reads remembered for one
// packet, and for all.
func TestSeenStoreModel(t *testing.T) {
	for i := range uint64(10) {
		seed, remember := i%5, i >= 5
		t.Run(fmt.Sprint(seed, remember), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1))
			capacity := []int64{5, 16, 33, 48, 64}[seed]
			s := openStore(t)
			real := delivery.SeenStore{Capacity: capacity}
			model := &naiveSeen{c: capacity, h: start - 2*wire.OfflineWindowSeconds - 1, of: map[string]int64{}}
			err := s.Update(t.Context(), func(tx *store.Tx) error {
				if err := real.Start(tx, start); err != nil {
					return err
				}
				now := start
				in := real.TestOnlyIn(tx)
				for range 500 {
					if !remember {
						in = real.TestOnlyIn(tx)
					}
					now += r.Int64N(4000) - 500
					e := store.Seen{
						Timestamp: now - r.Int64N(3*wire.OfflineWindowSeconds/2),
						Peer:      fmt.Sprintf("p%d", r.IntN(3*int(capacity))), MessageID: fmt.Sprintf("m%d", r.IntN(40)),
					}
					if r.IntN(4) == 0 {
						e.Peer = "busy"
					}
					if err := stepModel(t, tx, in, model, e, now); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if model.h == start-2*wire.OfflineWindowSeconds-1 || len(model.of) == 0 {
				t.Fatal("the packets never moved a horizon: the test does not look")
			}
		})
	}
}

func stepModel(t *testing.T, tx *store.Tx, in delivery.TestOnlySeenTx, model *naiveSeen, e store.Seen, now int64) error {
	verdict, err := in.Judge(e)
	if err != nil {
		return err
	}
	if want := model.judge(e); verdict != want {
		t.Fatalf("%+v: %s, want %s", e, verdict, want)
	}
	if verdict != delivery.VerdictNew {
		return nil
	}
	model.commit(e, now)
	if err := in.Commit(e, now); err != nil {
		return err
	}
	h, _, err := tx.SeenHorizon()
	if err != nil || now%4 != 0 { // what is wrong at one time stays wrong
		return err
	}
	entries, err := tx.SeenEntries()
	if err != nil {
		return err
	}
	horizons, err := tx.SenderHorizons(-1)
	if err != nil {
		return err
	}
	of := map[string]int64{}
	for _, x := range horizons {
		of[x.Peer] = x.Horizon
	}
	count, err := tx.CountSenderHorizons()
	if err != nil {
		return err
	}
	total, err := tx.SeenCount()
	if h != model.h || !slices.Equal(entries, model.entries) || !maps.Equal(of, model.of) || total != int64(len(entries)) || count != int64(len(of)) {
		t.Fatalf("after %+v at %d: H %d, want %d; %d entries, want %d; %d horizons, want %d", e, now, h, model.h, len(entries), len(model.entries), len(of), len(model.of))
	}
	return err
}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "ace", "store.db"), suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A horizon that is missing beside a delivery history is no new store, whichever
// part of the history is left (06#deduplication).
func TestSeenStoreRefusesALostHorizon(t *testing.T) {
	for name, c := range map[string]struct {
		history func(tx *store.Tx) error
		code    fault.Code
	}{
		"entries": {func(tx *store.Tx) error {
			return tx.AddSeen(store.Seen{Timestamp: start, Peer: "a", MessageID: "m"}, &store.SeenState{})
		}, fault.StorageFailed},
		"messages": {func(tx *store.Tx) error {
			return tx.AddMessage(store.Message{MessageID: "m", Peer: "a", Body: []byte("{}")})
		}, fault.StorageFailed},
		"none": {func(*store.Tx) error { return nil }, ""},
	} {
		err := openStore(t).Update(t.Context(), func(tx *store.Tx) error {
			return cmp.Or(c.history(tx), delivery.SeenStore{Capacity: 100}.Start(tx, start))
		})
		if fault.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSeenCapacity: C is at least 100,000 (06#deduplication).
func TestSeenCapacity(t *testing.T) {
	if c := newWorld().newEndpoint(t, "", nil).node.TestOnlySeenCapacity(); c < 100_000 {
		t.Errorf("C is %d", c)
	}
}

// TestRetryBehindTheHorizon: a packet at a horizon, H or that of its sender, is
// dropped without a receipt, one a second later is new; the next retry, signed
// with a fresh timestamp, is delivered (06#deduplication).
func TestRetryBehindTheHorizon(t *testing.T) {
	for name, raise := range map[string]func(tx *store.Tx, sender string, h int64) error{
		"H": func(tx *store.Tx, _ string, h int64) error { return tx.SetSeenHorizon(h) },
		"H[from]": func(tx *store.Tx, sender string, h int64) error {
			_, err := tx.RaiseSenderHorizon(sender, h)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, alice, bob := friends(t)
			alice.update(func(tx *store.Tx) error { return raise(tx, bob.id.ACEID(), w.now) })
			sent := bob.send(alice, "x")
			posted := len(w.posted)
			alice.pullOne(delivery.Dropped, fault.ReplayHorizon)
			if len(w.posted) != posted {
				t.Error("a packet beyond the horizon was receipted")
			}
			later := sealTo(alice, bob.id, profile.TextType, textBody("y"), w.now+1)
			if got := alice.take(later); got.Outcome != delivery.Delivered {
				t.Errorf("a second later: %+v", got)
			}
			w.now += 60
			bob.attempt(sent.MessageID)
			alice.pullOne(delivery.Delivered, "")
		})
	}
}

// TestSeenStoreIsUndoneTogether: entries and horizons are persisted together
// (06#deduplication): what a transaction that fails has moved is as it was.
func TestSeenStoreIsUndoneTogether(t *testing.T) {
	s := openStore(t)
	seen := delivery.SeenStore{Capacity: 2}
	commit := func(id string, then error) error {
		return s.Update(t.Context(), func(tx *store.Tx) error {
			if err := seen.Start(tx, start); err != nil {
				return err
			}
			return cmp.Or(seen.Commit(tx, store.Seen{Timestamp: start + int64(len(id)), Peer: "a", MessageID: id}, start), then)
		})
	}
	state := func() (entries []store.Seen, horizons []store.SenderHorizon) {
		err := s.View(t.Context(), func(tx *store.Tx) (err error) {
			if entries, err = tx.SeenEntries(); err != nil {
				return err
			}
			horizons, err = tx.SenderHorizons(-1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return entries, horizons
	}
	if err := commit("m", nil); err != nil {
		t.Fatal(err)
	}
	entries, horizons := state()
	if err := commit("mm", errors.New("end")); err == nil {
		t.Fatal("the transaction did not fail")
	}
	if e, h := state(); !slices.Equal(e, entries) || !slices.Equal(h, horizons) {
		t.Errorf("entries %v, horizons %v", e, h)
	}
	if err := commit("mm", nil); err != nil {
		t.Fatal(err)
	}
	if e, h := state(); slices.Equal(e, entries) || len(h) != 1 {
		t.Errorf("entries %v, horizons %v: the test does not look", e, h)
	}
}

// TestRetryOfAWeek: a retry signed OFFLINE_WINDOW_SECONDS after the first attempt
// that waited as long at the relay is a duplicate still (06#deduplication).
func TestRetryOfAWeek(t *testing.T) {
	w, alice, bob := friends(t)
	const week = wire.OfflineWindowSeconds
	text := delivery.Message{Type: profile.TextType, Body: textBody("x")}
	id := suite.NewMessageID()
	first := alice.sealMessage(bob, id, text)
	w.now += week
	again := alice.sealMessage(bob, id, text)
	w.now -= week
	alice.take(first)
	w.now += 2 * week
	alice.publish("open")
	bob.publish("")
	alice.take(alice.sealMessage(bob, suite.NewMessageID(), text)) // moves the floor
	if got := alice.take(again); got.Outcome != delivery.Duplicate {
		t.Errorf("got %+v", got)
	}
}

// TestSameIDOfTwoSenders: a message is known by its sender and its ID: another
// sender's with the same ID is new (06#deduplication).
func TestSameIDOfTwoSenders(t *testing.T) {
	w, alice, bob := friends(t)
	carol := w.newEndpoint(t, "open", nil)
	befriend(carol, alice)
	id := suite.NewMessageID()
	for _, c := range []struct {
		from    *endpoint
		outcome delivery.Outcome
	}{{bob, delivery.Delivered}, {carol, delivery.Delivered}, {bob, delivery.Duplicate}, {carol, delivery.Duplicate}} {
		if got := alice.take(alice.sealMessage(c.from, id, delivery.Message{Type: profile.TextType, Body: textBody("x")})); got.Outcome != c.outcome {
			t.Errorf("got %+v, want %s", got, c.outcome)
		}
	}
	if texts := alice.inbox(); len(texts) != 2 {
		t.Errorf("inbox %q", texts)
	}
}
