package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/store"
)

// The seen store counts and orders its entries as a plain list does
// (06#deduplication), whichever are added and deleted.
func TestSeenFollowsItsEntries(t *testing.T) {
	s := newStore(t)
	r := rand.New(rand.NewPCG(1, 2))
	var list []store.Seen
	update(t, s, func(tx *store.Tx) error {
		for i := range 600 {
			peer, at := fmt.Sprint("p", r.IntN(6)), r.Int64N(50)
			deletes := func(e store.Seen) bool { return e.Timestamp <= at && e.Peer == peer }
			var err error
			switch r.IntN(20) {
			case 0:
				deletes = func(e store.Seen) bool { return e.Timestamp <= at/2 }
				err = tx.DeleteSeen(at / 2)
			case 1, 2:
				err = tx.DeleteSeenOf(peer, at)
			default:
				deletes = func(store.Seen) bool { return false }
				e := store.Seen{Timestamp: at, Peer: peer, MessageID: fmt.Sprint("m", i)}
				list = append(list, e)
				err = addSeen(tx, e)
			}
			if err != nil {
				return err
			}
			list = slices.DeleteFunc(list, deletes)
			slices.SortFunc(list, compareSeen)
			checkSeen(t, tx, list, peer, at)
		}
		return nil
	})
}

func addSeen(tx *store.Tx, e store.Seen) error {
	state, err := tx.SeenState(e.Peer)
	if err != nil {
		return err
	}
	return tx.AddSeen(e, &state)
}

func compareSeen(a, b store.Seen) int {
	if a.Timestamp != b.Timestamp {
		return int(a.Timestamp - b.Timestamp)
	}
	return strings.Compare(a.Peer+" "+a.MessageID, b.Peer+" "+b.MessageID)
}

func checkSeen(t *testing.T, tx *store.Tx, list []store.Seen, peer string, at int64) {
	t.Helper()
	var first, latest, firstOf int64
	of := 0
	for _, e := range list {
		if e.Peer == peer {
			if of++; of == 1 {
				firstOf = e.Timestamp
			}
		}
		if e.Timestamp < at {
			latest = e.Timestamp
		}
	}
	if len(list) > 0 {
		first = list[0].Timestamp
	}
	state, err := tx.SeenState(peer)
	check(t, err, state.Entries == int64(len(list)) && state.OfSender == int64(of) && state.Earliest == first && state.EarliestOfSender == firstOf,
		"state %+v, want %d entries, %d of %s, the earliest at %d and %d", state, len(list), of, peer, first, firstOf)
	smallest, ok, err := tx.SmallestSeen()
	check(t, err, ok == (len(list) > 0) && (!ok || smallest == list[0]), "smallest %+v %t", smallest, ok)
	before, _, err := tx.LatestSeenBefore(at)
	check(t, err, before == latest, "the latest before %d is at %d, want %d", at, before, latest)
	entries, err := tx.SeenEntries()
	check(t, err, slices.Equal(entries, list), "%d entries, want %d", len(entries), len(list))
	if t.Failed() {
		t.FailNow()
	}
}
