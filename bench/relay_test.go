package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/relaysvc"
	"github.com/ace-toolkit/ace/relaysvc/loadgen"
)

// relayRecipients share what is sent, because one recipient's queue is bounded.
const relayRecipients = 64

// startRelay runs a relay in this process, with its store in dir, until stop is
// called.
func startRelay(b *testing.B, dir string) (url string, stop func()) {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	server, err := relaysvc.New(relaysvc.Config{Development: true, DBPath: filepath.Join(dir, "relay.db")})
	must(b, err)
	url, err = relaysvc.LoopbackURL(ln.Addr())
	must(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, ln) }()
	return url, func() {
		cancel()
		must(b, <-ended)
		must(b, server.Close())
	}
}

// BenchmarkRelaySend sends packets with permits, each client its next one when
// the last has been answered. One operation is one accepted send. The relay is
// in the same process; bench/peers measures it in its own.
func BenchmarkRelaySend(b *testing.B) {
	for _, clients := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("%d clients", clients), func(b *testing.B) {
			url, stop := startRelay(b, filepath.Join(b.TempDir(), "data"))
			defer stop()
			load, err := loadgen.Open(b.Context(), loadgen.Config{URL: url, Senders: clients, Recipients: relayRecipients})
			must(b, err)
			b.ResetTimer()
			r, err := load.Send(b.Context(), loadgen.Pace{Clients: clients, Duration: loadgen.MaxDuration, Count: int64(b.N)})
			b.StopTimer()
			must(b, err)
			if r.Accepted < int64(b.N) {
				b.Fatalf("%d of %d were accepted: %v", r.Accepted, b.N, r.Errors)
			}
			b.ReportMetric(r.PerSecond(), "sends/s")
			b.ReportMetric(millis(r.Latency.P50), "p50-ms")
			b.ReportMetric(millis(r.Latency.P99), "p99-ms")
		})
	}
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// aceProgram returns the program that ACE_BENCH_PROGRAM names, or builds it.
func aceProgram(b *testing.B) string {
	b.Helper()
	if path := os.Getenv("ACE_BENCH_PROGRAM"); path != "" {
		return path
	}
	path := filepath.Join(b.TempDir(), "ace")
	cmd := exec.Command("go", "build", "-o", path, "../cmd/ace")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, text)
	}
	return path
}
