package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

// pass writes a file with a passphrase beside the identity.
func (o keeper) pass(name, text string) string {
	o.t.Helper()
	path := filepath.Join(o.home, name)
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		o.t.Fatal(err)
	}
	return path
}

// die runs a command that is killed at the n-th pass of a place.
func (o keeper) die(place string, n int, args ...string) {
	o.t.Helper()
	_, state, stderr := o.run(fmt.Sprintf("ACE_FAILPOINT=%s:%d", place, n), args...)
	if state.Exited() {
		o.t.Fatalf("%s:%d: %s\n%s", place, n, state, stderr)
	}
}

// left returns what is in the folder of the identity.
func (o keeper) left() (names []string) {
	o.t.Helper()
	entries, err := os.ReadDir(o.path(""))
	if err != nil {
		o.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestPassphraseKilled kills a change of the passphrase at each of its places:
// all keys are as before or all under the passphrase, for the next command as
// well, and nothing is left behind.
func TestPassphraseKilled(t *testing.T) {
	t.Parallel()
	first := newKeeper(t)
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
			o := first.again()
			o.t = t
			pass := o.pass("one", "correct horse")
			o.die(c.place, c.pass, "identity", "passphrase", "--new-passphrase-file", pass)
			if c.holds { // this opens both keys
				o.must("identity", "passphrase", "--passphrase-file", pass, "--remove")
			} else {
				o.must("identity", "show")
			}
			o.seeds()
			got := slices.DeleteFunc(o.left(), func(name string) bool { return strings.HasPrefix(name, "store.db-audit.") }) // notes for the next opening
			if !slices.Equal(got, []string{"agent.key", "identity.lock", "kel.json", "root.key", "settings.toml"}) {
				t.Errorf("left behind: %v", got)
			}
		})
	}
}

// TestDestroyKilled kills a destruction at each of its places: once the tombstone
// is there the identity opens no more, and the next look at it erases what is
// left.
func TestDestroyKilled(t *testing.T) {
	first := newKeeper(t)
	for _, c := range []struct {
		place string
		pass  int
	}{{failpoint.Buried, 1}, {failpoint.EraseFile, 1}, {failpoint.EraseFile, 2}, {failpoint.EraseFile, 3}} {
		t.Run(fmt.Sprintf("%s-%d", c.place, c.pass), func(t *testing.T) {
			o := first.again()
			o.t = t
			o.die(c.place, c.pass, "identity", "destroy", "alice", "--yes", "--confirm", "alice")
			if _, state, stderr := o.run("", "identity", "show", "alice"); state.ExitCode() != 32 || !strings.Contains(stderr, "destroyed") {
				t.Errorf("%s: %s", state, stderr)
			}
			if got := o.left(); !slices.Equal(got, []string{"destroyed.json", "identity.lock", "kel.json"}) {
				t.Errorf("left behind: %v", got)
			}
			o.must("kel", "verify", o.path("kel.json"))
		})
	}
}

// TestPassphraseRaces lets several processes change the passphrase at once, each
// knowing the first one: one of them does, and the keys are whole.
func TestPassphraseRaces(t *testing.T) {
	o := newKeeper(t)
	one, two := o.pass("one", "correct horse"), o.pass("two", "battery staple")
	o.must("identity", "passphrase", "--new-passphrase-file", one)
	const processes = 4
	status := make(chan int, processes)
	for range processes {
		go func() {
			_, state, _ := o.run("", "identity", "passphrase", "--passphrase-file", one, "--new-passphrase-file", two)
			status <- state.ExitCode()
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
	o.must("identity", "passphrase", "--passphrase-file", two, "--remove")
}

// TestSecretsStayInside runs what handles secrets and looks for them in all that
// is printed and in the backup, and, once the identity is destroyed, in all that
// is left.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	o := newKeeper(t)
	seeds := o.seeds()
	one, two := o.pass("one", "correct horse"), o.pass("two", "battery staple")
	backup := filepath.Join(o.home, "alice.backup")
	var said strings.Builder
	for _, args := range [][]string{
		{"-v", "identity", "backup", "create", "-o", backup, "--include", "store", "--backup-passphrase-file", two},
		{"-v", "identity", "passphrase", "--new-passphrase-file", one, "--json"},
		{"-v", "identity", "passphrase", "--passphrase-file", one, "--new-passphrase-file", two},
		{"identity", "show", "--json"},
		{"identity", "export", "--public"},
		{"identity", "export", "--public", "--json"},
		{"identity", "safety", "--json"},
		{"identity", "backup", "verify", backup, "--backup-passphrase-file", two, "--json"},
		{"identity", "destroy", "alice", "--dry-run"},
		{"identity", "destroy", "alice", "--yes", "--confirm", "alice"},
	} {
		out, state, stderr := o.run("", args...)
		if state.ExitCode() != 0 {
			t.Fatalf("ace %s: %s\n%s", strings.Join(args, " "), state, stderr)
		}
		said.WriteString(out + stderr)
	}
	secrets := append(seeds, "correct horse", "battery staple")
	for _, secret := range secrets {
		if strings.Contains(said.String(), secret) {
			t.Error("a secret was printed")
		}
	}
	err := filepath.WalkDir(filepath.Join(o.home, ".local"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return lacks(t, path, append(secrets, `"sealed"`))
	})
	if err == nil {
		err = lacks(t, backup, secrets)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func lacks(t *testing.T, path string, secrets []string) error {
	t.Helper()
	text, err := os.ReadFile(path)
	for _, secret := range secrets {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s holds a secret", path)
		}
	}
	return err
}

// seeds returns the text of the seeds in the key files, which are not sealed.
func (o keeper) seeds() (seeds []string) {
	o.t.Helper()
	for _, name := range []string{"root.key", "agent.key"} {
		text, err := os.ReadFile(o.path(name))
		if err != nil {
			o.t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(text), `"plain":"`)
		seed, _, _ := strings.Cut(rest, `"`)
		if !ok || len(seed) < 44 {
			o.t.Fatalf("%s has no seed", name)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}
