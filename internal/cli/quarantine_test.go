package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/store"
)

// quarantine records packets of the identity that were given up.
func (s *stage) quarantine(name string, packets ...string) {
	s.t.Helper()
	s.inStore(name, func(tx *store.Tx) error {
		for _, p := range packets {
			if err := tx.AddQuarantine(store.Quarantined{StreamID: "7-1", Packet: []byte(p), Code: "fetch_failed", At: 1700000000}); err != nil {
				return err
			}
		}
		return nil
	})
}

// inStore changes the store of an identity behind the program's back.
func (s *stage) inStore(name string, change func(*store.Tx) error) {
	s.t.Helper()
	app := &app{io: s.io(""), flags: flags{as: name}}
	id, err := app.identity()
	if err != nil {
		s.t.Fatal(err)
	}
	unlocked, err := id.store.Unlock(nil, time.Now().Unix())
	if err != nil {
		s.t.Fatal(err)
	}
	defer unlocked.Destroy()
	db, err := store.Open(context.Background(), filepath.Join(id.store.Dir(), "store.db"), unlocked.Vault)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if err := db.Update(context.Background(), change); err != nil {
		s.t.Fatal(err)
	}
}

func TestQuarantine(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	if r := s.try("quarantine", "list", "--fail-empty"); r.status != exitEmpty {
		t.Errorf("status %d of an empty list", r.status)
	}
	s.quarantine("default", `{"first":"\u001b]0;x"}`, `{"second":2}`)
	if got := s.must("quarantine", "list", "--jq", `.[] | "\(.number) \(.code) \(.bytes) \(.untrusted.from)"`); got != "1 fetch_failed 22 null\n2 fetch_failed 12 null" {
		t.Errorf("list %q", got)
	}
	shown := s.must("quarantine", "show", "1")
	if !strings.Contains(shown, `{"first":"\u001b]0;x"}`) || strings.Contains(shown, "\x1b") || !strings.Contains(shown, "fetch_failed") {
		t.Errorf("shown %q", shown)
	}
	for _, number := range []string{"x", "0", "3", "99999999999999999999"} {
		for _, verb := range []string{"show", "drop"} {
			if r := s.try("quarantine", verb, number, "--yes"); r.status == exitOK || !strings.Contains(r.err, "quarantine list") {
				t.Errorf("%s %s: status %d: %s", verb, number, r.status, r.err)
			}
		}
	}
	if r := s.try("quarantine", "drop", "1"); r.status != exitDeclined {
		t.Errorf("status %d of a drop that nobody confirmed", r.status)
	}
	s.must("quarantine", "drop", "1", "--yes")
	if got := s.must("quarantine", "list", "--jq", ".[].number"); got != "2" {
		t.Errorf("left %q", got)
	}
}
