package crash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

// keeper is a home with one identity, alice, that publishes nowhere.
type keeper struct {
	t            *testing.T
	binary, home string
}

func newKeeper(t *testing.T) keeper {
	t.Helper()
	o := keeper{t, program(t), t.TempDir()}
	o.must("init", "--yes", "--no-publish", "--name", "alice", "--relay", "https://relay.example")
	return o
}

// again returns another home with the same files.
func (o keeper) again() keeper {
	o.t.Helper()
	dir := filepath.Join(o.t.TempDir(), "home")
	if out, err := exec.Command("cp", "-rp", o.home, dir).CombinedOutput(); err != nil {
		o.t.Fatalf("%v: %s", err, out)
	}
	// The settings name a file of the first home.
	settings := filepath.Join(dir, folder, "settings.toml")
	text, err := os.ReadFile(settings)
	if err == nil {
		err = os.WriteFile(settings, bytes.ReplaceAll(text, []byte(o.home), []byte(dir)), 0o600)
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return keeper{o.t, o.binary, dir}
}

const folder = ".local/share/ace/identities/alice"

func (o keeper) path(name string) string { return filepath.Join(o.home, folder, name) }

func (o keeper) nextRoot(suffix string) string {
	return filepath.Join(o.home, ".config/ace-recovery/alice"+suffix+".next-root")
}

func (o keeper) run(env string, args ...string) (out string, state *os.ProcessState, stderr string) {
	c := exec.Command(o.binary, args...)
	var stdout, said bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &said
	c.Env = []string{"HOME=" + o.home, "XDG_RUNTIME_DIR=" + o.home, env}
	var exit *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &exit) {
		o.t.Error(err)
	}
	return stdout.String(), c.ProcessState, said.String()
}

func (o keeper) must(args ...string) string {
	o.t.Helper()
	out, state, stderr := o.run("", args...)
	if state.ExitCode() != 0 {
		o.t.Fatalf("ace %s: %s\n%s", strings.Join(args, " "), state, stderr)
	}
	return out
}

// hashes returns those of the events of a log that the program shows.
func (o keeper) hashes() (all []string) {
	o.t.Helper()
	var log struct{ Events []struct{ Hash string } }
	if err := json.Unmarshal([]byte(o.must("identity", "log", "--json")), &log); err != nil {
		o.t.Fatal(err)
	}
	for _, e := range log.Events {
		all = append(all, e.Hash)
	}
	return all
}

// signatures returns those of a log in a file, none when there is no file.
func (o keeper) signatures(name string) [][]byte {
	text, err := os.ReadFile(o.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.t.Fatal(err)
	}
	return regexp.MustCompile(`"value":"[^"]+"`).FindAll(text, -1)
}

// holds reports whether a file below the folder has the text.
func (o keeper) holds(secret []byte) bool {
	found := false
	err := filepath.WalkDir(o.path(""), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found = found || bytes.Contains(text, secret)
		return err
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return found
}

// TestIdentityKilled kills each command that replaces keys at each of its
// places: the identity is as before or as after, its keys open, no seq is signed
// twice that a file had held (01#rotation-and-recovery), and there is one next
// root that fits.
func TestIdentityKilled(t *testing.T) {
	t.Parallel()
	template := newKeeper(t)
	template.must("identity", "delegate", "--no-publish")
	before := template.hashes()
	root, err := os.ReadFile(template.path("root.key"))
	if err != nil {
		t.Fatal(err)
	}
	root = regexp.MustCompile(`"plain":"[^"]+"`).Find(root)
	for _, c := range []struct {
		name   string
		args   []string
		events int    // of the log afterwards
		next   string // what ends the name of the next root afterwards
		places []string
	}{
		{"delegate", []string{"identity", "delegate", "--no-publish"}, 4, "", failpoint.IdentityPlaces()[2:]},
		{"rotate", []string{"identity", "rotate", "--no-publish", "--yes"}, 5, "-2", failpoint.IdentityPlaces()},
		{"recover", []string{"identity", "recover", "--no-publish", "--yes", "--next-root"}, 3, "-2", failpoint.IdentityPlaces()},
	} {
		if testing.Short() && c.name != "rotate" {
			continue // rotate passes every place
		}
		for _, place := range c.places {
			for pass := 1; ; pass++ {
				o := template.again()
				args := c.args
				if c.name == "recover" {
					args = append(slices.Clone(args), o.nextRoot(""))
				}
				_, state, stderr := o.run(fmt.Sprintf("ACE_FAILPOINT=%s:%d", place, pass), args...)
				status := state.Sys().(syscall.WaitStatus)
				if !status.Signaled() {
					if pass == 1 || state.ExitCode() != 0 {
						t.Errorf("%s at %s: %s\n%s", c.name, place, state, stderr)
					}
					break // there are no more passes
				}
				made := slices.Index(failpoint.IdentityPlaces(), place) >= slices.Index(failpoint.IdentityPlaces(), failpoint.ChangeHolds)
				t.Run(fmt.Sprintf("%s at %s %d", c.name, place, pass), func(t *testing.T) {
					o.t = t
					o.checkKilled(before, made, c.events, c.next)
					if made && c.name != "delegate" && o.holds(root) {
						t.Error("the old root is still there")
					}
				})
			}
		}
	}
}

func (o keeper) checkKilled(before []string, made bool, events int, next string) {
	t := o.t
	t.Helper()
	signed := o.signatures("kel.json")
	if changed := o.signatures("change/kel.json"); changed != nil {
		signed = changed
	}
	after := o.hashes()
	switch {
	case !made && !slices.Equal(after, before):
		t.Fatalf("the log has %d events, and nothing was to hold yet", len(after))
	case made && len(after) != events:
		t.Fatalf("the log has %d events, want %d", len(after), events)
	case !made:
		next = ""
	}
	for _, name := range []string{"change", "change.new"} {
		if _, err := os.Lstat(o.path(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	o.must("status", "--offline")
	o.must("identity", "recover", "--rehearse", "--next-root", o.nextRoot(next))
	if _, err := os.Lstat(o.nextRoot("-2")); (err == nil) != (next == "-2") {
		t.Errorf("the new next root: %v", err)
	}
	o.must("identity", "delegate", "--no-publish")
	final := o.signatures("kel.json")
	if len(final) <= len(signed) {
		t.Fatalf("the log has %d events after %d", len(final), len(signed))
	}
	for seq, sig := range signed {
		if !bytes.Equal(sig, final[seq]) {
			t.Errorf("seq %d was signed twice", seq)
		}
	}
}

// TestIdentityRaces lets several processes replace the signing key at once: each
// that succeeds has appended one event, and the others have changed nothing.
func TestIdentityRaces(t *testing.T) {
	const processes = 6
	o := newKeeper(t)
	before := len(o.hashes())
	codes := make([]int, processes)
	var all sync.WaitGroup
	for i := range processes {
		all.Go(func() {
			_, state, _ := o.run("", "identity", "delegate", "--no-publish")
			codes[i] = state.ExitCode()
		})
	}
	all.Wait()
	succeeded := 0
	for _, code := range codes {
		switch code {
		case 0:
			succeeded++
		case exitHeld: // the log has changed meanwhile, or the lock is held
		default:
			t.Errorf("a process ended with status %d", code)
		}
	}
	if got := len(o.hashes()) - before; succeeded == 0 || got != succeeded {
		t.Errorf("%d processes succeeded and the log grew by %d", succeeded, got)
	}
	o.must("status", "--offline")
}
