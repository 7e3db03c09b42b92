package relaydb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// crowd lists n identities, agent-00000 and on, whose descriptors expire at
// 1000. Every one has the tag "all" and the profile "x:all"; every thousandth
// the tag "rare", and the one after it the profile "x:rare".
func crowd(t *testing.T, d *DB, n int) {
	t.Helper()
	ok(t, d.SetHome(context.Background(), "home"))
	ok(t, d.write(context.Background(), func(tx *tx) error {
		for _, query := range []string{
			`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
			 INSERT INTO identities (ace_id, registered, incarnation, registered_at, digest, kel_end, network, stored)
			 SELECT printf('agent-%05d', i), 1, 1, 0, '', 'end', 'n', 1024 + 10 + 2 + 2 FROM n`,
			"INSERT INTO networks SELECT 'n', sum(stored), 0 FROM identities WHERE ?",
			"INSERT INTO kels SELECT id, zeroblob(10) FROM identities WHERE ?",
			"INSERT INTO queues (identity, last_seq, entries, bytes) SELECT id, 0, 0, 0 FROM identities WHERE ?",
			"INSERT INTO descriptors SELECT id, 'end', 0, '', 1000, CAST('{}' AS BLOB) FROM identities WHERE ?",
			"INSERT INTO descriptor_profiles SELECT id, 'x:all' FROM identities WHERE ?",
			"INSERT INTO descriptor_profiles SELECT id, 'x:rare' FROM identities WHERE ? AND ace_id LIKE '%001'",
			"INSERT INTO cards SELECT id, 'end', 0, '', 'home', 1, 1, CAST('{}' AS BLOB) FROM identities WHERE ?",
			"INSERT INTO card_tags SELECT id, 'all' FROM identities WHERE ?",
			"INSERT INTO card_tags SELECT id, 'rare' FROM identities WHERE ? AND ace_id LIKE '%000'",
			"INSERT INTO directory SELECT * FROM listings WHERE ?",
		} {
			if _, err := tx.exec(query, n); err != nil {
				return err
			}
		}
		return nil
	}))
}

// page returns the ACE IDs that a listing gives.
func page(t *testing.T, d *DB, l Listing) []string {
	t.Helper()
	var got []string
	ok(t, d.Directory(context.Background(), l, func(aceID string, _ []byte) bool {
		got = append(got, aceID)
		return true
	}))
	return got
}

// TestDirectoryFilters asks a crowd for what few of it have.
func TestDirectoryFilters(t *testing.T) {
	d := newStore(t)
	last := func(n int) string { return fmt.Sprintf("agent-%05d", crowdSize-n) }
	crowd(t, d, crowdSize)
	for _, c := range []struct {
		tag, profile, after string
		first               string
		want                int
	}{
		{"", "", "", "agent-00000", 101},
		{"", "", last(10), last(9), 9},
		{"all", "", last(10), last(9), 9},
		{"rare", "", "", "agent-00000", crowdSize / 1000},
		{"rare", "", "agent-00000", "agent-01000", crowdSize/1000 - 1},
		{"", "x:rare", "", "agent-00001", crowdSize / 1000},
		{"all", "x:rare", last(1500), last(999), 1},
		{"rare", "x:all", last(1500), last(1000), 1},
		{"rare", "x:rare", "", "", 0},
		{"none", "", "", "", 0},
		{"ALL", "", "", "", 0},
	} {
		got := page(t, d, Listing{Tag: c.tag, Profile: c.profile, After: c.after, Limit: 100})
		if len(got) != c.want || len(got) > 0 && got[0] != c.first || !slices.IsSorted(got) {
			t.Errorf("%+v: %d entries from %.1s", c, len(got), got)
		}
	}
}

// TestExpiredListings lets most of a crowd expire. A page passes over it while
// that is little work, and the sweep takes it away.
func TestExpiredListings(t *testing.T) {
	d := newStore(t)
	crowd(t, d, 2000)
	checkedTotals(t, d)
	l := Listing{Limit: 100, Expired: 1500, Now: 1000}
	if err := d.Directory(context.Background(), l, func(string, []byte) bool { return true }); err != error(Behind) {
		t.Fatalf("got %v", err)
	}
	l.After = "agent-00600"
	if got := page(t, d, l); got != nil {
		t.Fatalf("expired entries: %v", got)
	}
	ok(t, d.write(context.Background(), func(t *tx) error {
		_, err := t.exec("UPDATE descriptors SET expires_at = 2000 WHERE identity % 100 = 0")
		return err
	}))
	l.After = ""
	ok(t, d.releaseExpired(context.Background(), l.Now))
	if got := page(t, d, l); len(got) != 20 {
		t.Fatalf("%d entries", len(got))
	}
	if n := figures(t, d, "SELECT count(DISTINCT identity) FROM directory")[0]; n != 20 {
		t.Fatalf("%d identities are left in the directory", n)
	}
	checkedTotals(t, d)
}

// TestCrawlWhileItChanges reads page after page while identities come, go and
// return. Whoever stays is seen once.
func TestCrawlWhileItChanges(t *testing.T) {
	d := newStore(t)
	crowd(t, d, 500)
	ctx := context.Background()
	seen := map[string]int{}
	after := ""
	for round := 0; ; round++ {
		got := page(t, d, Listing{After: after, Limit: 19})
		for _, id := range got[:min(len(got), 19)] {
			seen[id]++
		}
		if len(got) <= 19 {
			break
		}
		after = got[18]
		last := after
		ok(t, d.write(ctx, func(t *tx) error {
			// Those whose number ends in 7 come and go, the last one of the page too.
			for i := 7; i < 500; i += 10 {
				if (i/10+round)%3 == 0 {
					if err := t.suspend(fmt.Sprintf("agent-%05d", i), round%2 == 0); err != nil {
						return err
					}
				}
			}
			return t.suspend(last, true)
		}))
		id := fmt.Sprintf("agent-%05d-new", round*37%500)
		a := newActor(t, d, id)
		ok(t, a.register("n", "1", 10, 0), a.describe(2, 0, 999), a.card(2, 0, 999, true))
	}
	for i := range 500 {
		id := fmt.Sprintf("agent-%05d", i)
		if n := seen[id]; n != 1 && (n > 1 || i%10 != 7) {
			t.Fatalf("%s was seen %d times", id, n)
		}
	}
	checkedTotals(t, d)
}

func (t *tx) suspend(aceID string, suspended bool) error {
	var id int64
	if _, err := t.row("UPDATE identities SET suspended = ? WHERE ace_id = ? RETURNING id", []any{suspended, aceID}, &id); err != nil {
		return err
	}
	return t.relist(id)
}

// TestRelisting follows what makes an identity appear in the directory.
func TestRelisting(t *testing.T) {
	d := newStore(t)
	a := newActor(t, d, "alice")
	ok(t, d.SetHome(a.ctx, "home"))
	for _, s := range []struct {
		name string
		do   func() error
		want int
	}{
		{"registered", func() error { return a.register("n", "1", 10, 0) }, 0},
		{"a card alone", func() error { return a.card(2, 0, 1, true, "t", "u") }, 0},
		{"with a descriptor", func() error { return a.describe(2, 0, 1, "p") }, 6},
		{"more profiles", func() error { return a.describe(2, 0, 2, "p", "q") }, 9},
		{"fewer tags", func() error { return a.card(2, 0, 2, true, "u") }, 6},
		{"refreshed", func() error { return a.register("n", "1", 10, 0) }, 6},
		{"rotated", func() error { return a.register("n", "2", 10, 0) }, 0},
		{"a descriptor of the new kel", func() error { return a.describe(2, 0, 1) }, 0},
		{"a card of the new kel", func() error { return a.card(2, 0, 1, true) }, 1},
		{"suspended", func() error { return d.Suspend(a.ctx, "alice", true) }, 0},
		{"lifted", func() error { return d.Suspend(a.ctx, "alice", false) }, 1},
		{"unlisted", func() error { return a.card(2, 0, 2, false) }, 0},
		{"listed", func() error { return a.card(2, 0, 3, true) }, 1},
		{"another home", func() error { return d.SetHome(a.ctx, "elsewhere") }, 0},
		{"home again", func() error { return d.SetHome(a.ctx, "home") }, 1},
		{"unregistered", func() error { return a.unregister(5) }, 0},
		{"registered again", func() error { return a.register("n", "2", 10, 0) }, 0},
	} {
		t.Run(s.name, func(t *testing.T) {
			ok(t, s.do())
			if n := figures(t, d, "SELECT count(*) FROM directory")[0]; n != int64(s.want) {
				t.Fatalf("%d rows, want %d", n, s.want)
			}
			checkedTotals(t, d)
		})
	}
}

// TestIdentityPlans checks that what is asked for often or of a large store
// reads what it returns: it walks an index and sorts nothing.
func TestIdentityPlans(t *testing.T) {
	d := newStore(t)
	for name, c := range map[string]struct {
		query string
		want  []string // the first steps of the plan
	}{
		"directory": {selectDirectory, []string{"SEARCH l USING PRIMARY KEY (tag=? AND profile=? AND ace_id>?)",
			"SEARCH d USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)"}},
		"retired kels": {selectRetiredKEL, []string{"SEARCH identities USING"}},
		"expired":      {selectExpiredDescriptor, []string{"SEARCH descriptors USING INDEX descriptors_expiry (expires_at<?)"}},
		"unused wakes": {selectUnusedWake, []string{"SEARCH wakes USING COVERING INDEX wakes_used (used_at<?)"}},
		"due wakes":    {selectDueWakes, []string{"SEARCH wakes USING INDEX wakes_due (due_at>?)"}},
	} {
		steps := plan(t, d, c.query)
		for i, want := range c.want {
			if i >= len(steps) || !strings.HasPrefix(steps[i], want) {
				t.Errorf("%s: step %d of %q is not %s", name, i, steps, want)
			}
		}
	}
	// The view of one identity looks up each of its tables.
	for _, step := range plan(t, d, "SELECT tag, profile FROM listings WHERE identity = ?") {
		if strings.HasPrefix(step, "SCAN") && !slices.Contains([]string{"SCAN t", "SCAN p", "SCAN relay"}, step) {
			t.Errorf("listings: %s", step)
		}
	}
}

func plan(t *testing.T, d *DB, query string) []string {
	t.Helper()
	rows, err := d.reader.Query("EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
	ok(t, err)
	defer rows.Close()
	var steps []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		ok(t, rows.Scan(&id, &parent, &unused, &detail))
		steps = append(steps, detail)
	}
	ok(t, rows.Err())
	return steps
}
