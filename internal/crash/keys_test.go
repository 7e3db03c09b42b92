package crash

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

// keyholder is a user's home in which commands are run, and killed.
type keyholder struct {
	t      *testing.T
	dir    string
	binary string
}

func newKeyholder(t *testing.T) *keyholder {
	t.Helper()
	h := &keyholder{t: t, dir: t.TempDir(), binary: program(t)}
	for name, text := range map[string]string{"one": "correct horse\n", "two": "battery staple\n"} {
		if err := os.WriteFile(h.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.must("identity", "new", "ops", "--yes")
	return h
}

func (h *keyholder) path(name string) string { return filepath.Join(h.dir, name) }

// folder is that of the identity.
func (h *keyholder) folder() string { return h.path(".local/share/ace/identities/ops") }

// run runs a command, which dies at the n-th pass of a place, "" for none.
func (h *keyholder) run(place string, n int, args ...string) (status int, out string) {
	h.t.Helper()
	c := exec.Command(h.binary, args...)
	c.Env = []string{"HOME=" + h.dir, "PATH=" + os.Getenv("PATH")}
	if place != "" {
		c.Env = append(c.Env, fmt.Sprintf("ACE_FAILPOINT=%s:%d", place, n))
	}
	var both bytes.Buffer
	c.Stdout, c.Stderr = &both, &both
	_ = c.Run() // the status tells
	return c.ProcessState.ExitCode(), both.String()
}

func (h *keyholder) must(args ...string) string {
	h.t.Helper()
	status, out := h.run("", 0, args...)
	if status != 0 {
		h.t.Fatalf("ace %s: status %d: %s", strings.Join(args, " "), status, out)
	}
	return out
}

// left returns what is in the folder of the identity.
func (h *keyholder) left() (names []string) {
	h.t.Helper()
	entries, err := os.ReadDir(h.folder())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// killed is the status of a process that SIGKILL ended.
const killed = -1

// TestKilledWhilePassphraseChanges kills a change of the passphrase at each of
// its places: all keys are as before or all under the passphrase, for the next
// command as well, and nothing is left behind.
func TestKilledWhilePassphraseChanges(t *testing.T) {
	for _, c := range []struct {
		place string
		pass  int
		holds bool // the passphrase counts
	}{
		{failpoint.ChangeWrite, 1, false},
		{failpoint.ChangeWrite, 2, false},
		{failpoint.ChangeWritten, 1, false},
		{failpoint.ChangeHolds, 1, true},
		{failpoint.ChangeMove, 2, true},
		{failpoint.ChangeMove, 3, true},
		{failpoint.ChangeMoved, 1, true},
		{failpoint.ChangeErase, 2, true},
	} {
		t.Run(fmt.Sprintf("%s-%d", c.place, c.pass), func(t *testing.T) {
			h := newKeyholder(t)
			pass := h.path("one")
			if status, out := h.run(c.place, c.pass, "identity", "passphrase", "--new-passphrase-file", pass); status != killed {
				t.Fatalf("status %d: %s", status, out)
			}
			if c.holds { // this opens both keys
				h.must("identity", "passphrase", "--passphrase-file", pass, "--remove")
			} else {
				h.must("identity", "show", "ops")
			}
			if seeds := plainSeeds(t, h.folder()); len(seeds) != 2 {
				t.Errorf("%d keys are not sealed", len(seeds))
			}
			if got := h.left(); !slices.Equal(got, []string{"agent.key", "identity.lock", "kel.json", "root.key", "settings.toml"}) {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

// TestKilledWhileDestroying kills a destruction at each of its places: once the
// tombstone is there the identity opens no more, and the next look at it erases
// what is left. No byte of a key stays in the folder.
func TestKilledWhileDestroying(t *testing.T) {
	for _, c := range []struct {
		place string
		pass  int
	}{{failpoint.Buried, 1}, {failpoint.EraseFile, 1}, {failpoint.EraseFile, 2}, {failpoint.EraseFile, 3}} {
		t.Run(fmt.Sprintf("%s-%d", c.place, c.pass), func(t *testing.T) {
			h := newKeyholder(t)
			if status, out := h.run(c.place, c.pass, "identity", "destroy", "ops", "--yes", "--confirm", "ops"); status != killed {
				t.Fatalf("status %d: %s", status, out)
			}
			if status, out := h.run("", 0, "identity", "show", "ops"); status != 32 || !strings.Contains(out, "destroyed") {
				t.Errorf("status %d: %s", status, out)
			}
			if got := h.left(); !slices.Equal(got, []string{"destroyed.json", "identity.lock", "kel.json"}) {
				t.Errorf("left behind: %v", got)
			}
			h.must("kel", "verify", filepath.Join(h.folder(), "kel.json"))
		})
	}
}

// TestPassphraseChangesTogether lets several processes change the passphrase at
// once, each knowing the first one: one of them does, and the keys are whole.
func TestPassphraseChangesTogether(t *testing.T) {
	h := newKeyholder(t)
	h.must("identity", "passphrase", "--new-passphrase-file", h.path("one"))
	const processes = 4
	status := make(chan int, processes)
	for range processes {
		go func() {
			s, _ := h.run("", 0, "identity", "passphrase", "--passphrase-file", h.path("one"), "--new-passphrase-file", h.path("two"))
			status <- s
		}()
	}
	count := map[int]int{}
	for range processes {
		count[<-status]++
	}
	// The others find the lock held (31) or another passphrase (32).
	if count[0] != 1 || count[31]+count[32] != processes-1 {
		t.Errorf("ended with %v", count)
	}
	h.must("identity", "passphrase", "--passphrase-file", h.path("two"), "--remove")
}

// TestSecretsStayInside runs what handles secrets and looks for them in all that
// is printed, and, once the identity is destroyed, in all that is left.
func TestSecretsStayInside(t *testing.T) {
	h := newKeyholder(t)
	var said strings.Builder
	seeds := plainSeeds(t, h.folder())
	for _, args := range [][]string{
		{"-v", "identity", "passphrase", "--new-passphrase-file", h.path("one"), "--json"},
		{"-v", "identity", "passphrase", "--passphrase-file", h.path("one"), "--new-passphrase-file", h.path("two")},
		{"identity", "show", "--json"},
		{"identity", "export", "--public"},
		{"identity", "export", "--public", "--json"},
		{"identity", "safety", "--json"},
		{"identity", "destroy", "ops", "--dry-run"},
		{"identity", "destroy", "ops", "--yes", "--confirm", "ops"},
	} {
		said.WriteString(h.must(args...))
	}
	for _, secret := range append(seeds, "correct horse", "battery staple") {
		if strings.Contains(said.String(), secret) {
			t.Error("a secret was printed")
		}
	}
	err := filepath.WalkDir(h.path(".local"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range append(seeds, "sealed") {
			if strings.Contains(string(text), secret) {
				t.Errorf("%s holds a key", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// plainSeeds returns the text of the seeds in the unsealed key files of a
// folder.
func plainSeeds(t *testing.T, dir string) (seeds []string) {
	t.Helper()
	for _, name := range []string{"root.key", "agent.key"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(text), `"plain":"`)
		seed, _, _ := strings.Cut(rest, `"`)
		if !ok || len(seed) < 44 {
			t.Fatalf("%s has no seed", name)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}
