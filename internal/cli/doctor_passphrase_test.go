package cli

import (
	"os"
	"strings"
	"testing"
)

// Each source of a passphrase that does not give it, on one identity: opening its
// keys is what takes long here.
func TestDoctorOfThePassphrase(t *testing.T) {
	oneThing(t)
	file := func(s *stage, text string) string {
		path := s.write("pass", text)
		s.config("[passphrase]\nsource = \"file\"\nfile = \"" + path + "\"\n")
		return path
	}
	command := func(line string) func(*stage) {
		return func(s *stage) {
			s.config("[passphrase]\nsource = \"command\"\ntimeout = \"300ms\"\ncommand = [" + line + "]\n")
		}
	}
	s := newStage(t)
	path := file(s, "tuba yacht\n")
	s.must("init", "--yes", "--no-publish")
	for _, c := range []struct {
		name, code, severity string
		make                 func(*stage)
	}{
		{"no file", "passphrase", severityProblem, func(s *stage) { must(s.t, os.Remove(path)) }},
		{"empty file", "passphrase", severityProblem, func(s *stage) { file(s, "\n") }},
		{"no command", "passphrase", severityProblem, command(`"/no/such/program"`)},
		{"failing command", "passphrase", severityProblem, command(`"false"`)},
		{"slow command", "passphrase", severityProblem, command(`"sleep", "60"`)},
		{"none", "passphrase", severityProblem, func(s *stage) { s.config("[passphrase]\nsource = \"none\"\n") }},
		{"prompt", "passphrase", severityNotice, func(s *stage) { s.config("") }},
		{"wrong", "keys", severityProblem, func(s *stage) { file(s, "something else\n") }},
	} {
		c.make(s)
		if r := s.examine(); r.has(c.code, c.severity) == nil || r.has("keys", severityOK) != nil {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
	file(s, "tuba yacht\n")
	s.suffer(illness{code: "passphrase", severity: severityProblem, make: func(s *stage) { s.chmod(path, 0o644) }})
	s.chmod(path, 0o644)
	if r := s.examine("--fix"); r.has("passphrase", severityOK) == nil || r.has("keys", severityOK) == nil || len(r.Fixed) != 1 {
		t.Errorf("after --fix: %+v", r)
	}
}

// A passphrase is at hand, and the keys are not sealed under it.
func TestDoctorOfUnsealedKeys(t *testing.T) {
	oneThing(t)
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	if s.examine().has("passphrase", severityNotice) == nil {
		t.Error("nothing is said of keys without a passphrase")
	}
	path := s.write("pass", "tuba yacht\n")
	s.suffer(illness{
		code: "passphrase", severity: severityWarning, make: func(s *stage) { s.config("[passphrase]\nsource = \"file\"\nfile = \"" + path + "\"\n") },
		mend: func(s *stage) { s.must("identity", "passphrase", "--new-passphrase-file", path) },
	})
}

// What keeps a passphrase from coming is told in words.
func TestDoctorTellsOfASlowCommand(t *testing.T) {
	s := newStage(t)
	s.config("[passphrase]\nsource = \"file\"\nfile = \"" + s.write("pass", "tuba yacht\n") + "\"\n")
	s.must("init", "--yes", "--no-publish")
	s.config("[passphrase]\nsource = \"command\"\ntimeout = \"100ms\"\ncommand = [\"sleep\", \"60\"]\n")
	if f := s.examine().has("passphrase", severityProblem); f == nil || !strings.Contains(f.Message, "has not ended within 100ms") {
		t.Errorf("%+v", f)
	}
	s.env["ACE_PASSPHRASE"] = "tuba yacht"
	r := s.examine()
	if r.has("passphrase", severityNotice) == nil || r.has("keys", severityOK) == nil {
		t.Errorf("from the environment: %+v", r)
	}
}
