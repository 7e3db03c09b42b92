package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/ownerfile"
)

// Commands refuse what others can open: doctor finds it also where nothing else
// runs any more.
func TestDoctorOfFiles(t *testing.T) {
	oneThing(t)
	old := time.Now().Add(-2 * leftoverAge)
	left := func(s *stage, path string) {
		must(s.t, os.WriteFile(path, nil, 0o600))
		must(s.t, os.Chtimes(path, old, old))
	}
	home := func(s *stage) string { return filepath.Join(s.dir, ".local/share/ace") }
	suffer(t, false, []illness{
		{name: "home", code: "file_mode", severity: severityProblem, fixes: true, make: func(s *stage) { s.chmod(home(s), 0o755) }},
		{name: "folder", code: "file_mode", severity: severityProblem, fixes: true, make: func(s *stage) { s.chmod(s.at(""), 0o750) }},
		{name: "key", code: "file_mode", severity: severityProblem, fixes: true, make: func(s *stage) { s.chmod(s.at("agent.key"), 0o640) }},
		{name: "log", code: "file_mode", severity: severityProblem, fixes: true, make: func(s *stage) { s.chmod(s.at("kel.json"), 0o602) }},
		{name: "closed", code: "file_mode", severity: severityProblem, fixes: true, make: func(s *stage) { s.chmod(s.at("settings.toml"), 0o400) }},
		{name: "store", code: "file_mode", severity: severityProblem, fixes: true, make: func(s *stage) {
			s.must("status")
			s.chmod(s.at("store.db"), 0o644)
		}},
		{name: "next root", code: "file_mode", severity: severityProblem, fixes: true, make: func(s *stage) {
			s.chmod(filepath.Join(s.dir, ".config/ace-recovery/default.next-root"), 0o644)
		}},
		{name: "link", code: "file_link", severity: severityWarning, make: func(s *stage) {
			must(s.t, os.Rename(s.at("agent.key"), filepath.Join(s.dir, "key")))
			must(s.t, os.Symlink(filepath.Join(s.dir, "key"), s.at("agent.key")))
		}},
		{name: "broken link", code: "file_link", severity: severityProblem, make: func(s *stage) {
			must(s.t, os.Symlink(filepath.Join(s.dir, "nowhere"), s.at("draft")))
		}},
		{name: "pipe", code: "file_kind", severity: severityWarning, make: func(s *stage) { must(s.t, syscall.Mkfifo(s.at("pipe"), 0o600)) }},
		{name: "temporary", code: "temporary_file", severity: severityNotice, fixes: true, make: func(s *stage) { left(s, s.at(".new-123")) }},
		{name: "unfinished", code: "unfinished_identity", severity: severityNotice, fixes: true, make: func(s *stage) {
			dir := filepath.Join(home(s), "identities", ".new-9")
			must(s.t, os.Mkdir(dir, 0o700))
			left(s, filepath.Join(dir, "root.key"))
			must(s.t, os.Chtimes(dir, old, old))
		}},
		{name: "scratch", code: "scratch", severity: severityWarning, fixes: true, make: func(s *stage) {
			must(s.t, os.Mkdir(filepath.Join(home(s), ".scratch"), 0o700))
			left(s, filepath.Join(home(s), ".scratch", "store.db"))
		}},
		{name: "change", code: "change_interrupted", severity: severityNotice, make: func(s *stage) { must(s.t, os.Mkdir(s.at("change.new"), 0o700)) }},
	})
}

// What others own cannot be given back by --fix, nor by anybody but root.
func TestDoctorOfOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	suffer(t, false, []illness{
		{name: "key", code: "file_owner", severity: severityProblem, make: func(s *stage) { must(s.t, os.Chown(s.at("root.key"), 12345, -1)) }},
	})
}

// A temporary file that a process may still be writing is left alone.
func TestDoctorLeavesWhatIsNew(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	must(t, os.WriteFile(s.at(".new-1"), nil, 0o600))
	if r := s.examine("--fix"); r.has("leftovers", severityOK) == nil || len(r.Fixed) > 0 {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(s.at(".new-1")); err != nil {
		t.Error(err)
	}
}

func TestDoctorOfLocks(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	path := s.at("store.db-receive.lock")
	lock, err := ownerfile.Acquire(path, "ace listen", 1_700_000_000)
	must(t, err)
	want := fmt.Sprintf(`"ace listen" (pid %d) holds the lock for receiving since 2023-11-14T22:13:20Z.`, os.Getpid())
	if f := s.examine().has("lock", severityOK); f == nil || f.Message != want {
		t.Errorf("held: %+v, want %s", f, want)
	}
	// The same lock, by a process of another machine.
	text, err := os.ReadFile(path)
	must(t, err)
	foreign := []byte(`{"pid":2147483000,"cmd":"ace listen","since":1}`)
	must(t, os.WriteFile(path, foreign, 0o600))
	if f := s.examine().has("lock_foreign", severityWarning); f == nil {
		t.Error("nothing is said of a holder that is not there")
	}
	must(t, os.WriteFile(path, text, 0o600))
	must(t, lock.Release())
	if s.examine().has("locks", severityOK) == nil {
		t.Error("a lock is held after its release")
	}
	handlers, err := ownerfile.Acquire(s.at("store.db-handlers.lock"), "ace listen", 1)
	must(t, err)
	if s.examine().has("lock", severityOK) == nil {
		t.Error("nothing is said of the lock for handlers")
	}
	must(t, handlers.Release())
	// One that was killed has left its name, and the next one removes that.
	must(t, os.WriteFile(path, foreign, 0o600))
	if s.examine().has("lock_left", severityNotice) == nil {
		t.Error("nothing is said of a holder that was killed")
	}
	lock, err = ownerfile.Acquire(path, "ace pull", 1_700_000_000)
	must(t, err)
	must(t, lock.Release())
	if s.examine().has("lock_left", severityNotice) != nil {
		t.Error("a lock that was taken anew still has its old holder")
	}
}

func TestDoctorOfTheConfiguration(t *testing.T) {
	mend := func(s *stage) { s.config("default_identity = \"default\"\n") }
	suffer(t, false, []illness{
		{name: "unknown key", code: "config", severity: severityProblem, mend: mend, make: func(s *stage) { s.config("default_idenity = \"x\"\n") }},
		{name: "no TOML", code: "config", severity: severityProblem, mend: mend, make: func(s *stage) { s.config("x = = 1") }},
		{name: "half a source", code: "config", severity: severityProblem, mend: mend, make: func(s *stage) { s.config("[passphrase]\nsource = \"file\"\n") }},
		{name: "nobody", code: "config_identity", severity: severityProblem, make: func(s *stage) { s.config("default_identity = \"nobody\"\n") }},
		{name: "section", code: "config_identity", severity: severityNotice, mend: mend, make: func(s *stage) { s.config("[identities.nobody]\nrelay = \"https://relay.example\"\n") }},
		{name: "writable", code: "config_mode", severity: severityProblem, fixes: true, make: func(s *stage) {
			s.config("utc = true\n")
			s.chmod(filepath.Join(s.dir, ".config/ace/config.toml"), 0o666)
		}},
	})
	// What the rest of the file says counts all the same.
	s := newStage(t)
	s.must("init", "--yes", "--no-publish", "--name", "other")
	s.must("init", "--yes", "--no-publish")
	s.config("default_identity = \"default\"\ndefault_idenity = \"x\"\n")
	r := s.examine()
	if f := r.has("config", severityProblem); f == nil || f.Advice == nil || *f.Advice != `did you mean "default_identity"?` || r.ACEID == nil {
		t.Errorf("%+v", r)
	}
	if r := s.try("status"); r.status != exitUsage {
		t.Errorf("another command tolerates it: status %d", r.status)
	}
}
