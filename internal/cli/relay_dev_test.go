package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/ownerfile"
	"github.com/ace-toolkit/ace/relaysvc"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestParseChaos(t *testing.T) {
	c, err := parseChaos("drop=0.1,dup=0.2,delay=1500ms,error=1e-2,seed=42")
	want := relaysvc.Chaos{Drop: 0.1, Dup: 0.2, Delay: 1500 * time.Millisecond, Error: 0.01, Seed: 42}
	if err != nil || *c != want {
		t.Errorf("got %+v: %v", c, err)
	}
	again, err := parseChaos(describeChaos(c).String())
	if err != nil || *again != want {
		t.Errorf("what is announced is %s and plays %+v: %v", describeChaos(c), again, err)
	}
	first, _ := parseChaos("drop=1")
	second, _ := parseChaos("drop=1")
	if first.Seed == second.Seed {
		t.Errorf("two seeds that were not given are both %d", first.Seed)
	}
	for text, then := range map[string]string{
		"drop":                          "KEY=VALUE",
		"drop=0.1,":                     "KEY=VALUE",
		"drop=0.1, dup=0.1":             "unknown",
		"Drop=0.1":                      "drop",
		"drop=":                         "probability",
		"drop=2":                        "probability",
		"drop=-0.1":                     "probability",
		"dup=NaN":                       "probability",
		"error=Inf":                     "probability",
		"error=10%":                     "probability",
		"delay=2":                       "time",
		"delay=-1s":                     "time",
		"delay=31s":                     "time",
		"delay=1us":                     "time",
		"drop=1,seed=-1":                "number",
		"drop=1,seed=1.5":               "number",
		"drop=1,seed=99999999999999999": "number",
		"drop=0.1,drop=0.2":             "twice",
		"seed=1":                        "no fault",
		"drop=0,delay=0s":               "no fault",
	} {
		_, err := parseChaos(text)
		if exitOf(err) != exitUsage || !strings.Contains(fmt.Sprint(err, hintFor(err, report{})), then) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What a killed relay left goes; what somebody uses, or what is not this
// user's alone, stays.
func TestRemoveStaleData(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	make := func(name string, mode os.FileMode, lockTime time.Time) string {
		path := filepath.Join(dir, name)
		must(t, os.Mkdir(path, 0o700))
		if !lockTime.IsZero() {
			lock := filepath.Join(path, devLock)
			must(t, os.WriteFile(lock, nil, 0o600))
			must(t, os.Chtimes(lock, lockTime, lockTime))
		}
		must(t, os.Chmod(path, mode))
		return path
	}
	stale := make("ace-relay-1", 0o700, old)
	must(t, os.WriteFile(filepath.Join(stale, devDatabase), []byte("x"), 0o600))
	stays := []string{
		make("ace-relay-2", 0o755, old),
		make("ace-relay-3", 0o700, time.Time{}),
		make("ace-relay-4", 0o700, time.Now()),
		make("other-5", 0o700, old),
		make("ace-relay-6", 0o700, old),
	}
	lock, err := ownerfile.Acquire(filepath.Join(stays[4], devLock), "a relay", 1)
	must(t, err)
	defer lock.Release()
	must(t, os.Chtimes(filepath.Join(stays[4], devLock), old, old))
	must(t, os.Symlink(stays[2], filepath.Join(dir, "ace-relay-7")))
	must(t, os.WriteFile(filepath.Join(dir, "ace-relay-8"), nil, 0o600))

	removeStaleData(dir)
	if _, err := os.Stat(stale); err == nil {
		t.Error("a stale folder stays")
	}
	for _, path := range append(stays, filepath.Join(dir, "ace-relay-7"), filepath.Join(dir, "ace-relay-8")) {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%s is gone", filepath.Base(path))
		}
	}
	removeStaleData(filepath.Join(dir, "nowhere"))

	// A removal that does not get to its end leaves the lock, by which the rest
	// is found again. Nothing stops that of root.
	half := make("ace-relay-9", 0o700, old)
	inside := filepath.Join(half, "echo")
	must(t, os.MkdirAll(filepath.Join(inside, "kept"), 0o700))
	must(t, os.Chmod(inside, 0o500))
	removeStaleData(dir)
	if _, err := os.Stat(filepath.Join(half, devLock)); os.Geteuid() != 0 && err != nil {
		t.Error("half a folder has no lock")
	}
	_ = os.Chmod(inside, 0o700)
}

type address struct {
	net.Listener
	at string
}

func (a address) Addr() net.Addr {
	at, _ := net.ResolveTCPAddr("tcp", a.at)
	return at
}

func TestDevURL(t *testing.T) {
	for _, c := range []struct {
		at, public string
		open       bool
		want       string // "" for a refusal
	}{
		{"127.0.0.1:8420", "", false, "http://127.0.0.1:8420"},
		{"[::1]:8420", "", true, "http://[::1]:8420"},
		{"127.0.0.1:8420", "https://relay.example", false, "https://relay.example"},
		{"0.0.0.0:8420", "", false, ""},
		{"0.0.0.0:8420", "https://relay.example", false, ""},
		{"0.0.0.0:8420", "", true, "http://127.0.0.1:8420"},
		{"[::]:8420", "", true, "http://127.0.0.1:8420"},
		{"192.0.2.7:8420", "", true, ""},
		{"192.0.2.7:8420", "https://relay.example", true, "https://relay.example"},
	} {
		d := &devRun{o: devOptions{open: c.open}, config: relaysvc.Config{PublicURL: c.public}, ln: address{at: c.at}}
		got, err := d.url()
		if got != c.want || (c.want == "") != (exitOf(err) == exitUsage) {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// Only a relay of a living process that answers at its URL counts.
func TestFindDevRelay(t *testing.T) {
	s := newStage(t)
	a := &app{io: s.io("")}
	var ready relayReady
	must(t, json.Unmarshal([]byte(s.relay()), &ready))
	find := func(want string) {
		t.Helper()
		if got, err := a.findDevRelay(); got != want || (want == "") != (fault.CodeOf(err) == fault.RelayUnavailable) {
			t.Errorf("found %q: %v", got, err)
		}
	}
	find(ready.URL)

	ended := exec.Command("true")
	must(t, ended.Run())
	answering := func(status int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(server.Close)
		return server.URL
	}
	for what, d := range map[string]devRelay{
		"a relay whose process is gone": {URL: answering(http.StatusOK), PID: ended.Process.Pid},
		"a relay that nobody answers":   {URL: "http://127.0.0.1:1", PID: os.Getpid()},
		"a relay about to end":          {URL: answering(http.StatusServiceUnavailable), PID: os.Getpid()},
	} {
		path := filepath.Join(a.devRelayDir(), "dev-relay-newer.json")
		text, err := json.Marshal(d)
		must(t, err)
		must(t, ownerfile.Write(path, text))
		find(ready.URL)
		must(t, a.settleDevRelays())
		if target, _ := os.Readlink(a.devRelayPath()); target == filepath.Base(path) {
			t.Errorf("dev-relay.json is about %s", what)
		}
		if _, err := os.Stat(path); (err == nil) != (d.PID == os.Getpid()) {
			t.Errorf("the file about %s: %v", what, err)
		}
		os.Remove(path)
	}

	// A file that leads elsewhere is an error: nobody but the user writes there.
	path := filepath.Join(a.devRelayDir(), "dev-relay-x.json")
	for _, text := range []string{`{"url":"https://relay.example","pid":1}`, `{"url":"x"}`, "", strings.Repeat(" ", devRelayLimit+1)} {
		must(t, ownerfile.Write(path, []byte(text)))
		if _, err := a.findDevRelay(); fault.CodeOf(err) != fault.StorageFailed {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	must(t, os.Remove(path))
	find(ready.URL)
}

// The petname echo follows the relay, but is not taken from somebody else.
func TestNameEcho(t *testing.T) {
	s := newStage(t)
	var ready relayReady
	must(t, json.Unmarshal([]byte(s.relay("--echo")), &ready))
	s.must("init", "--name", "friend", "--relay", "dev", "--contact", "open")
	friend := s.must("--as", "friend", "identity", "show", "--jq", ".ace_id")
	s.must("init", "--name", "a", "--relay", "dev")
	s.must("init", "--name", "b", "--relay", ready.URL, "--allow-loopback")
	for _, who := range []string{"a", "b"} {
		if got := s.must("--as", who, "lookup", "echo", "--jq", ".ace_id"); got != ready.Echo {
			t.Errorf("%s has %s as echo, not %s", who, got, ready.Echo)
		}
	}

	a := &app{io: s.io("")}
	next := devRelay{URL: ready.URL, PID: ready.PID, Echo: friend}
	withdraw, err := a.announceDevRelay(next) // as the next relay would
	must(t, err)
	defer withdraw()
	if got := s.must("--as", "a", "lookup", "echo", "--jq", ".ace_id"); got != friend {
		t.Errorf("the name has not followed: %s", got)
	}

	id, err := a.openIdentity("a")
	must(t, err)
	id.settings.Echo = "" // the owner's own choice
	must(t, id.settings.write(id.store.Dir()))
	next.Echo = ready.Echo
	withdraw, err = a.announceDevRelay(next)
	must(t, err)
	defer withdraw()
	if got := s.must("--as", "a", "lookup", "echo", "--jq", ".ace_id"); got != friend {
		t.Errorf("the name was taken away: %s", got)
	}
}

func TestCommandStatus(t *testing.T) {
	for script, want := range map[string]int{
		"exit 0": 0, "exit 1": 1, "exit 255": 255, "kill -INT $$": 130, "kill -TERM $$": 143, "kill -KILL $$": 137,
	} {
		c := exec.Command("sh", "-c", script)
		err := c.Run()
		if got := (&app{io: newStage(t).io("")}).finish(context.Background(), commandStatus(c.ProcessState, err)); got != want {
			t.Errorf("%s: %d, want %d", script, got, want)
		}
	}
}

func TestActivityLine(t *testing.T) {
	var stderr bytes.Buffer
	s := newStage(t)
	d := &devRun{app: &app{io: s.io("")}}
	d.io.Err = &stderr
	busy := relaysvc.Activity{Sends: 12, Streams: 1, Agents: 4, Queued: 2}
	d.drawActivity(busy)
	d.io.ErrTTY = true
	d.drawActivity(busy)
	const line = "12 sends, 1 stream, 4 agents, 2 queued"
	if got, want := stderr.String(), line+"\n\r"+line+"\x1b[K\r"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Whoever asked for quiet, or has a command that uses standard error, gets
	// none: this returns though nothing ends it.
	d.flags.quiet = true
	d.showActivity(context.Background(), nil)
	d.flags.quiet, d.o.exec = false, true
	d.showActivity(context.Background(), nil)
}

// Only what a terminal sends on a key may have reached the command already.
func TestPassesSignalsOn(t *testing.T) {
	for _, s := range commandSignals() {
		if s != syscall.SIGINT && s != syscall.SIGQUIT && fromTerminal(s) {
			t.Errorf("%v is taken for one of the terminal", s)
		}
	}
}

// The ready line keeps to its schema whatever was asked for.
func TestReadySchema(t *testing.T) {
	s := newStage(t)
	seed := s.write("seed.ndjson", "\n")
	line := s.relay("--echo", "--seed", seed, "--chaos", "dup=0.25,seed=1")
	validateLines(t, s, "ace relay serve", line)
	if want := `"seeded":{"agents":0,"cards":0},"chaos":{"drop":0,"dup":0.25,"error":0,"delay_ms":0,"seed":1}}`; !strings.HasSuffix(line, want) {
		t.Errorf("%s", line)
	}
}
