package store_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/ace-toolkit/ace/core/store"
)

func TestUnsettledBlocks(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(
			tx.SetBlock(store.Block{Peer: alice, Blocked: true, Revision: 5}),
			tx.SetBlock(store.Block{Peer: alice, Revision: 6, Posted: "https://b", Settled: "https://b", Superseded: true}),
			tx.SetBlock(store.Block{Peer: bob, Blocked: true, Revision: 3}),
		)
	})
	update(t, s, func(tx *store.Tx) error {
		for relay, want := range map[string][]string{"https://a": {bob, alice}, "https://b": {bob}, "https://c": {bob, alice}} {
			due, err := tx.UnsettledBlocks(relay)
			var peers []string
			for _, b := range due {
				peers = append(peers, b.Peer)
			}
			check(t, err, reflect.DeepEqual(peers, want), "at %s: %v", relay, due)
		}
		return tx.ForgetSettledBlocks("https://b")
	})
	update(t, s, func(tx *store.Tx) error {
		got, ok, err := tx.Block(alice)
		check(t, err, ok && got == store.Block{Peer: alice, Revision: 6}, "forgotten: %+v", got)
		return nil
	})
}

// Who is due a permit follows from the permits and the rows, in whichever order
// they were written.
func TestContactsDueAPermit(t *testing.T) {
	s := newStore(t)
	row := func(peer, state string) store.Contact { return store.Contact{Peer: peer, State: state, Since: 1} }
	permit := func(under string) store.Permit { return store.Permit{Raw: []byte("{}"), Delegation: under} }
	const carl, dora = "ace:sha256:cccc", "ace:sha256:dddd"
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(
			tx.SetPermit(alice, store.PermitIssued, permit("d1")), tx.SetContact(row(alice, "admitted")),
			tx.SetContact(row(bob, "admitted")), tx.SetPermit(bob, store.PermitIssued, permit("d2")), tx.SetPermit(bob, store.PermitHeld, permit("")),
			tx.SetContact(row(carl, "pending")), tx.SetContact(row(dora, "admitted")),
		)
	})
	want := func(delegation string, peers ...string) {
		t.Helper()
		update(t, s, func(tx *store.Tx) error {
			due, err := tx.ContactsDueAPermit(delegation)
			var got []string
			for _, c := range due {
				got = append(got, c.Peer)
			}
			check(t, err, reflect.DeepEqual(got, peers), "under %s: %v", delegation, got)
			return nil
		})
	}
	want("d1", bob, dora)
	want("d2", alice, dora)
	want("d3", alice, bob, dora)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.SetContact(row(bob, "admitted")), tx.SetContact(row(dora, "blocked")), tx.DeletePermits(alice))
	})
	want("d1", alice, bob)
	update(t, s, func(tx *store.Tx) error {
		all, err := tx.Permits()
		check(t, err, len(all) == 2 && all[0].Direction == store.PermitHeld && all[1].Delegation == "d2", "permits %+v", all)
		return nil
	})
}

func TestPruning(t *testing.T) {
	s := newStore(t)
	entry := func(id, state string, settled int64) store.OutboxEntry {
		return store.OutboxEntry{MessageID: id, Peer: alice, Content: []byte("{}"), State: state, SettledAt: settled}
	}
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(
			tx.SetContact(store.Contact{Peer: alice, State: "pending", ExpiresAt: 10}),
			tx.SetContact(store.Contact{Peer: bob, State: "admitted"}),
			tx.AddRequest(store.Request{Peer: alice, Body: []byte("{}"), ReceivedAt: 10}),
			tx.AddRequest(store.Request{Peer: bob, Body: []byte("{}"), ReceivedAt: 11}),
			tx.AddOutbox(entry("a", store.Pending, 0)), tx.AddOutbox(entry("b", store.Delivered, 10)), tx.AddOutbox(entry("c", store.Expired, 11)),
			tx.SetReceiptApplied("b", "delivered", ""),
		)
	})
	for _, c := range []struct {
		at   int64
		want int64
	}{{9, 0}, {10, 3}, {10, 0}, {11, 2}} {
		update(t, s, func(tx *store.Tx) error {
			contacts, err := tx.DeleteExpiredContacts(c.at)
			requests, err2 := tx.DeleteRequests(c.at)
			entries, err3 := tx.DeleteSettled(c.at)
			check(t, errors.Join(err, err2, err3), contacts+requests+entries == c.want, "at %d: %d, %d, %d", c.at, contacts, requests, entries)
			return nil
		})
	}
	update(t, s, func(tx *store.Tx) error {
		left, err := tx.OutboxEntries()
		check(t, err, len(left) == 1 && left[0].MessageID == "a", "left %v", left)
		contacts, err := tx.Contacts(0)
		check(t, err, len(contacts) == 1 && contacts[0].Peer == bob, "left %v", contacts)
		return nil
	})
}
