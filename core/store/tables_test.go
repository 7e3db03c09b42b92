package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/ace-toolkit/ace/core/store"
)

const bob = "ace:sha256:bbbb"

func TestPeers(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(
			tx.SetPin(alice, store.Pin{KEL: []byte("[1]"), FetchedAt: 1}),
			tx.SetPin(alice, store.Pin{KEL: []byte("[1,2]"), FetchedAt: 2}),
			tx.SetDescriptor(alice, []byte("a")), tx.SetDescriptor(alice, []byte("b")),
			tx.SetCard(alice, store.Card{IssuedAt: 5, ClaimsDigest: "x", Raw: []byte("c5")}),
			tx.SetCard(alice, store.Card{IssuedAt: 4, ClaimsDigest: "y", Raw: []byte("c4")}),
			tx.SetHandlePin("https://r", "al", alice), tx.SetHandlePin("https://r", "al", bob),
			tx.SetPinRefreshed(alice, 3), tx.SetPinRefreshed(alice, 4),
			tx.SetName(alice, "al"), tx.SetName(alice, "ali"),
		)
	})
	update(t, s, func(tx *store.Tx) error {
		pin, ok, err := tx.Pin(alice)
		check(t, err, ok && string(pin.KEL) == "[1,2]" && pin.FetchedAt == 2, "pin %v", pin)
		raw, err := tx.Descriptor(alice)
		check(t, err, string(raw) == "b", "descriptor %s", raw)
		card, ok, err := tx.Card(alice)
		check(t, err, ok && card.IssuedAt == 5 && card.ClaimsDigest == "x", "an older card replaced a newer one: %v", card)
		peer, err := tx.HandlePin("https://r", "al")
		check(t, err, peer == alice, "a handle pin changed to %s", peer)
		handle, err := tx.PinnedHandle(alice, "https://r")
		check(t, err, handle == "al", "handle %q", handle)
		at, ok, err := tx.PinRefreshed(alice)
		check(t, err, ok && at == 4, "refreshed at %d", at)
		named, err := tx.PeerNamed("ali")
		check(t, err, named == alice, "named %q", named)
		gone, err := tx.PeerNamed("al")
		check(t, err, gone == "", "the earlier name still names %q", gone)
		pinned, err := tx.Pinned()
		check(t, err, reflect.DeepEqual(pinned, []string{alice}), "pinned %v", pinned)
		return nil
	})
}

func check(t *testing.T, err error, ok bool, format string, args ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Errorf(format, args...)
	}
}

func TestContactsExpire(t *testing.T) {
	s := newStore(t)
	row := store.Contact{Peer: alice, State: "pending", Profile: "p", Since: 1, ExpiresAt: 10}
	update(t, s, func(tx *store.Tx) error { return tx.SetContact(row) })
	update(t, s, func(tx *store.Tx) error {
		got, ok, err := tx.Contact(alice, 9)
		check(t, err, ok && got == row, "before: %v", got)
		_, ok, err = tx.Contact(alice, 10)
		check(t, err, !ok, "a row expires at exactly its time")
		all, err := tx.Contacts(10)
		check(t, err, len(all) == 0, "listed %v", all)
		return nil
	})
}

func TestRequestsKeepTheirOrder(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.AddRequest(store.Request{Peer: alice, Body: []byte("1"), ReceivedAt: 5}),
			tx.AddRequest(store.Request{Peer: bob, Body: []byte("2"), ReceivedAt: 5}),
			tx.AddRequest(store.Request{Peer: alice, Body: []byte("3"), ReceivedAt: 5}))
	})
	update(t, s, func(tx *store.Tx) error {
		got, err := tx.Requests(4)
		check(t, err, len(got) == 2 && got[0].Peer == bob && string(got[1].Body) == "3", "requests %v", got)
		none, err := tx.Requests(5)
		check(t, err, len(none) == 0, "expired ones are listed")
		return nil
	})
}

func TestMessages(t *testing.T) {
	s := newStore(t)
	message := func(i int) store.Message {
		return store.Message{MessageID: fmt.Sprintf("0000000%d-", i), Peer: alice, Type: "t", Body: []byte("{}"), SentAt: int64(i), ReceivedAt: int64(i)}
	}
	update(t, s, func(tx *store.Tx) error {
		for i := range 5 {
			if err := errors.Join(tx.AddMessage(message(i)), tx.AddMessage(message(i))); err != nil {
				return err
			}
		}
		other := message(1)
		other.Peer = bob // two senders may choose the same ID
		if err := tx.AddMessage(other); err != nil {
			return err
		}
		_, err := tx.SetHandled(alice, other.MessageID)
		return err
	})
	update(t, s, func(tx *store.Tx) error {
		newest, err := tx.Messages(store.MessageFilter{Limit: 2})
		check(t, err, len(newest) == 2 && newest[0].SentAt == 4 && newest[1].Peer == bob && !newest[1].Handled, "newest two %v", newest)
		open, err := tx.Messages(store.MessageFilter{Unhandled: true, Peer: alice, Since: 1})
		check(t, err, len(open) == 3, "unhandled %v", open)
		n, err := tx.CountUnhandled()
		check(t, err, n == 5, "unhandled count %d", n)
		found, err := tx.MessagesWithPrefix("00000003", "", 2)
		check(t, err, len(found) == 1 && found[0].SentAt == 3, "prefix %v", found)
		both, err := tx.MessagesWithPrefix("00000001", "", 3)
		check(t, err, len(both) == 2, "of two senders %v", both)
		one, err := tx.MessagesWithPrefix("00000001", bob, 3)
		check(t, err, len(one) == 1 && one[0].Peer == bob, "of one sender %v", one)
		return nil
	})
}

func TestOutbox(t *testing.T) {
	s := newStore(t)
	e := store.OutboxEntry{MessageID: "m", Peer: alice, Content: []byte("{}"), Type: "t", RequestID: "r", CreatedAt: 1, State: store.Pending, NextAttemptAt: 1}
	update(t, s, func(tx *store.Tx) error { return tx.AddOutbox(e) })
	update(t, s, func(tx *store.Tx) error {
		e.Attempts, e.FirstAttemptAt, e.NextAttemptAt, e.Prekey, e.PrekeyIsPeer = 1, 2, 62, "k", true
		return errors.Join(tx.SaveOutbox(e), tx.SetReceiptApplied("m", "delivered", ""))
	})
	update(t, s, func(tx *store.Tx) error {
		got, ok, err := tx.OutboxByRequest(alice, "r")
		check(t, err, ok && reflect.DeepEqual(got, e), "entry %v", got)
		due, err := tx.OutboxPending(61)
		check(t, err, len(due) == 0, "due too early: %v", due)
		due, err = tx.OutboxPending(62)
		check(t, err, len(due) == 1, "not due")
		applied, err := tx.ReceiptApplied("m", "delivered", "")
		check(t, err, applied, "receipt forgotten")
		return nil
	})
}

func TestBoundedTables(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		for i := range 110 {
			if err := tx.AddQuarantine(store.Quarantined{At: int64(i), Packet: []byte("{}")}); err != nil {
				return err
			}
		}
		return nil
	})
	update(t, s, func(tx *store.Tx) error {
		kept, err := tx.Quarantine()
		check(t, err, len(kept) == 100 && kept[99].At == 109, "%d quarantined", len(kept))
		return nil
	})
}

func TestRetryCounts(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		for want := int64(1); want <= 3; want++ {
			n, err := tx.AddRetry("1-0", want)
			check(t, err, n == want, "count %d", n)
		}
		return tx.ClearRetries("1-0")
	})
	update(t, s, func(tx *store.Tx) error {
		counts, err := tx.Retries()
		check(t, err, len(counts) == 0, "count not cleared")
		return nil
	})
}

func TestSeenCounters(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *store.Tx) error {
		return errors.Join(addSeen(tx, store.Seen{Timestamp: 1, Peer: alice, MessageID: "a"}),
			addSeen(tx, store.Seen{Timestamp: 2, Peer: alice, MessageID: "b"}),
			addSeen(tx, store.Seen{Timestamp: 3, Peer: bob, MessageID: "a"}),
			tx.DeleteSeenOf(alice, 1), tx.DeleteSeen(0))
	})
	update(t, s, func(tx *store.Tx) error {
		total, err := tx.SeenCount()
		check(t, err, total == 2, "total %d", total)
		of, err := tx.SeenCountOf(alice)
		check(t, err, of == 1, "of alice %d", of)
		return nil
	})
}
