package cli

import (
	"os"
	"path/filepath"
	"testing"
)

const day = 86400

// What is published, and what the relay holds of it. The clock of the relay goes
// with that of the commands, but its Date header is the system's.
func TestDoctorOfWhatIsPublished(t *testing.T) {
	oneThing(t)
	dead := []string{"--relay", "http://127.0.0.1:1"}
	suffer(t, true, []illness{
		{name: "ended", code: "descriptor", severity: severityProblem, make: func(s *stage) { s.ahead.Store(8 * day) }},
		{name: "ending", code: "descriptor", severity: severityWarning, make: func(s *stage) { s.ahead.Store(4 * day) }},
		{name: "of an earlier key", code: "descriptor", severity: severityProblem, make: func(s *stage) { s.must("identity", "delegate", "--no-publish") }},
		{name: "never", code: "descriptor", severity: severityWarning, make: func(s *stage) { must(s.t, os.Remove(s.at("store.db"))) }},
		{name: "withdrawn", code: "withdrawn", severity: severityNotice, make: func(s *stage) { s.must("unpublish", "--yes") }},
		{name: "not registered", code: "registration", severity: severityProblem, make: func(s *stage) { s.must("identity", "delegate", "--no-publish") }},
		{name: "not served", code: "served", severity: severityProblem, make: func(s *stage) { s.ahead.Store(8 * day) }},
		{name: "card", code: "card", severity: severityWarning, make: func(s *stage) { s.must("card", "set", "--description", "x", "--no-publish") }},
		{name: "handle", code: "handle", severity: severityProblem, make: func(s *stage) {
			s.must("card", "set", "--handle", "alice", "--no-publish", "--yes", "--confirm", "alice")
		}},
		{name: "down", code: "relay", severity: severityProblem, make: func(s *stage) { s.env["ACE_RELAY"] = dead[1] }, mend: func(s *stage) { delete(s.env, "ACE_RELAY") }},
		{name: "clock of a few seconds", code: "clock", severity: severityNotice, make: func(s *stage) { s.ahead.Store(20) }, mend: func(s *stage) { s.ahead.Store(2) }},
		{name: "clock behind", code: "clock", severity: severityWarning, make: func(s *stage) { s.ahead.Store(-100) }, mend: func(s *stage) { s.ahead.Store(0) }},
		{name: "clock ahead", code: "clock", severity: severityProblem, make: func(s *stage) { s.ahead.Store(400) }, mend: func(s *stage) { s.ahead.Store(0) }},
		{name: "file of a relay", code: "dev_relay", severity: severityNotice, make: func(s *stage) {
			must(s.t, os.WriteFile(filepath.Join(s.dir, "runtime/ace/dev-relay-127.0.0.1-9.json"), []byte(`{"url":"http://127.0.0.1:9","pid":2147483000}`), 0o600))
		}},
	})
}

func TestDoctorOfBlocks(t *testing.T) {
	s := newStage(t)
	s.relay()
	s.must("init", "--yes", "--relay", "dev")
	bob := s.befriend()
	s.suffer(illness{code: "blocks", severity: severityWarning, make: func(s *stage) {
		s.must("contact", "block", bob, "--yes", "--relay", "http://127.0.0.1:1", "--timeout", "1s")
	}})
}

// Permits that end, have ended, or are void since their issuer has another key.
func TestDoctorOfPermits(t *testing.T) {
	oneThing(t)
	for _, i := range []illness{
		{name: "ends", code: "permit_issued", severity: severityNotice, make: func(s *stage) { s.ahead.Store(25 * day) }},
		{name: "ended", code: "permit_issued", severity: severityWarning, make: func(s *stage) { s.ahead.Store(31 * day) }},
		{name: "void", code: "permit_issued", severity: severityWarning, make: func(s *stage) { s.must("identity", "delegate") }},
		{name: "held", code: "permit_held", severity: severityNotice, make: func(s *stage) { s.ahead.Store(25 * day) }},
		{name: "held and void", code: "permit_held", severity: severityWarning, make: func(s *stage) {
			s.must("--as", "bob", "identity", "delegate")
			s.must("lookup", s.must("--as", "bob", "identity", "show", "--jq", ".ace_id"))
		}},
	} {
		t.Run(i.name, func(t *testing.T) {
			s := newStage(t)
			s.relay()
			s.must("init", "--yes", "--relay", "dev", "--contact", "open", "--accept", "text")
			bob := s.befriend()
			i.mend = func(s *stage) {
				s.must("--as", "bob", "publish")
				f := s.examine("--offline").has(i.code, i.severity)
				if want := "permit renew " + bob; f.Fix == nil || (*f.Fix)[len("ace --as default "):] != want {
					s.t.Errorf("%+v, want %s", f, want)
				}
				s.follow(*f.Fix)
				s.must("--as", "bob", "pull")
				s.must("pull")
			}
			s.suffer(i)
		})
	}
}

// A restored identity that its relay has not seen yet.
func TestDoctorOfTheRestored(t *testing.T) {
	oneThing(t)
	s := newStage(t)
	s.relay()
	s.must("init", "--yes", "--relay", "dev")
	pass, file := s.write("pass", "tuba yacht\n"), filepath.Join(s.dir, "backup")
	s.must("identity", "backup", "create", "-o", file, "--backup-passphrase-file", pass)
	s.suffer(illness{code: "restored", severity: severityWarning, make: func(s *stage) {
		must(s.t, os.RemoveAll(s.at("")))
		s.must("identity", "backup", "restore", file, "--backup-passphrase-file", pass, "--offline")
	}})
}
