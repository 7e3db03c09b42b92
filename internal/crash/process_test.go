package crash

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

// The exit statuses of a relay whose store failed, and of one whose data
// another process holds.
const (
	exitHeld    = 31
	exitStorage = 33
)

// TestFsyncFailure lets an fsync of the store fail, of any file or of the packet
// log, at the start and under load: the relay ends by itself with storage_failed, and what it had answered
// is there after the next start.
func TestFsyncFailure(t *testing.T) {
	r := newRound(t, 1)
	n := 0
	for _, place := range []string{failpoint.SyncError, failpoint.PacketSyncError} {
		for _, pass := range []int{1, 3, 12, 25, 40} {
			n++
			r.live(n, plan{place: place, pass: pass, sweep: 40 * time.Millisecond, segment: segments[0], replace: -1, signal: syscall.SIGKILL})
			if r.failed(n) {
				return
			}
		}
		if r.died[place] != 5 {
			t.Errorf("%s: the relay ended with status %d %d times, want 5", place, exitStorage, r.died[place])
		}
	}
	for _, end := range []plan{quiet(last()), last()} {
		n++
		r.live(n, end)
		r.failed(n)
	}
}

// TestSecondStart starts a relay on the data and the address of another, as one
// does by mistake: it says who holds the data, and the other goes on.
func TestSecondStart(t *testing.T) {
	p := newPlace(t, program(t))
	first, err := p.start()
	if err != nil {
		t.Fatal(err)
	}
	defer first.kill(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !first.waitReady(ctx) {
		t.Fatalf("no ready line: %s", first.stderr)
	}

	second := exec.Command(p.binary, "relay", "serve", "--public-url", "https://relay.example", "--data", p.data(), "--listen", p.address)
	second.Env = p.environment()
	var stderr bytes.Buffer
	second.Stderr = &stderr
	if err := second.Run(); second.ProcessState == nil || second.ProcessState.ExitCode() != exitHeld {
		t.Errorf("the second start ended with %v, want status %d\n%s", err, exitHeld, &stderr)
	}
	if holder := fmt.Sprintf("pid %d (%q)", first.process.Pid, "ace relay"); !strings.Contains(stderr.String(), holder) {
		t.Errorf("the second start does not name %s:\n%s", holder, &stderr)
	}

	c := newClient(p)
	defer c.close()
	if _, outcome, err := c.do(ctx, request{method: http.MethodGet, path: "/health"}); err != nil || outcome != ok {
		t.Errorf("the first relay: %q, %v", outcome, err)
	}
}
