package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// illness is a fault that is made for real, what doctor finds of it, and what mends
// it.
type illness struct {
	name           string
	code, severity string
	make           func(*stage)
	mend           func(*stage) // nil: the command of the finding
	fixes          bool         // --fix mends it as well
	args           []string     // of doctor
}

// examine runs ace doctor on the identity default of the stage.
func (s *stage) examine(args ...string) doctorAnswer {
	s.t.Helper()
	r := s.try(append([]string{"doctor", "--json"}, args...)...)
	var answer doctorAnswer
	if err := json.Unmarshal([]byte(r.out), &answer); err != nil {
		s.t.Fatalf("status %d: %s%s", r.status, r.out, r.err)
	}
	bad := answer.Worst == severityWarning || answer.Worst == severityProblem
	if bad != (r.status == exitLocal) || !bad && r.status != exitOK {
		s.t.Errorf("status %d where the worst is a %s", r.status, answer.Worst)
	}
	return answer
}

// has returns the finding of a code and severity, nil without one.
func (r doctorAnswer) has(code, severity string) *finding {
	for i, f := range r.Findings {
		if f.Code == code && f.Severity == severity {
			return &r.Findings[i]
		}
	}
	return nil
}

// follow runs the command that mends a finding.
func (s *stage) follow(line string) {
	s.t.Helper()
	if args, ok := strings.CutPrefix(line, "ace "); ok {
		s.must(append(strings.Fields(args), "--yes")...)
		return
	}
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// suffer shows that doctor does not find an illness before it is there, finds it
// then, and does not after its command, or what else mends it, has been run.
func (s *stage) suffer(i illness) {
	s.t.Helper()
	if f := s.examine(i.args...).has(i.code, i.severity); f != nil {
		s.t.Fatalf("before: %+v", f)
	}
	i.make(s)
	found := s.examine(i.args...)
	f := found.has(i.code, i.severity)
	switch {
	case f == nil:
		s.t.Fatalf("not found: %+v", found.Findings)
	case f.Fix == nil && f.Advice == nil && i.severity != severityNotice:
		s.t.Errorf("nothing is said that mends it: %+v", f)
	case f.Fix == nil && i.mend == nil:
		s.t.Fatalf("no command mends it: %+v", f)
	case i.mend != nil:
		i.mend(s)
	default:
		s.follow(*f.Fix)
	}
	if f := s.examine(i.args...).has(i.code, i.severity); f != nil {
		s.t.Errorf("afterwards: %+v", f)
	}
	if !i.fixes {
		return
	}
	i.make(s)
	fixed := s.examine(append(i.args, "--fix")...)
	if f := fixed.has(i.code, i.severity); f != nil || !slices.ContainsFunc(fixed.Fixed, func(m mended) bool { return m.Code == i.code }) {
		s.t.Errorf("after --fix: %+v, fixed %+v", f, fixed.Fixed)
	}
}

// suffer suffers each illness on an identity of its own without a relay, or with one.
func suffer(t *testing.T, atRelay bool, all []illness) {
	for _, i := range all {
		t.Run(i.name, func(t *testing.T) {
			s := newStage(t)
			if atRelay {
				s.relay()
				s.must("init", "--yes", "--relay", "dev")
			} else {
				s.must("init", "--yes", "--no-publish")
			}
			s.suffer(i)
		})
	}
}

// at is a path in the folder of the identity default.
func (s *stage) at(name string) string {
	return filepath.Join(s.dir, ".local/share/ace/identities/default", name)
}

func (s *stage) config(text string) {
	s.t.Helper()
	must(s.t, os.MkdirAll(filepath.Join(s.dir, ".config/ace"), 0o700))
	must(s.t, os.WriteFile(filepath.Join(s.dir, ".config/ace/config.toml"), []byte(text), 0o600))
}

func (s *stage) chmod(path string, mode os.FileMode) {
	s.t.Helper()
	must(s.t, os.Chmod(path, mode))
}

// A healthy identity has nothing that is worse than a notice, and doctor does not
// change it.
func TestDoctorOfTheHealthy(t *testing.T) {
	s := newStage(t)
	s.relay()
	s.must("init", "--yes", "--relay", "dev", "--handle", "alice")
	for _, args := range [][]string{nil, {"--fix"}, {"--offline"}} {
		if r := s.examine(args...); r.Worst != severityOK || len(r.Fixed) > 0 {
			t.Errorf("%v: %+v", args, r)
		}
	}
	text := s.must("doctor")
	for _, want := range []string{"ok\tclock\t", "ok\tregistration\t", "ok\tserved\t", "ok\thandle\t@alice@", "ok\trelay_disk_space\t", "ok\tdisk_sync\t"} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q: %s", want, text)
		}
	}
	if offline := s.must("doctor", "--offline"); strings.Contains(offline, "clock") || strings.Contains(offline, "\tregistration\t") {
		t.Errorf("--offline asked the relay: %s", offline)
	}
}

func TestDoctorWithoutAnIdentity(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	s.suffer(illness{code: "identity", severity: severityProblem, make: func(s *stage) {
		must(s.t, os.RemoveAll(filepath.Join(s.dir, ".local")))
		must(s.t, os.RemoveAll(filepath.Join(s.dir, ".config")))
	}})
	s.must("init", "--yes", "--no-publish", "--name", "other")
	if r := s.try("doctor"); r.status != exitUsage || !strings.Contains(r.err, "--as") {
		t.Errorf("two identities: status %d: %s", r.status, r.err)
	}
}
