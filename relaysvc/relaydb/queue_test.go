package relaydb_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestEnqueueDecides calls Enqueue alone, without the look at the recipient
// that comes first and that another request may have made out of date.
func TestEnqueueDecides(t *testing.T) {
	d := newDB(t)
	alice := registered(t, d, "alice")
	n := 0
	enqueue := func(kelEnd, network string) error {
		n++
		p := packet("alice", "bob", fmt.Sprint("packet ", n))
		p.KELEnd, p.Network = kelEnd, network
		queued, err := d.Enqueue(ctx, p, relaydb.Room{Entries: 1, Bytes: 100, Strangers: 3, PerNetwork: 2})
		if queued != (err == nil) {
			t.Fatalf("queued %v, error %v", queued, err)
		}
		return err
	}
	refused(t, enqueue("end-of-an-earlier-kel", ""), relaydb.Changed)
	refused(t, enqueue("", "a"), relaydb.Unreachable)
	must(t, d.PublishDescriptor(ctx, relaydb.Descriptor{ACEID: "alice", KELEnd: alice.KELEnd, ExpiresAt: now + 1, Raw: []byte("{}")}))
	refused(t, enqueue("", "a"), relaydb.Unreachable)
	card := relaydb.Card{ACEID: "alice", KELEnd: alice.KELEnd, Raw: []byte("{}")}
	publish := func(open bool) {
		t.Helper()
		card.Open, card.IssuedAt = open, card.IssuedAt+1
		must(t, d.PublishCard(ctx, card, 0, 0, func(relaydb.Bindings) (bool, error) { return false, nil }))
	}
	publish(false)
	refused(t, enqueue("", "a"), relaydb.Unreachable)
	publish(true)
	must(t, errors.Join(enqueue("", "a"), enqueue("", "a")))
	refused(t, enqueue("", "a"), relaydb.Full)
	must(t, enqueue("", "b"))
	refused(t, enqueue("", "c"), relaydb.Full)
	must(t, enqueue(alice.KELEnd, "a"))
	refused(t, enqueue(alice.KELEnd, "a"), relaydb.Full)
	if got := len(queue(t, d, "alice")); got != 4 {
		t.Fatalf("%d entries", got)
	}

	// What was read for another incarnation does not hold.
	_, err := d.Entries(ctx, relaydb.Span{ACEID: "alice", Incarnation: alice.Incarnation + 1, Entries: 1, Bytes: 100, Now: now}, nil)
	refused(t, err, relaydb.Changed)
	_, err = d.Newest(ctx, "alice", alice.Incarnation+1)
	refused(t, err, relaydb.Changed)
}
