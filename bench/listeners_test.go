package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkListeners is a machine with a hundred identities, each with a listener
// that has been ready for a while and has nothing to do. It reports what one of
// them has of the memory of the machine, shared pages by the share of each, and
// what it takes of a processor.
func BenchmarkListeners(b *testing.B) {
	const count, idle = 100, 20 * time.Second
	k := newStartupKit(b)
	k.serve(b)
	k.env = append(k.env, "ACE_RELAY=dev", "ACE_ALLOW_LOOPBACK=1")
	var listeners []*exec.Cmd
	defer func() {
		for _, l := range listeners {
			_ = l.Process.Kill()
			_ = l.Wait()
		}
	}()
	for n := range count {
		name := fmt.Sprint("agent", n)
		k.run(b, k.ace, "init", "--name", name, "--yes")
		listeners = append(listeners, k.listen(b, name))
	}
	for range b.N {
		var memory, busy int64
		for _, l := range listeners {
			busy -= ticks(b, l.Process.Pid)
		}
		time.Sleep(idle)
		for _, l := range listeners {
			busy += ticks(b, l.Process.Pid)
			memory += pss(b, l.Process.Pid)
		}
		b.ReportMetric(float64(memory)/count/1024, "MiB/listener")
		b.ReportMetric(float64(busy)*10/count/idle.Minutes(), "cpu-ms/minute")
	}
	b.ReportMetric(0, "ns/op")
}

// serve starts a throwaway relay, which ends with the benchmark.
func (k *startupKit) serve(b *testing.B) {
	b.Helper()
	run := filepath.Join(b.TempDir(), "run")
	must(b, os.Mkdir(run, 0o700))
	k.env = append(k.env, "XDG_RUNTIME_DIR="+run)
	relay := exec.Command(k.ace, "relay", "serve", "--dev")
	relay.Env = k.env
	k.untilReady(b, relay)
	b.Cleanup(func() {
		_ = relay.Process.Signal(syscall.SIGTERM)
		_ = relay.Wait()
	})
}

func (k *startupKit) listen(b *testing.B, name string) *exec.Cmd {
	b.Helper()
	l := exec.Command(k.ace, "listen", "--as", name, "--json")
	l.Env = k.env
	k.untilReady(b, l)
	return l
}

// untilReady starts a program and returns when its first line says that it is
// ready. Nobody reads what it says later, which is little.
func (k *startupKit) untilReady(b *testing.B, c *exec.Cmd) {
	b.Helper()
	out, err := c.StdoutPipe()
	must(b, err)
	must(b, c.Start())
	line, err := bufio.NewReader(out).ReadBytes('\n')
	must(b, err)
	var v struct{ Event string }
	if err := json.Unmarshal(line, &v); err != nil || v.Event != "ready" {
		b.Fatalf("%s: %s", c, line)
	}
}

// pss is the memory of a process in KiB, of a page shared by n the n-th part.
func pss(b *testing.B, pid int) int64 {
	b.Helper()
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	must(b, err)
	for line := range strings.Lines(string(rollup)) {
		if f := strings.Fields(line); f[0] == "Pss:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			must(b, err)
			return n
		}
	}
	b.Fatalf("no Pss of %d", pid)
	return 0
}

// ticks are the hundredths of a second that a process has had of processors.
func ticks(b *testing.B, pid int) (sum int64) {
	b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	must(b, err)
	behind := string(stat[strings.LastIndexByte(string(stat), ')')+2:]) // the name may have spaces
	for _, f := range strings.Fields(behind)[11:13] {                   // utime, stime
		n, err := strconv.ParseInt(f, 10, 64)
		must(b, err)
		sum += n
	}
	return sum
}
