package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core"
)

// pair is alice, who sends to bob, and a relay.
type pair struct {
	*stage
	bob string // ACE ID
}

func newPair(t *testing.T, relay ...string) *pair {
	t.Helper()
	p := &pair{stage: newStage(t)}
	p.stage.relay(relay...)
	p.must("init", "--yes", "--name", "alice", "--relay", "dev")
	p.must("init", "--yes", "--name", "bob", "--relay", "dev", "--handle", "bob", "--contact", "open", "--accept", "text")
	p.bob = p.must("--as", "bob", "identity", "show", "--jq", ".ace_id")
	p.must("--as", "alice", "connect", p.bob)
	p.must("--as", "bob", "pull")
	p.must("--as", "alice", "pull")
	return p
}

// send sends texts to bob and returns the ID of the last one.
func (p *pair) send(texts ...string) (id string) {
	p.t.Helper()
	for _, text := range texts {
		id = p.must("--as", "alice", "send", p.bob, text, "--jq", ".message_id")
	}
	return id
}

func (p *pair) unhandled() string {
	p.t.Helper()
	return p.must("--as", "bob", "inbox", "list", "--unhandled", "--jq", ".[] | .untrusted.body.message")
}

// path is a file in the folder of the stage.
func (p *pair) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pair) file(name string) string {
	text, _ := os.ReadFile(p.path(name))
	return string(text)
}

func (p *pair) eventually(what string, ok func() bool) {
	p.t.Helper()
	for until := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			p.t.Fatalf("not so: %s", what)
		}
	}
}

// script is a handler, run by the shell in the folder of the stage.
func (p *pair) script(text string) []string {
	mustWrite(p.t, p.path("handle.sh"), "cd "+p.dir+"\n"+text)
	return []string{"--", "sh", p.path("handle.sh")}
}

// listening is ace listen of bob as a process of its own.
type listening struct {
	*pair
	cmd      *exec.Cmd
	out, log *lockedBuffer
	status   chan int
}

// listen starts bob's listener, in an environment with more, and waits for its
// first line.
func (p *pair) listen(env []string, args ...string) *listening {
	p.t.Helper()
	return p.start(env, append([]string{"ace", "--as", "bob", "listen", "--json"}, args...)...)
}

func (p *pair) start(env []string, command ...string) *listening {
	p.t.Helper()
	l := p.launch(env, command...)
	l.prints(`"event":"ready"`)
	return l
}

func (p *pair) launch(env []string, command ...string) *listening {
	p.t.Helper()
	l := &listening{pair: p, cmd: exec.Command(command[0], command[1:]...), out: &lockedBuffer{}, log: &lockedBuffer{}, status: make(chan int, 1)}
	l.cmd.Env = append(append(os.Environ(), "HOME="+p.dir, "XDG_RUNTIME_DIR="+p.env["XDG_RUNTIME_DIR"]), env...)
	l.cmd.Stdout, l.cmd.Stderr = l.out, l.log
	l.cmd.WaitDelay = time.Second
	must(p.t, l.cmd.Start())
	go func() {
		_ = l.cmd.Wait() // the status tells
		l.status <- l.cmd.ProcessState.ExitCode()
	}()
	p.t.Cleanup(func() { _ = l.cmd.Process.Kill() })
	return l
}

func (l *listening) prints(pattern string) {
	l.t.Helper()
	re := regexp.MustCompile(pattern)
	l.eventuallyLogs("it prints "+pattern, func() bool { return re.MatchString(l.out.String()) })
}

func (l *listening) eventuallyLogs(what string, ok func() bool) {
	l.t.Helper()
	for until := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			l.t.Fatalf("not so: %s\n%s\n%s", what, l.out, l.log)
		}
	}
}

func (l *listening) signal(s os.Signal) {
	l.t.Helper()
	must(l.t, l.cmd.Process.Signal(s))
}

func (l *listening) ends(want int) {
	l.t.Helper()
	select {
	case got := <-l.status:
		if got != want {
			l.t.Fatalf("exit status %d, want %d\n%s\n%s", got, want, l.out, l.log)
		}
	case <-time.After(patience):
		l.t.Fatalf("it goes on\n%s\n%s", l.out, l.log)
	}
}

// TestListenersExcludeEachOther: one process receives for an identity, the second
// is told which. All other commands work beside it.
func TestListenersExcludeEachOther(t *testing.T) {
	p := newPair(t)
	l := p.listen(nil, append([]string{"--exec"}, p.script("cat >>log; echo >>log")...)...)
	for _, args := range [][]string{{"listen"}, {"listen", "--exec", "--", "true"}, {"listen", "--poll", "1"}, {"pull"}} {
		r := p.try(append(append([]string{"--as", "bob", "--json"}, args[0]), args[1:]...)...)
		holder := regexp.MustCompile(fmt.Sprintf(`"holder":{"pid":%d,"cmd":"ace listen","since":\d+}`, l.cmd.Process.Pid))
		if r.status != exitHeld || !holder.MatchString(r.err) {
			t.Errorf("%v: status %d: %s", args, r.status, r.err)
		}
	}
	if r := p.try("--as", "bob", "listen"); !regexp.MustCompile(fmt.Sprintf(`pid %d \("ace listen"\) since \d{4}-`, l.cmd.Process.Pid)).MatchString(r.err) {
		t.Errorf("nobody is named: %s", r.err)
	}
	id := p.send("hello")
	p.eventually("it is handled", func() bool { return p.file("log") == "hello\n" })
	alice := p.must("--as", "alice", "identity", "show", "--jq", ".ace_id")
	p.must("--as", "bob", "send", alice, "answer")
	p.must("--as", "bob", "inbox", "list")
	p.must("--as", "bob", "read", id)
	p.must("--as", "bob", "why", alice)
	p.must("--as", "bob", "status")
	l.signal(syscall.SIGTERM)
	l.ends(exitOK)
	l.prints(`"event":"end","reason":"signal"`)
}

// TestListenersEnd: a command that runs has its time, also to end; the second
// signal does not wait, and the message is handed on again.
func TestListenersEnd(t *testing.T) {
	p := newPair(t)
	handle := append([]string{"--exec"}, p.script(`echo $ACE_ATTEMPT $$ >>log; trap "" TERM; until test -e "go"; do sleep 0.02; done`)...)
	attempt := func(n string) func() bool {
		return func() bool { return regexp.MustCompile(`(?m)^` + n + ` \d+$`).MatchString(p.file("log")) }
	}
	l := p.listen(nil, handle...)
	p.send("x")
	p.eventually("the command runs", attempt("1"))
	l.signal(syscall.SIGINT)
	time.Sleep(2 * oneWish)
	l.signal(syscall.SIGINT)
	l.ends(exitInterrupted)
	p.eventually("the command has ended with it", func() bool { return gone(t, p.file("log")) })
	if got := p.unhandled(); got != "x" {
		t.Errorf("%q is left", got)
	}

	l = p.listen(nil, handle...)
	p.eventually("it runs again", attempt("2"))
	l.signal(syscall.SIGTERM)
	mustWrite(t, p.path("go"), "")
	l.ends(exitOK)
	l.prints(`"event":"handled".*"attempt":2`)
	if got := p.unhandled(); got != "" {
		t.Errorf("%q is left", got)
	}
}

// TestListenersKilled: nothing of a command depends on how ace ends. Where the
// system can, the command ends with it.
func TestListenersKilled(t *testing.T) {
	p := newPair(t)
	handle := append([]string{"--exec"}, p.script(`echo $ACE_ATTEMPT $$ >>log; test $ACE_ATTEMPT -ge 3 || exec sleep 60`)...)
	for attempt := range 2 {
		l := p.listen(nil, handle...)
		if attempt == 0 {
			p.send("x", "y")
		}
		p.eventually("the command runs", func() bool { return strings.Count(p.file("log"), "\n") == attempt+1 })
		l.signal(syscall.SIGKILL)
		l.ends(-1)
		if runtime.GOOS == "linux" {
			p.eventually("the command has ended with it", func() bool { return gone(t, p.file("log")) })
		}
	}
	if got := p.must("--as", "bob", "inbox", "list", "--unhandled", "--jq", ".[0].handling.running"); got != "true" {
		t.Errorf("an attempt that was cut off is not seen: %s", got)
	}
	l := p.listen(nil, append([]string{"--exec-attempts", "1"}, handle...)...)
	l.prints(`"event":"handled".*"attempt":3`)
	l.signal(syscall.SIGKILL)
	l.ends(-1)
}

// gone reports whether no process is left of those whose numbers end the lines.
func gone(t *testing.T, log string) bool {
	t.Helper()
	for line := range strings.Lines(log) {
		fields := strings.Fields(line)
		pid, err := strconv.Atoi(fields[len(fields)-1])
		must(t, err)
		state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if syscall.Kill(pid, 0) == nil && !strings.Contains(string(state), ") Z ") {
			return false
		}
	}
	return true
}

// TestBadCommands: none of them keeps the listener, or another sender, from
// anything.
func TestBadCommands(t *testing.T) {
	oneThing(t)
	p := newPair(t)
	handle := p.script(`case $(cat) in
		flood) yes | head -c 3000000; yes | head -c 3000000 >&2 ;;
		deaf) exec <&-; exit 0 ;;
		stray) sleep 60 & exit 0 ;;
		signal) kill -KILL $$ ;;
		late) trap "" TERM; while :; do sleep 0.1; done ;;
		*escape*) printf '\033]52;c;aGk=\007' ;;
	esac`)
	l := p.listen(nil, append([]string{"--exec", "--exec-attempts", "1", "--exec-timeout", "2s", "-v"}, handle...)...)
	p.send("flood", "deaf", "stray", "signal", "late", "\x1b]0;escape\a")
	for _, want := range []string{
		`"event":"handled".*"output_bytes":6000000`,
		`"event":"handler_failed".*"exit":137,"reason":"signal 9 \(killed\)"`,
		`"event":"handler_failed".*"exit":137,"reason":"it took longer than 2s"`,
		`"event":"handled".*"output_bytes":12`,
	} {
		l.prints(want)
	}
	if got := p.unhandled(); got != "signal\nlate" {
		t.Errorf("%q are left", got)
	}
	if log := l.log.String(); len(log) > 64<<10*64 || strings.ContainsAny(log, "\x1b\a") || !strings.Contains(log, `\u001b]52;c;aGk=\u0007`) {
		t.Errorf("%d bytes on standard error, %.300q", len(log), log[max(0, len(log)-300):])
	}
	l.signal(syscall.SIGTERM)
	l.ends(exitOK)
}

// TestListenOnAFullDisk: where nothing more can be written the listener ends with
// storage_failed, or waits to fetch again what it could not finish. What it has
// told is there, and the next one misses nothing.
func TestListenOnAFullDisk(t *testing.T) {
	p := newPair(t)
	handle := p.script(`cat >>log; echo >>log`)
	info, err := os.Stat(p.path(".local/share/ace/identities/bob/store.db"))
	must(t, err)
	// No file can grow beyond what the database has now and little more: its log
	// begins with nothing, and gets there.
	blocks := fmt.Sprint(info.Size()/512 + 64)
	command := append([]string{"sh", "-c", "ulimit -f " + blocks + "; exec \"$@\"", "sh", "ace", "--as", "bob", "listen", "--json", "--exec"}, handle...)
	l := p.start(nil, command...)
	var want strings.Builder
	for i := range 50 {
		text := fmt.Sprintf("%04d %s", i, strings.Repeat("x", 8000))
		p.send(text)
		want.WriteString(text + "\n")
	}
	select {
	case status := <-l.status:
		if status != exitStorage || !strings.Contains(l.out.String(), `"code":"storage_failed"`) {
			t.Fatalf("exit status %d\n%s\n%.2000s", status, l.log, l.out)
		}
	case <-time.After(time.Second):
		l.signal(syscall.SIGTERM)
		l.ends(exitOK)
	}
	if p.file("log") == want.String() {
		t.Fatal("the disk does not get full: the test does not look")
	}
	p.listen(nil, append([]string{"--exec"}, handle...)...)
	p.eventually("all are handled, in order", func() bool {
		seen := map[string]bool{}
		var got strings.Builder
		for line := range strings.Lines(p.file("log")) {
			if !seen[line] { // one may have been handed on without its mark
				got.WriteString(line)
			}
			seen[line] = true
		}
		return got.String() == want.String()
	})
	p.eventually("all are marked", func() bool { return p.unhandled() == "" })
}

// serviceManager is a socket that services tell of themselves.
func serviceManager(t *testing.T) (*net.UnixConn, func(prefix string)) {
	t.Helper()
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	must(t, err)
	t.Cleanup(func() { manager.Close() })
	return manager, func(prefix string) {
		t.Helper()
		must(t, manager.SetReadDeadline(time.Now().Add(patience)))
		for buffer := make([]byte, 4096); ; {
			n, err := manager.Read(buffer)
			if err != nil {
				t.Fatalf("no %s: %v", prefix, err)
			}
			if strings.HasPrefix(string(buffer[:n]), prefix) {
				return
			}
		}
	}
}

// TestListenTellsTheServiceManager when it listens, that it lives, how its command
// fares and that it ends. The command hears nothing of a service manager.
func TestListenTellsTheServiceManager(t *testing.T) {
	p := newPair(t)
	manager, told := serviceManager(t)
	l := p.launch([]string{"NOTIFY_SOCKET=" + manager.LocalAddr().String(), "WATCHDOG_USEC=200000"},
		append([]string{"ace", "--as", "bob", "listen", "--json", "--exec"}, p.script("env >env; exit 1")...)...)
	told("READY=1\nSTATUS=listening at http://127.0.0.1:")
	told("WATCHDOG=1")
	p.send("x")
	told("STATUS=1 run of the command, 1 failed")
	told("WATCHDOG=1")
	if env := p.file("env"); !strings.Contains(env, "ACE_MESSAGE_ID=") || strings.Contains(env, "NOTIFY_SOCKET") || strings.Contains(env, "WATCHDOG") {
		t.Errorf("environment %s", env)
	}
	l.signal(syscall.SIGTERM)
	told("STOPPING=1")
	l.ends(exitOK)
}

// TestListenThatHangs: one that cannot print any more gives no signs of life.
func TestListenThatHangs(t *testing.T) {
	p := newPair(t)
	manager, told := serviceManager(t)
	out, stuck, err := os.Pipe()
	must(t, err)
	defer out.Close()
	defer stuck.Close()
	cmd := exec.Command("ace", "--as", "bob", "listen", "--json")
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_RUNTIME_DIR="+p.env["XDG_RUNTIME_DIR"], "NOTIFY_SOCKET="+manager.LocalAddr().String(), "WATCHDOG_USEC=100000")
	cmd.Stdout = stuck
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	told("READY=1")
	told("WATCHDOG=1")
	for range 10 { // more than a pipe holds
		p.send(strings.Repeat("x", 8000))
	}
	p.eventually("it tells nothing any more", func() bool {
		must(t, manager.SetReadDeadline(time.Now().Add(500*time.Millisecond)))
		_, err := manager.Read(make([]byte, 4096))
		return err != nil
	})
	go func() { _, _ = io.Copy(io.Discard, out) }()
	told("WATCHDOG=1") // and it is well again
}

// TestWatchdog: a listener that has heard nothing for too long gives no signs of
// life, whatever else works.
func TestWatchdog(t *testing.T) {
	manager, told := serviceManager(t)
	d := &daemon{
		manager: systemd{socket: manager.LocalAddr().String(), watchdog: 20 * time.Millisecond},
		silence: listenOptions{}.silence(), began: time.Now(),
	}
	asked := make(chan bool, 100)
	stop := d.watch(t.Context(), func(context.Context) bool { asked <- true; return true })
	defer stop()
	must(t, manager.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	if n, err := manager.Read(make([]byte, 100)); err == nil || len(asked) > 0 {
		t.Errorf("told %d bytes, asked %d times", n, len(asked))
	}
	d.heard()
	told("WATCHDOG=1")
	d.heardFor(core.Event{Connection: &core.ConnectionEvent{State: "reconnecting", InSeconds: 1 << 60}})
	if !d.turns() {
		t.Error("a long wait that the relay asked for counts as none")
	}
}

// TestWatchdogOfAPoll: a listener that polls seldom hears nothing between two times,
// and is well.
func TestWatchdogOfAPoll(t *testing.T) {
	const hour = 3600
	d := &daemon{silence: listenOptions{poll: hour}.silence(), began: time.Now().Add(-hour * time.Second)}
	d.until.Store(int64(listenOptions{poll: hour}.silence()))
	if !d.turns() {
		t.Error("an hour without a word is too long for one that polls every hour")
	}
	d.heard()
	d.began = d.began.Add(-hour * time.Second)
	if !d.turns() {
		t.Error("it is given less time once it has heard something")
	}
}

// TestPollThroughAProxy that keeps a stream to itself for ever: a listener of
// streams hears nothing, one that polls gets its messages.
func TestPollThroughAProxy(t *testing.T) {
	relay := freeAddress(t)
	target, err := url.Parse("http://" + relay)
	must(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	pass := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{}
	pass.Transport = transport
	var streams atomic.Int64
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/listen" {
			pass.ServeHTTP(w, r)
			return
		}
		streams.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done() // what the relay says is not passed on
	})}
	go func() { _ = proxy.Serve(ln) }()
	t.Cleanup(func() { proxy.Close(); transport.CloseIdleConnections() })

	p := newPair(t, "--public-url", "http://"+ln.Addr().String(), "--listen", relay)
	l := p.listen(nil)
	p.eventually("it opens a stream", func() bool { return streams.Load() > 0 })
	p.send("first")
	p.send("second")
	l.signal(syscall.SIGTERM)
	l.ends(exitOK)
	if out := l.out.String(); strings.Contains(out, "first") {
		t.Fatalf("the proxy passes streams on: the test does not look\n%s", out)
	}
	l = p.listen(nil, "--poll", "1")
	l.prints(`"message":"first"`)
	l.prints(`"message":"second"`)
	if !strings.Contains(l.out.String(), `"backlog":2`) {
		t.Errorf("the first line does not tell what waits: %s", l.out)
	}
	p.send("third")
	l.prints(`"message":"third"`)
	l.signal(syscall.SIGTERM)
	l.ends(exitOK)
	l.prints(`"event":"end","reason":"signal","cursor":"\d+-\d+","processed":3}`)
	if streams.Load() != 1 {
		t.Errorf("%d streams, want the one of the first listener", streams.Load())
	}
}

// TestListenUnit: the unit runs what was asked for, and systemd takes it.
func TestListenUnit(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--name", "ops", "--no-publish", "--relay", "https://relay.example")
	odd := filepath.Join(s.dir, `an "odd" $PATH %h`)
	must(t, os.WriteFile(odd, []byte("#!/bin/sh\n"), 0o700))
	pass := s.write("pass", "secret\n")
	home := filepath.Join(s.dir, ".local/share/ace")
	for _, c := range []struct {
		args []string
		want []string
		not  []string
	}{
		{nil, []string{"ExecStart=/bin/sh --home " + home + " --as ops listen --json --forever", "Type=notify", "WatchdogSec=60", "KillMode=mixed", "Restart=always",
			"NoNewPrivileges=yes", "MemoryDenyWriteExecute=yes", "WantedBy=default.target"}, []string{"User="}},
		{[]string{"--poll", "5", "--types", "text", "--exec", "--exec-timeout", "2m", "--", odd, "a b"},
			[]string{"ExecStart=/bin/sh --home " + home + " --as ops listen --json --forever --poll 5 --types ace:text:1 --exec --exec-timeout 2m --exec-concurrency 4 --exec-attempts 0 -- " +
				`"` + filepath.Join(s.dir, `an \"odd\" $$PATH %%h`) + `" "a b"`}, []string{"MemoryDenyWriteExecute=yes"}},
		{[]string{"--system", "--passphrase-file", pass}, []string{"ExecStart=/bin/sh --home " + home + " --as ops --passphrase-file %d/passphrase listen --json --forever",
			"LoadCredential=passphrase:" + pass, "ProtectSystem=full", "WantedBy=multi-user.target"}, nil},
		{[]string{"--passphrase-command", "pass show ace"}, []string{"ExecStart=/bin/sh --home " + home + ` --as ops --passphrase-command "pass show ace" listen --json --forever`}, []string{"LoadCredential"}},
		// The home of a service is that of the account: it reads the policy of this one.
		{nil, []string{`Environment="XDG_CONFIG_HOME=` + s.dir + `/.config"`}, nil},
	} {
		unit := s.must(append([]string{"listen", "unit", "--program", "/bin/sh"}, c.args...)...) + "\n"
		for _, want := range c.want {
			if !strings.Contains(unit, "\n"+want+"\n") {
				t.Errorf("%v: the unit has no %s\n%s", c.args, want, unit)
			}
		}
		for _, not := range append(c.not, "secret") {
			if strings.Contains(unit, not) {
				t.Errorf("%v: the unit has %s", c.args, not)
			}
		}
		verifyUnit(t, unit)
	}
	for _, args := range [][]string{{"--json"}, {"--exec"}, {"--passphrase-fd", "3"}, {"--exec", "--", "./nowhere"}, {"--poll", "-1"}, {"--poll", "604801"}, {"--types", "nothing"}, {"--exec", "--", "sh", "a\nb"}} {
		if r := s.try(append([]string{"listen", "unit"}, args...)...); r.status != exitUsage {
			t.Errorf("%v: status %d: %s", args, r.status, r.out)
		}
	}
}

// verifyUnit lets systemd read a unit, where it is installed.
func verifyUnit(t *testing.T, unit string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd-analyze is not installed: the unit was not verified")
		return
	}
	file := filepath.Join(t.TempDir(), "ace-listen.service")
	// The manual page is not where systemd looks for it.
	mustWrite(t, file, strings.ReplaceAll(unit, "Documentation=man:ace-listen(1)\n", ""))
	if out, err := exec.Command(analyze, "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v: %s\n%s", err, out, unit)
	}
}
