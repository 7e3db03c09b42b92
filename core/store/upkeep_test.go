package store

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver that the tests open files with

	"github.com/ace-toolkit/ace/core/suite"
)

// What upkeep asks for costs what is due, however many peers and messages there
// are: each of its queries looks it up in an index.
func TestUpkeepReadsOnlyWhatIsDue(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "ace", "store.db"), suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for query, index := range map[string]string{
		selectUnsettled: "block_settled", selectDueContacts: "contact_permit", deleteContacts: "contact_expiry", deleteOutbox: "outbox_settled",
		selectStarted: "outbox_started", selectPending: "outbox_due", selectHeld: "outbox_held",
	} {
		found := false
		for _, step := range plan(t, s, query) {
			found = found || strings.HasPrefix(step, "SEARCH") && strings.Contains(step, index)
			if strings.HasPrefix(step, "SCAN") {
				t.Errorf("%s: %s", query, step)
			}
		}
		if !found {
			t.Errorf("%s: does not use %s", query, index)
		}
	}
}

func plan(t *testing.T, s *Store, query string) (steps []string) {
	t.Helper()
	err := s.View(t.Context(), func(tx *Tx) (err error) {
		steps, err = rows(tx, func(r scanner) (step string, err error) {
			var id, parent, unused int
			return step, r.Scan(&id, &parent, &unused, &step)
		}, "EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
		return err
	})
	if err != nil || len(steps) == 0 {
		t.Fatalf("no plan: %v", err)
	}
	return steps
}

// A store of the first schema keeps its rows.
func TestMigrationKeepsRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ace", "store.db")
	if err := prepareFile(path); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	first, err := sources.ReadFile(migrations[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		string(first), "PRAGMA user_version = 1", "INSERT INTO contact VALUES ('p', 'admitted', 'x', 1, 0)",
		"INSERT INTO permit VALUES ('p', 'issued', x'7b7d', 2, 3)",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), path, suite.NewSeed())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.View(t.Context(), func(tx *Tx) error {
		due, err := tx.ContactsDueAPermit("d")
		if err != nil || len(due) != 1 || due[0] != (Contact{Peer: "p", State: "admitted", Profile: "x", Since: 1}) {
			t.Errorf("due %+v: %v", due, err)
		}
		permit, ok, err := tx.Permit("p", PermitIssued)
		if !ok || permit.ExpiresAt != 3 {
			t.Errorf("permit %+v", permit)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
