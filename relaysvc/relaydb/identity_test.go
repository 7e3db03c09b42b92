package relaydb

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/wire"
)

// actor does to a store what one identity's requests do.
type actor struct {
	t      *testing.T
	d      *DB
	id     string
	ctx    context.Context
	nonces *int
}

func newActor(t *testing.T, d *DB, id string) actor {
	return actor{t: t, d: d, id: id, ctx: context.Background(), nonces: new(int)}
}

func (a actor) identity() Identity {
	a.t.Helper()
	i, err := a.d.Identity(a.ctx, a.id)
	if err != nil && err != error(NotRegistered) {
		a.t.Fatal(err)
	}
	return i
}

func (a actor) caller() Caller {
	*a.nonces++
	return Caller{ACEID: a.id, Incarnation: a.identity().Incarnation, Nonce: fmt.Sprint(*a.nonces)}
}

// register registers with a KEL of size bytes that ends in end.
func (a actor) register(network, end string, size int, budget int64) error {
	a.t.Helper()
	var seen *Identity
	if i, err := a.d.Identity(a.ctx, a.id); err == nil {
		seen = &i
	}
	return a.d.Register(a.ctx, Registration{
		ACEID: a.id, Digest: "m", KELEnd: end, KEL: make([]byte, size), Network: network, Budget: budget,
	}, seen)
}

func (a actor) unregister(now int64) error {
	return a.d.Unregister(a.ctx, a.caller(), a.identity(), now, now)
}

func (a actor) describe(size int, budget, now int64, profiles ...string) error {
	i := a.identity()
	return a.d.PublishDescriptor(a.ctx, Descriptor{
		ACEID: a.id, KELEnd: i.KELEnd, IssuedAt: now, ExpiresAt: now + 100, Profiles: profiles, Raw: make([]byte, size), Budget: budget,
	})
}

func (a actor) card(size int, budget, now int64, listed bool, tags ...string) error {
	i := a.identity()
	return a.d.PublishCard(a.ctx, Card{
		ACEID: a.id, KELEnd: i.KELEnd, IssuedAt: now, Home: "home", Listed: listed, Open: true, Tags: tags, Raw: make([]byte, size), Budget: budget,
	}, 0, now, func(Bindings) (bool, error) { return false, nil })
}

func (a actor) wake(token string, budget, now int64) error {
	return a.d.SetWake(a.ctx, a.caller(), WakeTarget{"gateway", token}, budget, now)
}

func (a actor) packet(text string, now int64) error {
	_, err := a.d.Enqueue(a.ctx, Packet{
		To: a.id, From: "bob", Digest: []byte(text), Raw: []byte(text), KELEnd: a.identity().KELEnd, Now: now, Expires: now + 50,
	}, Room{Entries: 100, Bytes: 1 << 20, Strangers: 16, PerNetwork: 2})
	return err
}

func ok(t *testing.T, errs ...error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

func wantRefusal(t *testing.T, err error, want Refusal) {
	t.Helper()
	if err != error(want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

// figures returns what a query finds, a row of integers.
func figures(t *testing.T, d *DB, query string, args ...any) []int64 {
	t.Helper()
	rows, err := d.reader.Query(query, args...)
	ok(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	ok(t, err)
	out := make([]int64, len(columns))
	dest := make([]any, len(out))
	for i := range out {
		dest[i] = &out[i]
	}
	for rows.Next() {
		ok(t, rows.Scan(dest...))
	}
	ok(t, rows.Err())
	return out
}

func stored(t *testing.T, d *DB, network string) int64 {
	t.Helper()
	return figures(t, d, "SELECT coalesce(max(stored), 0) FROM networks WHERE network = ?", network)[0]
}

func checkedTotals(t *testing.T, d *DB) {
	t.Helper()
	problems, err := d.CheckTotals(context.Background())
	ok(t, err)
	if len(problems) > 0 {
		t.Fatalf("%s", strings.Join(problems, "\n"))
	}
}

// TestCharges follows what a network is charged for through the life of an
// identity.
func TestCharges(t *testing.T) {
	d := newStore(t)
	a := newActor(t, d, "alice")
	const now, week = int64(1000), int64(wire.OfflineWindowSeconds)
	for _, s := range []struct {
		name string
		do   func() error
		n, m int64 // charged to the networks n and m afterwards
	}{
		{"registered", func() error { return a.register("n", "1", 100, 0) }, 1124, 0},
		{"refreshed from elsewhere", func() error { return a.register("m", "1", 100, 0) }, 1124, 0},
		{"descriptor", func() error { return a.describe(50, 0, now) }, 1174, 0},
		{"a longer one", func() error { return a.describe(80, 0, now+1) }, 1204, 0},
		{"a shorter one", func() error { return a.describe(30, 0, now+2) }, 1154, 0},
		{"card", func() error { return a.card(200, 0, now, true) }, 1354, 0},
		{"wake", func() error { return a.wake("0123456789", 0, now) }, 1371, 0},
		{"another wake", func() error { return a.wake("01234", 0, now) }, 1366, 0},
		{"rotated from elsewhere", func() error { return a.register("m", "2", 150, 0) }, 1416, 0},
		{"wake deleted", func() error { return d.DeleteWake(a.ctx, a.caller()) }, 1404, 0},
		{"wake deleted again", func() error { return d.DeleteWake(a.ctx, a.caller()) }, 1404, 0},
		{"descriptor expired", func() error { return d.releaseExpired(a.ctx, now+102) }, 1374, 0},
		{"unregistered", func() error { return a.unregister(now) }, 1174, 0},
		{"kel retained", func() error { return d.releaseExpired(a.ctx, now+week-1) }, 1174, 0},
		{"kel deleted", func() error { return d.releaseExpired(a.ctx, now+week) }, 1024, 0},
		{"and again", func() error { return d.releaseExpired(a.ctx, now+2*week) }, 1024, 0},
		{"registered again, elsewhere", func() error { return a.register("m", "2", 150, 0) }, 0, 1174},
		{"unregistered again", func() error { return a.unregister(now + 2*week) }, 0, 1174},
		{"registered again, where it was", func() error { return a.register("m", "3", 160, 0) }, 0, 1184},
	} {
		t.Run(s.name, func(t *testing.T) {
			ok(t, s.do())
			if n, m := stored(t, d, "n"), stored(t, d, "m"); n != s.n || m != s.m {
				t.Fatalf("charged %d and %d, want %d and %d", n, m, s.n, s.m)
			}
			checkedTotals(t, d)
		})
	}
}

// TestBudget lets each write exceed the budget of the network by one byte: it
// is refused and changes nothing. With that byte it is accepted.
func TestBudget(t *testing.T) {
	d := newStore(t)
	a, b := newActor(t, d, "alice"), newActor(t, d, "bob")
	const now = int64(1000)
	ok(t, d.SetHome(a.ctx, "home"))
	for _, s := range []struct {
		name  string
		do    func(budget int64) error
		total int64
	}{
		{"registration", func(n int64) error { return a.register("n", "1", 100, n) }, 1124},
		{"descriptor", func(n int64) error { return a.describe(50, n, now, "p") }, 1174},
		{"another identity", func(n int64) error { return b.register("n", "1", 100, n) }, 2298},
		{"a longer descriptor", func(n int64) error { return a.describe(51, n, now+1, "q") }, 2299},
		{"card", func(n int64) error { return a.card(10, n, now, true, "t") }, 2309},
		{"rotation", func(n int64) error { return a.register("m", "2", 101, n) }, 2310},
		{"wake", func(n int64) error { return a.wake("token", n, now) }, 2322},
	} {
		t.Run(s.name, func(t *testing.T) {
			before := image(t, d)
			wantRefusal(t, s.do(s.total-1), OverBudget)
			if after := image(t, d); after != before {
				t.Fatalf("was\n%s\nand is\n%s", before, after)
			}
			checkedTotals(t, d)
			ok(t, s.do(s.total))
			if n := stored(t, d, "n"); n != s.total {
				t.Fatalf("charged %d, want %d", n, s.total)
			}
		})
	}
	// What shrinks is accepted also by a network that is over its budget.
	ok(t, a.describe(20, 1, now+2))
	ok(t, a.unregister(now))
	wantRefusal(t, a.register("m", "2", 101, 1124), OverBudget)
	ok(t, a.register("m", "2", 101, 1125))
	checkedTotals(t, d)
}

// image is the whole store as text, but for spent nonces.
func image(t *testing.T, d *DB) string {
	t.Helper()
	var out strings.Builder
	for _, table := range []string{
		"identities", "networks", "kels", "descriptors", "descriptor_profiles", "cards", "card_tags", "directory", "handles", "blocks", "wakes", "queues", "entries",
	} {
		rows, err := d.reader.Query("SELECT * FROM " + table)
		ok(t, err)
		columns, err := rows.Columns()
		ok(t, err)
		for rows.Next() {
			values := make([]any, len(columns))
			dest := make([]any, len(columns))
			for i := range values {
				dest[i] = &values[i]
			}
			ok(t, rows.Scan(dest...))
			fmt.Fprintln(&out, table, values)
		}
		ok(t, rows.Err(), rows.Close())
	}
	return out.String()
}

// TestTotalsHold does random things and compares the totals with the rows.
func TestTotalsHold(t *testing.T) {
	d := newStore(t)
	ok(t, d.SetHome(context.Background(), "home"))
	random := rand.New(rand.NewPCG(1, 2))
	actors := make([]actor, 6)
	for i := range actors {
		actors[i] = newActor(t, d, fmt.Sprint("agent-", i))
	}
	now, refusals := int64(1_000_000), map[Refusal]int{}
	var listings, released int64
	for n := range 600 {
		a := actors[random.IntN(len(actors))]
		size, budget := 1+random.IntN(500), int64(5000)
		network := string(rune('a' + random.IntN(3)))
		var err error
		switch random.IntN(12) {
		case 0, 1:
			err = a.register(network, fmt.Sprint(random.IntN(3)), size, budget)
		case 2:
			err = a.unregister(now)
		case 3, 4:
			err = a.describe(size, budget, now, []string{"p", "q", "r"}[:random.IntN(4)]...)
		case 5, 6:
			err = a.card(size, budget, now, random.IntN(3) > 0, []string{"t", "u"}[:random.IntN(3)]...)
		case 7:
			err = a.wake(strings.Repeat("x", random.IntN(300)), budget, now)
		case 8:
			err = d.DeleteWake(a.ctx, a.caller())
		case 9:
			err = a.packet(fmt.Sprint("packet ", n), now)
		case 10:
			err = d.Suspend(a.ctx, a.id, random.IntN(4) == 0)
		case 11:
			now += int64(random.IntN(wire.OfflineWindowSeconds / 8))
			err = d.Sweep(a.ctx, now)
		}
		now++
		if refusal, is := err.(Refusal); is {
			refusals[refusal]++
		} else {
			ok(t, err)
		}
		if n%20 == 0 {
			checkedTotals(t, d)
			got := figures(t, d, "SELECT (SELECT count(*) FROM directory), (SELECT count(*) FROM identities WHERE kel_kept = 0)")
			listings, released = listings+got[0], released+got[1]
		}
	}
	checkedTotals(t, d)
	if refusals[OverBudget] == 0 || listings == 0 || released == 0 {
		t.Fatalf("the test shows little: %d listings, %d kels released, refusals %v", listings, released, refusals)
	}
}

// TestCheckTotals spoils totals and sees that the check says so.
func TestCheckTotals(t *testing.T) {
	for name, spoil := range map[string]string{
		"bytes of an identity":           "UPDATE identities SET stored = stored + 1",
		"bytes of a network":             "UPDATE networks SET stored = stored - 1",
		"a network of nobody":            "INSERT INTO networks VALUES ('z', 1, 0)",
		"queued bytes":                   "UPDATE networks SET queued = queued + 1",
		"a network is missing":           "DELETE FROM networks",
		"a listing too few":              "DELETE FROM directory WHERE tag = 't'",
		"a listing too many":             "INSERT INTO directory SELECT 'u', profile, ace_id, identity FROM directory WHERE tag = 't'",
		"a kel is missing":               "DELETE FROM kels",
		"a kel that counts as not there": "UPDATE identities SET kel_kept = 0",
	} {
		t.Run(name, func(t *testing.T) {
			d := newStore(t)
			a := newActor(t, d, "alice")
			ok(t, d.SetHome(a.ctx, "home"), a.register("n", "1", 100, 0), a.describe(10, 0, 1, "p"), a.card(10, 0, 1, true, "t"))
			checkedTotals(t, d)
			ok(t, d.write(a.ctx, func(t *tx) error { _, err := t.exec(spoil); return err }))
			if problems, err := d.CheckTotals(a.ctx); err != nil || len(problems) == 0 {
				t.Fatalf("problems %v, error %v", problems, err)
			}
		})
	}
}

// TestUnregisterLeavesNothing looks for what an identity had stored and queued.
func TestUnregisterLeavesNothing(t *testing.T) {
	d := newStore(t)
	a := newActor(t, d, "alice")
	const count = `
SELECT (SELECT count(agent) FROM descriptors), (SELECT count(*) FROM descriptor_profiles),
  (SELECT count(bundle) + sum(listed) + sum(length(home)) FROM cards), (SELECT count(*) FROM card_tags),
  (SELECT count(*) FROM directory), (SELECT count(*) FROM blocks), (SELECT count(*) FROM wakes),
  (SELECT count(*) FROM entries), (SELECT entries + bytes + strangers + stranger_bytes FROM queues), (SELECT count(*) FROM kels)`
	ok(t, d.SetHome(a.ctx, "home"), a.register("n", "1", 100, 0), a.describe(10, 0, 1, "p"), a.card(10, 0, 1, true, "t"),
		d.Block(a.ctx, a.caller(), Block{Peer: "eve", Blocked: true}, 9), a.wake("token", 0, 1), a.packet("packet", 1))
	if got := figures(t, d, count); fmt.Sprint(got) != "[1 1 6 1 4 1 1 1 7 1]" {
		t.Fatalf("before: %v", got)
	}
	ok(t, a.unregister(1))
	if got := figures(t, d, count); fmt.Sprint(got) != "[0 0 0 0 0 0 0 0 0 1]" {
		t.Fatalf("left behind: %v", got)
	}
	ok(t, d.releaseExpired(a.ctx, 1+wire.OfflineWindowSeconds))
	if got := figures(t, d, count); fmt.Sprint(got) != "[0 0 0 0 0 0 0 0 0 0]" {
		t.Fatalf("left behind after the retention: %v", got)
	}
	// The horizon has a fixed size, whatever there was.
	if got := figures(t, d, "SELECT stored, length(kel_end) + length(epoch_hash) FROM identities"); got[0] != horizonBytes {
		t.Fatalf("charged %d", got[0])
	}
}
