package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

// TestMain makes the test binary the program ace for the scripts: they run it
// as processes of its own.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"ace": func() { os.Exit(Main(os.Args[1:], System())) }})
}

// leakChecked fails a run that leaves goroutines behind.
type leakChecked struct{ *testing.M }

func (m leakChecked) Run() int {
	status := m.M.Run()
	if err := goleak.Find(); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

const scriptDir = "../../testdata/script"

// busyScripts are those in which a process does several things at a time. A short
// run, as that of the race detector, makes no others.
var busyScripts = []string{
	"commerce", "contact", "dev_echo", "dev_exec", "dev_relay", "identity_replaced", "invitation", "listen", "listen_exec", "maintain", "outbox", "policy",
	"relay_admin", "send", "wait", "wake",
}

// scripts returns the files to run, nil for all.
func scripts() (files []string) {
	if testing.Short() {
		for _, name := range busyScripts {
			files = append(files, filepath.Join(scriptDir, name+".txtar"))
		}
	}
	return files
}

// oneThing leaves a test out of a short run in which one thing happens at a time.
func oneThing(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("the race detector has nothing to see here")
	}
}

// TestScripts runs the program against a real relay, without a terminal.
func TestScripts(t *testing.T) {
	dir := scriptDir
	if testing.Short() {
		dir = ""
	}
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Files:               scripts(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			home, runtime := filepath.Join(env.WorkDir, "home"), filepath.Join(env.WorkDir, "runtime")
			env.Setenv("HOME", home)
			env.Setenv("XDG_RUNTIME_DIR", runtime)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return os.MkdirAll(runtime, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"relay":     waitForRelay,
			"terminate": terminate,
			"capture":   capture,
			"exits":     exits,
			"waitfor":   waitForText,
			"gone":      waitForEnd,
			"fetch":     fetch,
			"mode":      mode,
		},
	})
}

// waitForRelay waits for the relay that "exec ace relay serve --dev" started in
// the background and sets RELAY to its URL and HOST to its host and port.
func waitForRelay(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: relay")
	}
	path := filepath.Join(ts.Getenv("XDG_RUNTIME_DIR"), "ace", "dev-relay.json")
	text := waitForFile(ts, path, regexp.MustCompile(`"url":"(http://[^"]+)"`))
	ts.Setenv("RELAY", text)
	ts.Setenv("HOST", strings.TrimPrefix(text, "http://"))
}

// terminate sends SIGTERM to the development relay, which scripts themselves
// cannot.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: terminate")
	}
	path := filepath.Join(ts.Getenv("XDG_RUNTIME_DIR"), "ace", "dev-relay.json")
	pid, err := strconv.Atoi(waitForFile(ts, path, regexp.MustCompile(`"pid":([0-9]+)`)))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGTERM))
}

// waitForText waits until a file holds text that matches: waitfor FILE PATTERN.
func waitForText(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitfor FILE PATTERN")
	}
	waitForFile(ts, ts.MkAbs(args[0]), regexp.MustCompile("("+args[1]+")"))
}

// waitForEnd waits until a file is not there: gone FILE.
func waitForEnd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone FILE")
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(until) {
			ts.Fatalf("%s is still there", args[0])
		}
	}
}

// fetch adds what the relay answers to a GET to a file, as a line: fetch PATH
// FILE.
func fetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fetch PATH FILE")
	}
	resp, err := http.Get(ts.Getenv("RELAY") + args[0])
	ts.Check(err)
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if resp.StatusCode != http.StatusOK {
		ts.Fatalf("%s: %s", args[0], resp.Status)
	}
	f, err := os.OpenFile(ts.MkAbs(args[1]), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer f.Close()
	_, err = f.Write(append(body, '\n'))
	ts.Check(err)
}

func waitForFile(ts *testscript.TestScript, path string, pattern *regexp.Regexp) string {
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(path)
		if m := pattern.FindSubmatch(text); m != nil {
			return string(m[1])
		}
		if time.Now().After(until) {
			ts.Fatalf("%s has no %s: %q", path, pattern, text)
		}
	}
}

// capture sets a variable to what the last command printed: capture NAME.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: capture NAME")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

// exits runs ace and wants an exit status: exits STATUS ARGUMENT… Nothing else
// in the language of scripts tells one failure from another.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS ARGUMENT...")
	}
	err := ts.Exec("ace", args[1:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("ace %s: exit status %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// mode checks the mode of a file: mode 0600 FILE.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode MODE FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// TestTour compares the tour of README.md with the script that runs it: the
// script has each of its commands, in order.
func TestTour(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(scriptDir, "tour.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	_, tour, ok := strings.Cut(string(readme), "\n## Five minutes\n")
	tour, _, found := strings.Cut(tour, "\n## ")
	if !ok || !found {
		t.Fatal("README.md has no tour")
	}
	lines := strings.Split(string(script), "\n")
	commands := 0
	for line := range strings.Lines(tour) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "ace ") {
			continue
		}
		commands++
		want := "exec " + strings.NewReplacer("HOST", "$HOST", "ALICE", "$ALICE", `"`, "'").Replace(strings.Join(strings.Fields(line), " "))
		at := slices.IndexFunc(lines, func(l string) bool { return l == want || strings.HasPrefix(l, want+" &") })
		if at < 0 {
			t.Fatalf("tour.txtar does not have, at this place: %s", want)
		}
		lines = lines[at+1:]
	}
	if commands < 10 {
		t.Fatalf("only %d commands found in the tour", commands)
	}
}
