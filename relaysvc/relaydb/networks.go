package relaydb

import (
	"context"
	"database/sql"
	"fmt"
)

// What is stored of an identity is charged to the client network it registered
// from (07#registration): the canonical bytes of its KEL, descriptor and card
// record, those of its wake registration, and horizonBytes for the rest, the
// horizon, which is there from its first registration on and for good. A KEL
// stays charged until it is deleted, or whoever registers and unregisters in
// turn would store for nothing. Blocks have a cap of their own and packets a
// budget of their own.

// horizonBytes is an upper bound of the rows and index entries of an identity
// that have a fixed size.
const horizonBytes = 1024

// chargedBytes is what an identity i is charged for.
const chargedBytes = `(1024
  + coalesce((SELECT length(log) FROM kels WHERE identity = i.id), 0)
  + coalesce((SELECT length(agent) FROM descriptors WHERE identity = i.id), 0)
  + coalesce((SELECT length(bundle) FROM cards WHERE identity = i.id), 0)
  + coalesce((SELECT length(gateway) + length(token) FROM wakes WHERE identity = i.id), 0))`

// charge changes what an identity is charged for by delta bytes. It refuses
// with OverBudget when its network would have more than budget bytes (0: any
// number) after a growth, and then has changed nothing.
func (t *tx) charge(id, delta, budget int64) error {
	if delta == 0 {
		return nil
	}
	var network string
	if _, err := t.row("SELECT network FROM identities WHERE id = ?", []any{id}, &network); err != nil {
		return err
	}
	if err := t.chargeNetwork(network, delta, budget); err != nil {
		return err
	}
	_, err := t.exec("UPDATE identities SET stored = stored + ? WHERE id = ?", delta, id)
	return err
}

// settle charges an identity for what is left of it after deletions.
func (t *tx) settle(id int64) error {
	var delta int64
	if _, err := t.row("SELECT "+chargedBytes+" - i.stored FROM identities i WHERE i.id = ?", []any{id}, &delta); err != nil {
		return err
	}
	return t.charge(id, delta, 0)
}

// move charges an identity that registers anew for stored bytes, and to
// network. Refusal: OverBudget, as charge does.
func (t *tx) move(id int64, network string, stored, budget int64) error {
	var from string
	var before int64
	if _, err := t.row("SELECT network, stored FROM identities WHERE id = ?", []any{id}, &from, &before); err != nil {
		return err
	}
	if from == network {
		return t.charge(id, stored-before, budget)
	}
	if err := t.chargeNetwork(network, stored, budget); err != nil {
		return err
	}
	if err := t.chargeNetwork(from, -before, 0); err != nil {
		return err
	}
	_, err := t.exec("UPDATE identities SET network = ?, stored = ? WHERE id = ?", network, stored, id)
	return err
}

func (t *tx) chargeNetwork(network string, delta, budget int64) error {
	var stored int64
	if _, err := t.row("SELECT stored FROM networks WHERE network = ?", []any{network}, &stored); err != nil {
		return err
	}
	if delta > 0 && budget > 0 && stored+delta > budget {
		return OverBudget
	}
	if _, err := t.exec(`
INSERT INTO networks (network, stored) VALUES (?, ?)
ON CONFLICT DO UPDATE SET stored = stored + excluded.stored`, network, delta); err != nil || delta > 0 {
		return err
	}
	_, err := t.exec("DELETE FROM networks WHERE network = ? AND stored = 0 AND queued = 0", network)
	return err
}

// totals are the checks of what is kept beside the rows that it follows from.
// Each query returns the rows that are wrong.
var totals = []struct{ query, problem string }{
	{"SELECT i.id FROM identities i WHERE i.stored <> " + chargedBytes, "identity %v: charged for other bytes than are stored of it"},
	{`
SELECT network FROM (
  SELECT network, sum(stored) AS stored, sum(queued) AS queued FROM (
    SELECT network, -stored AS stored, -queued AS queued FROM networks
    UNION ALL SELECT network, stored, 0 FROM identities
    UNION ALL SELECT i.network, 0, e.size FROM entries e JOIN identities i ON i.id = e.identity)
  GROUP BY network) WHERE stored <> 0 OR queued <> 0`, "network %v: its totals are not those of its identities"},
	{`
SELECT ace_id FROM (SELECT tag, profile, ace_id FROM listings EXCEPT SELECT tag, profile, ace_id FROM directory)
UNION SELECT ace_id FROM (SELECT tag, profile, ace_id FROM directory EXCEPT SELECT tag, profile, ace_id FROM listings)`,
		"directory: the listing of %v is not what its documents say"},
	{`
SELECT i.id FROM identities i LEFT JOIN kels k ON k.identity = i.id
WHERE (k.identity IS NOT NULL) <> i.kel_kept OR i.registered = 1 AND i.kel_kept = 0`, "identity %v: its kel is missing, or there after its time"},
}

// CheckTotals compares what is charged to identities and client networks, and
// the directory, with the rows they follow from, and returns what is wrong.
func (d *DB) CheckTotals(ctx context.Context) ([]string, error) { return checkTotals(ctx, d.reader) }

func checkCharges(ctx context.Context, db *sql.DB, r *Report) error {
	problems, err := checkTotals(ctx, db)
	for _, p := range problems {
		r.problem("%s", p)
	}
	return err
}

func checkTotals(ctx context.Context, db *sql.DB) ([]string, error) {
	var problems []string
	for _, check := range totals {
		rows, err := db.QueryContext(ctx, check.query)
		if err != nil {
			return problems, storage(err)
		}
		for rows.Next() && len(problems) < maxProblems {
			var wrong any
			if err := rows.Scan(&wrong); err != nil {
				rows.Close()
				return problems, storage(err)
			}
			problems = append(problems, fmt.Sprintf(check.problem, wrong))
		}
		if err := rows.Close(); err != nil {
			return problems, storage(err)
		}
		if err := rows.Err(); err != nil {
			return problems, storage(err)
		}
	}
	return problems, nil
}
