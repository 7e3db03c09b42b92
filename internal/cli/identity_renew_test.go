package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/keystore"
)

// fillLog appends delegations to the log of alice until only so many events of
// any kind are certain to fit.
func (s *stage) fillLog(left int) {
	s.t.Helper()
	now := time.Now().Unix()
	dir := filepath.Join(s.dir, ".local/share/ace/identities/alice")
	store, err := keystore.Open(dir)
	must(s.t, err)
	log, err := store.Log(now)
	must(s.t, err)
	root, err := store.Root(nil, now)
	must(s.t, err)
	defer root.Destroy()
	key := suite.NewSigningKey(suite.NewSeed()).PublicKey()
	for log.Budget().Appends() > left+1 {
		log, err = log.Delegate(root, key, log.LastTS(), log.LastTS()+86400)
		must(s.t, err)
	}
	must(s.t, os.WriteFile(filepath.Join(dir, "kel.json"), log.Raw(), 0o600))
	// The last one has a key that is held.
	_, err = store.Delegate(keystore.Renewal{After: log.LastHash(), NotAfter: now + 86400, Command: "test"}, now)
	must(s.t, err)
}

// TestEmergencyRoom fills a log. Routine changes leave room for a rot and its
// dlg, which only --emergency uses, and a recovery gives back the room of the
// current root.
func TestEmergencyRoom(t *testing.T) {
	oneThing(t)
	s := newStage(t)
	s.must("init", "--yes", "--no-publish", "--name", "alice", "--relay", "https://relay.example")
	s.fillLog(3)
	refused := func(hint string, args ...string) {
		t.Helper()
		r := s.try(args...)
		if r.status != exitPermanent || !strings.Contains(r.err, hint) {
			t.Errorf("ace %s: status %d: %s", strings.Join(args, " "), r.status, r.err)
		}
	}
	refused("ace identity recover", "identity", "rotate", "--yes", "--no-publish")
	s.must("identity", "delegate", "--no-publish")
	refused("ace identity recover", "identity", "delegate", "--no-publish")
	next := filepath.Join(s.dir, ".config/ace-recovery/alice.next-root")
	plan := s.must("identity", "recover", "--dry-run", "--no-publish", "--next-root", next, "--jq", "[(.budget_after.appends_left > 100), (.dropped | length > 100), .budget_after.emergency]")
	if plan != "[true,true,false]" {
		t.Errorf("plan of a recovery: %s", plan)
	}
	if left := s.must("identity", "rotate", "--yes", "--no-publish", "--emergency", "--jq", "[.budget_after.appends_left, .budget_after.emergency]"); left != "[0,true]" {
		t.Errorf("after the last rotation: %s", left)
	}
	if log := s.must("identity", "log"); !strings.Contains(log, "room for 0 more events") || !strings.Contains(log, "strangers take no contact request") {
		t.Errorf("log: %s", log[strings.LastIndex(log, kel.Delegation):])
	}
}

func TestParseEnd(t *testing.T) {
	const now = 1760140800 // 2025-10-11T00:00:00Z
	for text, want := range map[string]int64{
		"90d": now + 90*86400, "12h": now + 12*3600, "366d": now + 366*86400,
		"2025-10-12": now + 86400, "2025-10-11T01:00:00+00:00": now + 3600,
	} {
		if got, err := parseEnd(text, now); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "0d", "-1d", "367d", "1.5d", "2025-10-11", "2024-01-01", "2026-10-13", "soon", "99999999999999d"} {
		if got, err := parseEnd(text, now); exitOf(err) != exitUsage {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
}

// TestNoEventAheadOfTheTime: a clock that the relay contradicts dates no event. One
// dated ahead holds for nobody until its time has come, and none can go before it
// (01#verifier-rules rule 1).
func TestNoEventAheadOfTheTime(t *testing.T) {
	s := newStage(t)
	s.relay()
	next := filepath.Join(s.dir, "next")
	s.must("init", "--yes", "--relay", "dev", "--next-root-out", next)
	before := s.must("identity", "log", "--json")
	fresh := filepath.Join(s.dir, "fresh")
	try := func(ahead int64, args ...string) ran {
		var out, stderr bytes.Buffer
		o := s.io("")
		o.Out, o.Err = &out, &stderr
		o.Now = func() int64 { return time.Now().Unix() + ahead }
		return ran{run(t.Context(), append(args, "--yes"), o), out.String(), stderr.String()}
	}
	// Behind the end of the signing key nothing can be asked that is signed.
	for _, ahead := range []int64{day, 400 * day} {
		for _, args := range [][]string{
			{"identity", "delegate"},
			{"identity", "rotate", "--next-root", next, "--new-next-root-out", fresh},
			{"identity", "recover", "--next-root", next, "--new-next-root-out", fresh},
		} {
			if r := try(ahead, args...); r.status != exitNoIdentity || !strings.Contains(r.err, "clock of this machine") {
				t.Errorf("%v, %d s ahead: status %d: %s", args, ahead, r.status, r.err)
			}
		}
	}
	if after := s.must("identity", "log", "--json"); after != before {
		t.Errorf("the log has changed: %s", after)
	}
	if _, err := os.Stat(fresh); err == nil {
		t.Error("a next root was made")
	}
	if r := try(200, "identity", "delegate"); r.status != exitOK { // within what both allow
		t.Errorf("status %d: %s", r.status, r.err)
	}
}
