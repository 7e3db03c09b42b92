package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/keystore"
)

func (s *stage) nextRoot() string {
	return filepath.Join(s.dir, ".config/ace-recovery/default.next-root")
}

func TestDoctorOfKeys(t *testing.T) {
	var text []byte
	suffer(t, false, []illness{
		{name: "ends", code: "signing_key", severity: severityWarning, make: func(s *stage) { s.must("identity", "delegate", "--not-after", "5d") }},
		{name: "ended", code: "signing_key", severity: severityProblem, make: func(s *stage) { s.ahead.Store(200 * 86400) }},
		{name: "log", code: "identity", severity: severityProblem,
			make: func(s *stage) {
				var err error
				text, err = os.ReadFile(s.at("kel.json"))
				must(s.t, err)
				must(s.t, os.WriteFile(s.at("kel.json"), []byte("[]"), 0o600))
			},
			mend: func(s *stage) { must(s.t, os.WriteFile(s.at("kel.json"), text, 0o600)) }},
		{name: "key of another", code: "keys", severity: severityProblem,
			make: func(s *stage) {
				var err error
				text, err = os.ReadFile(s.at("agent.key"))
				must(s.t, err)
				s.must("identity", "use", "default")
				s.must("init", "--yes", "--no-publish", "--name", "other")
				other, err := os.ReadFile(filepath.Join(filepath.Dir(s.at("")), "other", "agent.key"))
				must(s.t, err)
				must(s.t, os.WriteFile(s.at("agent.key"), other, 0o600))
			},
			mend: func(s *stage) { must(s.t, os.WriteFile(s.at("agent.key"), text, 0o600)) }},
	})
}

func TestDoctorOfTheNextRoot(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	moved := filepath.Join(s.dir, "moved")
	must(t, os.Rename(s.nextRoot(), moved))
	s.suffer(illness{
		code: "next_root", severity: severityWarning, make: func(s *stage) { must(s.t, os.Rename(moved, s.nextRoot())) },
		mend: func(s *stage) { must(s.t, os.Rename(s.nextRoot(), moved)) },
	})
}

func TestDoctorOfAnIdentityWithoutARelay(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	if f := s.examine().has("no_relay", severityWarning); f == nil || *f.Advice != "choose one: ace --as default publish --relay URL" {
		t.Errorf("%+v", f)
	}
	s.relay()
	s.must("publish", "--relay", "dev", "--allow-loopback")
	if f := s.examine("--allow-loopback").has("no_relay", severityWarning); f != nil {
		t.Errorf("afterwards: %+v", f)
	}
}

// grow appends so many delegations to the log of the identity default.
func (s *stage) grow(events int) {
	s.t.Helper()
	store, err := keystore.Open(s.at(""))
	must(s.t, err)
	now := time.Now().Unix()
	log, err := store.Log(now)
	must(s.t, err)
	for range events {
		now = max(now, log.Events()[log.Seq()].TS) + 1
		log, err = store.Delegate(keystore.Renewal{After: log.LastHash(), NotAfter: now + 100*86400, Command: "test"}, now)
		must(s.t, err)
	}
}

// The room of a log: of strangers, of a routine rotation, and of an emergency. The
// next root gives the room of the root back.
func TestDoctorOfTheBudget(t *testing.T) {
	oneThing(t)
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	for _, step := range []struct {
		events         int
		code, severity string
	}{
		{30, "kel_budget", severityOK}, {1, "kel_strangers", severityNotice}, {97, "kel_budget", severityWarning}, {1, "kel_budget", severityProblem},
	} {
		if step.severity != severityOK && s.examine().has(step.code, step.severity) != nil {
			t.Errorf("%+v: before", step)
		}
		s.grow(step.events)
		if s.examine().has(step.code, step.severity) == nil {
			t.Errorf("%+v: not found", step)
		}
	}
	s.ahead.Store(600) // the events of the test are dated ahead
	s.must("identity", "recover", "--yes", "--next-root", s.nextRoot())
	r := s.examine()
	if r.has("kel_strangers", severityNotice) != nil || r.has("kel_budget", severityOK) == nil {
		t.Errorf("%+v", r)
	}
}
