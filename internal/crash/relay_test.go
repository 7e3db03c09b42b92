package crash

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// place is where a relay lives: its data and its address, which stay when the
// process dies.
type place struct {
	binary, dir, address string
	front                string // address of the proxy before it, "" for none
	chaos                string // the faults that it plays, "" for none
}

// ports counts the ports that were tried.
var ports atomic.Int32

// newPlace takes a free port below those that the system gives to clients, so
// that none of them gets it while the relay is down.
func newPlace(t *testing.T, binary string) place {
	t.Helper()
	next := func() int { return 20000 + os.Getpid()%5000 + int(ports.Add(1)) }
	for port := next(); port < 32000; port = next() { // each its own: tests run side by side
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if ln, err := net.Listen("tcp", address); err == nil {
			ln.Close()
			p := place{binary: binary, dir: t.TempDir(), address: address}
			if err := os.WriteFile(p.config(), []byte("timeouts.wake_interval = '1s'\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return p
		}
	}
	t.Fatal("no free port")
	return place{}
}

func (p place) url() string { return "http://" + cmp.Or(p.front, p.address) }

func (p place) config() string { return filepath.Join(p.dir, "relay.toml") }

func (p place) data() string { return filepath.Join(p.dir, "data") }

// environment keeps the settings of who runs the test out.
func (p place) environment() []string { return []string{"HOME=" + p.dir, "XDG_RUNTIME_DIR=" + p.dir} }

func (p place) command(env ...string) *exec.Cmd {
	c := exec.Command(p.binary, "relay", "serve", "--dev", "--config", p.config(), "--data", p.data(),
		"--listen", p.address, "--public-url", p.url(), "--trusted-proxy", "127.0.0.1/32")
	if p.chaos != "" {
		c.Args = append(c.Args, "--chaos", p.chaos)
	}
	c.Env = append(p.environment(), env...)
	return c
}

// relay is one run of the program.
type relay struct {
	process *os.Process
	ready   chan struct{} // closed after the ready line
	dead    chan struct{} // closed when the process has ended
	dying   atomic.Bool   // it was told to end
	state   *os.ProcessState
	stderr  *tail
}

// start runs the relay with more environment.
func (p place) start(env ...string) (*relay, error) {
	c := p.command(env...)
	r := &relay{ready: make(chan struct{}), dead: make(chan struct{}), stderr: &tail{}}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.Stderr = r.stderr
	if err := c.Start(); err != nil {
		return nil, err
	}
	r.process = c.Process
	go func() {
		defer close(r.dead)
		lines := bufio.NewReader(stdout)
		line, _ := lines.ReadBytes('\n')
		var v struct{ Event string }
		if json.Unmarshal(line, &v) == nil && v.Event == "ready" {
			close(r.ready)
		}
		_, _ = io.Copy(io.Discard, lines)
		_ = c.Wait()
		r.state = c.ProcessState
	}()
	return r, nil
}

// kill ends the process with a signal and waits for it.
func (r *relay) kill(sig syscall.Signal) {
	r.dying.Store(true)
	_ = r.process.Signal(sig)
	<-r.dead
}

// waitReady reports whether the relay came up.
func (r *relay) waitReady(ctx context.Context) bool {
	select {
	case <-r.ready:
		return true
	case <-r.dead:
	case <-ctx.Done():
	}
	return false
}

// killed reports whether the process that is dead died of SIGKILL.
func (r *relay) killed() bool {
	status, ok := r.state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// tail keeps the end of what a process says.
type tail struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

const tailBytes = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if n := len(t.text) - tailBytes; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}

// scratch is the folder of the compiled program.
var scratch string

// build compiles the program with failpoints, once.
var build = sync.OnceValues(func() (string, error) {
	if err := lookAtSource(); err != nil {
		return "", err
	}
	binary := filepath.Join(scratch, "ace")
	c := exec.Command("go", "build", "-tags", "failpoint", "-o", binary, "github.com/ace-toolkit/ace/cmd/ace")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return binary, nil
})

// lookAtSource opens every folder of the module. Go's test cache follows what a
// test opens, not what the compiler that it starts reads, and would answer for
// a program that has changed since.
func lookAtSource() error {
	const module = "../.."
	return filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != module && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		return err
	})
}

func program(t *testing.T) string {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// complaint returns a line that a relay which works does not write, or "".
func complaint(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "panic") {
			return line
		}
	}
	return ""
}
