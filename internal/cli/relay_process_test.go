package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds how long these tests wait for what has to come.
const patience = 30 * time.Second

// relayProcess is ace relay serve as a process of its own.
type relayProcess struct {
	t       *testing.T
	cmd     *exec.Cmd
	ready   relayReady
	address string // to talk to, "" when the test knows it
	log     *lockedBuffer
	status  chan int
}

// lockedBuffer is standard error of a process that still writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// freeAddress returns a loopback address with a port that was free just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// startRelay runs a command that ends in ace relay serve and waits until the
// relay is ready. The test binary is the program: see TestMain.
func startRelay(t *testing.T, env []string, files []*os.File, command ...string) *relayProcess {
	t.Helper()
	p := &relayProcess{t: t, cmd: exec.Command(command[0], command[1:]...), log: &lockedBuffer{}, status: make(chan int, 1)}
	p.cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir(), "ACE_RELAY_TIMEOUTS_SPREAD=1ms"), env...)
	p.cmd.ExtraFiles, p.cmd.Stderr = files, p.log
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make(chan string, 1)
	go func() {
		scanner := bufio.NewScanner(out)
		scanner.Scan()
		line <- scanner.Text()
		_, _ = io.Copy(io.Discard, out)
		_ = p.cmd.Wait() // the status tells
		p.status <- p.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		http.DefaultClient.CloseIdleConnections()
	})
	select {
	case text := <-line:
		if err := json.Unmarshal([]byte(text), &p.ready); err != nil {
			t.Fatalf("%q instead of a ready line: %s", text, p.log)
		}
	case <-time.After(patience):
		t.Fatalf("the relay does not get ready: %s", p.log)
	}
	return p
}

func (p *relayProcess) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the end of the process with that status.
func (p *relayProcess) ends(want int) {
	p.t.Helper()
	select {
	case got := <-p.status:
		if got != want {
			p.t.Fatalf("exit status %d, want %d: %s", got, want, p.log)
		}
	case <-time.After(patience):
		p.t.Fatalf("the relay goes on: %s", p.log)
	}
}

// eventually waits until ok answers true.
func (p *relayProcess) eventually(what string, ok func() bool) {
	p.t.Helper()
	for until := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			p.t.Fatalf("not so: %s\n%s", what, p.log)
		}
	}
}

func (p *relayProcess) logs(pattern string) {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	p.eventually("the log has "+pattern, func() bool { return re.MatchString(p.log.String()) })
}

// fetch returns the body of a GET.
func (p *relayProcess) fetch(path string) string {
	p.t.Helper()
	resp, err := http.Get("http://" + p.address + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(body)
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRelayStartsTwice starts a relay on nothing and again on what the first
// start made. The second changes no file but what a process that runs writes.
func TestRelayStartsTwice(t *testing.T) {
	dir, address := filepath.Join(t.TempDir(), "deep", "store"), freeAddress(t)
	tree := func() (names []string) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			names = append(names, fmt.Sprintf("%s %s", info.Mode(), strings.TrimPrefix(path, dir)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	var first []string
	for range 2 {
		p := startRelay(t, nil, nil, "ace", "relay", "serve", "--public-url", "https://Relay.Example/", "--data", dir, "--listen", address)
		p.address = address
		if p.ready.URL != "https://relay.example" || p.ready.Data != dir || p.ready.Dev || p.ready.PID != p.cmd.Process.Pid {
			t.Fatalf("ready line: %+v", p.ready)
		}
		if got := p.fetch("/health/ready"); got != `{"status":"ok"}` {
			t.Fatalf("ready: %s", got)
		}
		p.signal(syscall.SIGTERM)
		p.ends(exitOK)
		p.logs("has drained")
		if first == nil {
			first = tree()
		}
	}
	if second := tree(); !reflect.DeepEqual(first, second) {
		t.Errorf("first start: %q\nsecond: %q", first, second)
	}
}

// TestReadyLineNamesWholePaths: who reads the line may be in another folder.
func TestReadyLineNamesWholePaths(t *testing.T) {
	for _, kind := range []string{"--dev", "--public-url https://relay.example"} {
		dir := t.TempDir()
		p := startRelay(t, []string{"XDG_RUNTIME_DIR=" + dir}, nil,
			"sh", "-c", "cd "+dir+" && exec ace relay serve "+kind+" --data store --admin-socket store/socket --listen 127.0.0.1:0")
		if p.ready.Data != filepath.Join(dir, "store") || p.ready.Admin != filepath.Join(dir, "store", "socket") {
			t.Errorf("%s: %+v", kind, p.ready)
		}
		newStage(t).must("relay", "drain", "--admin-socket", p.ready.Admin)
		p.ends(exitOK)
	}
}

// TestSecondSignal asks a relay to end while a request does not finish. The
// second signal does not wait for it.
func TestSecondSignal(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGTERM: exitTerminated, syscall.SIGINT: exitInterrupted} {
		address := freeAddress(t)
		p := startRelay(t, nil, nil, "ace", "relay", "serve", "--public-url", "https://relay.example", "--listen", address)
		occupy(t, address)
		p.signal(signal)
		p.logs("draining")
		time.Sleep(oneWish)
		p.signal(signal)
		p.ends(want)
	}
}

// TestSignalsAtOnce covers timeout(1), which signals its child and then its group:
// these are not two wishes.
func TestSignalsAtOnce(t *testing.T) {
	signals := make(chan os.Signal, 3)
	signals <- syscall.SIGTERM
	signals <- syscall.SIGTERM
	signals <- syscall.SIGINT
	passed := time.Duration(0)
	got := secondSignal(signals, func() time.Duration {
		passed += oneWish * 2 / 5
		return passed
	})
	if got != syscall.SIGINT || len(signals) != 0 {
		t.Errorf("the second signal is %v, %d are left", got, len(signals))
	}
}

// occupy sends a relay the beginning of a request, which it waits for the rest
// of until the test ends.
func occupy(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST /v1/send HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q, %v", line, err) // the handler waits for the body now
	}
}

// TestSecondSignalOfAThrowawayRelay removes the folder that the relay made for
// itself, and none that it was given.
func TestSecondSignalOfAThrowawayRelay(t *testing.T) {
	given := filepath.Join(t.TempDir(), "given")
	for _, options := range [][]string{nil, {"--data", given}} {
		address := freeAddress(t)
		command := append([]string{"ace", "relay", "serve", "--dev", "--verbose", "--echo", "--listen", address}, options...)
		p := startRelay(t, []string{"TMPDIR=" + t.TempDir()}, nil, command...)
		occupy(t, address)
		p.signal(syscall.SIGINT)
		p.logs("draining")
		time.Sleep(oneWish)
		p.signal(syscall.SIGINT)
		p.ends(exitInterrupted)
		if _, err := os.Stat(p.ready.Data); (err == nil) != (p.ready.Data == given) {
			t.Errorf("%q: %v", p.ready.Data, err)
		}
	}
}

// TestHangupOfAThrowawayRelay closes its terminal, and the folder that it made
// for itself goes as well.
func TestHangupOfAThrowawayRelay(t *testing.T) {
	// Tests that run under nohup ignore the signal, and so would the relay.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	p := startRelay(t, []string{"TMPDIR=" + t.TempDir()}, nil, "ace", "relay", "serve", "--dev")
	p.signal(syscall.SIGHUP)
	p.ends(exitOK)
	p.logs("has drained")
	if _, err := os.Stat(p.ready.Data); err == nil {
		t.Errorf("%s is still there", p.ready.Data)
	}
}

// TestDebugOfAThrowawayRelay: the signal that turns debugging on does not end a
// development relay.
func TestDebugOfAThrowawayRelay(t *testing.T) {
	address := freeAddress(t)
	p := startRelay(t, []string{"TMPDIR=" + t.TempDir()}, nil, "ace", "relay", "serve", "--dev", "--listen", address)
	p.address = address
	p.signal(syscall.SIGUSR1)
	p.logs("log level changed.*DEBUG")
	p.fetch("/health")
	p.logs(`level=DEBUG msg=request route="GET /health" code=ok`)
	p.signal(syscall.SIGUSR1)
	p.logs("log level changed.*WARN")
	p.signal(syscall.SIGTERM)
	p.ends(exitOK)
}

// TestReload changes the configuration of a running relay.
func TestReload(t *testing.T) {
	file, address := filepath.Join(t.TempDir(), "relay.toml"), freeAddress(t)
	config := func(streams, listen string) {
		mustWrite(t, file, fmt.Sprintf("public_url = \"https://relay.example\"\nlisten = %q\n[limits]\nstreams = %s\n", listen, streams))
	}
	config("5", address)
	p := startRelay(t, nil, nil, "ace", "relay", "serve", "--config", file)
	p.signal(syscall.SIGHUP) // which it takes as soon as it is ready
	p.address = address
	limit := func(want string) func() bool {
		return func() bool {
			return strings.Contains(p.fetch("/metrics"), "\nace_relay_listen_streams_limit "+want+"\n")
		}
	}
	p.eventually("5 streams", limit("5"))

	config("7", "127.0.0.1:1")
	p.signal(syscall.SIGHUP)
	p.eventually("7 streams", limit("7"))
	p.logs(`read anew" changed=\[limits.streams\] need_restart=\[listen\]`)

	config("0", address)
	p.signal(syscall.SIGHUP)
	p.logs(`the configuration stays as it was" problem=.*limits.streams: 0 is less than 1`)
	if !limit("7")() {
		t.Error("a configuration with a problem changed something")
	}

	p.fetch("/health")
	if strings.Contains(p.log.String(), "level=DEBUG") {
		t.Error("debug is on")
	}
	p.signal(syscall.SIGUSR1)
	p.logs("log level changed.*DEBUG")
	p.fetch("/health")
	p.logs(`level=DEBUG msg=request route="GET /health" code=ok`)
	p.signal(syscall.SIGUSR1)
	p.logs("log level changed.*INFO")
	before := p.log.String()
	p.fetch("/health")
	if after := p.log.String(); after != before {
		t.Errorf("debug stays on: %s", strings.TrimPrefix(after, before))
	}
	p.signal(syscall.SIGTERM)
	p.ends(exitOK)
}

// TestExposedRelay warns of a relay that others reach over plain HTTP. The
// socket of the test is handed over, so that nobody really does.
func TestExposedRelay(t *testing.T) {
	for args, want := range map[string]bool{"": true, "--trusted-proxy 10.0.0.1": false} {
		socket, _ := openSocket(t)
		p := startRelay(t, []string{"LISTEN_FDS=1"}, []*os.File{socket},
			"sh", "-c", "LISTEN_PID=$$ exec ace relay serve --public-url https://relay.example --listen 0.0.0.0:8420 "+args)
		p.signal(syscall.SIGTERM)
		p.ends(exitOK)
		if got := strings.Contains(p.log.String(), "over plain HTTP"); got != want {
			t.Errorf("%q: warned %v", args, got)
		}
	}
}

// openSocket returns a listening socket to hand over, and its address.
func openSocket(t *testing.T) (*os.File, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, ln.Addr().String()
}

// TestServiceManager runs a relay as systemd does: it gets its socket, and
// tells when it is ready, alive and about to end.
func TestServiceManager(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	told := func(want string) {
		t.Helper()
		if err := manager.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		for buffer := make([]byte, 4096); ; {
			n, err := manager.Read(buffer)
			if err != nil {
				t.Fatalf("no %s: %v", want, err)
			}
			if string(buffer[:n]) == want {
				return
			}
		}
	}
	main, mainAddress := openSocket(t)
	ops, opsAddress := openSocket(t)
	env := []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=200000", "LISTEN_FDS=2", "LISTEN_FDNAMES=relay:ops"}
	p := startRelay(t, env, []*os.File{main, ops}, "sh", "-c", "LISTEN_PID=$$ exec ace relay serve --public-url https://relay.example --listen 127.0.0.1:1")
	told("READY=1")
	told("WATCHDOG=1")
	for address, want := range map[string]string{mainAddress: "not_found", opsAddress: "ace_relay_build_info"} {
		p.address = address
		if got := p.fetch("/metrics"); !strings.Contains(got, want) {
			t.Errorf("metrics at %s: %.100s, want %s", address, got, want)
		}
	}
	p.signal(syscall.SIGTERM)
	told("STOPPING=1")
	p.ends(exitOK)
}

// TestServiceManagerHearsOfADrain ends a relay in each of the ways there are to
// drain it. The service manager is told once, as the last thing.
func TestServiceManagerHearsOfADrain(t *testing.T) {
	for what, end := range map[string]func(p *relayProcess){
		"SIGTERM": func(p *relayProcess) { p.signal(syscall.SIGTERM) },
		"SIGINT":  func(p *relayProcess) { p.signal(syscall.SIGINT) },
		"drain":   func(p *relayProcess) { newStage(t).must("relay", "drain", "--admin-socket", p.ready.Admin) },
	} {
		t.Run(what, func(t *testing.T) {
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
			must(t, err)
			defer manager.Close()
			p := startRelay(t, []string{"NOTIFY_SOCKET=" + manager.LocalAddr().String()}, nil,
				"ace", "relay", "serve", "--public-url", "https://relay.example", "--listen", "127.0.0.1:0")
			end(p)
			p.ends(exitOK)
			// What it was told waits to be read, and nothing else comes.
			var told []string
			for buffer := make([]byte, 4096); ; {
				must(t, manager.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
				n, err := manager.Read(buffer)
				if err != nil {
					break
				}
				told = append(told, string(buffer[:n]))
			}
			if want := []string{"READY=1", "STOPPING=1"}; !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
		})
	}
}

// TestServiceManagerThatHangs runs a relay under a service manager that reads
// nothing of what it is told. The relay ends all the same.
func TestServiceManagerThatHangs(t *testing.T) {
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	manager, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	full, err := net.DialUnix("unixgram", nil, address)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for err == nil {
		_ = full.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // the write tells
		_, err = full.Write([]byte("X=1"))
	}
	p := startRelay(t, []string{"NOTIFY_SOCKET=" + address.Name, "WATCHDOG_USEC=3000"}, nil,
		"ace", "relay", "serve", "--public-url", "https://relay.example", "--listen", "127.0.0.1:0")
	p.signal(syscall.SIGTERM)
	p.ends(exitOK)
}

// TestOtherProcessesSockets leaves alone what was meant for another process.
func TestOtherProcessesSockets(t *testing.T) {
	address := freeAddress(t)
	env := []string{"LISTEN_FDS=1", "LISTEN_PID=1", "NOTIFY_SOCKET=/nowhere/notify"}
	p := startRelay(t, env, nil, "ace", "relay", "serve", "--public-url", "https://relay.example", "--listen", address)
	p.address = address
	p.fetch("/health")
	p.signal(syscall.SIGTERM)
	p.ends(exitOK)
}

// unitDirectives are what the unit has to have: how the service is run, and
// what it is kept from.
var unitDirectives = strings.Fields(`Type=notify WatchdogSec=30 TimeoutStopSec=60 Restart=on-failure DynamicUser=yes
	StateDirectory=ace-relay RuntimeDirectory=ace-relay UMask=0077 NoNewPrivileges=yes ProtectSystem=strict ProtectHome=yes
	PrivateTmp=yes PrivateDevices=yes ProtectKernelLogs=yes ProtectKernelModules=yes ProtectKernelTunables=yes
	SystemCallFilter=@system-service MemoryDenyWriteExecute=yes LimitNOFILE=65536`)

func TestUnit(t *testing.T) {
	s := newStage(t)
	unit := s.must("relay", "unit", "--program", "/bin/sh")
	lines := strings.Split(unit, "\n")
	for _, want := range append(slices.Clone(unitDirectives), "ExecReload=/bin/kill -HUP $MAINPID", "RestartPreventExitStatus=2 10 31",
		"RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX", "Environment=ACE_RELAY_DATA=%S/ace-relay") {
		if !slices.Contains(lines, want) {
			t.Errorf("the unit has no %s", want)
		}
	}
	if r := s.try("relay", "unit", "--json"); r.status != exitUsage {
		t.Errorf("a unit as JSON: status %d", r.status)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: the unit was not verified")
	}
	dir := t.TempDir()
	service, socket := filepath.Join(dir, "ace-relay.service"), filepath.Join(dir, "ace-relay.socket")
	// The manual page is not where systemd looks for it.
	mustWrite(t, service, strings.ReplaceAll(unit, "Documentation=man:ace-relay(8)\n", ""))
	mustWrite(t, socket, s.must("relay", "unit", "--socket")+"\n")
	if out, err := exec.Command(analyze, "verify", service, socket).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v: %s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=yes", "--threshold=20", service).CombinedOutput()
	if err != nil {
		t.Errorf("security: %v: %s", err, out)
	}
}
