package loadgen

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("got %v, want the code %q", err, code)
	}
}

// startRelay runs a relay with a store on disk until stop is called, at the end
// of the test if not before.
func startRelay(t *testing.T, limits relaysvc.Limits) (url string, stop func()) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server, err := relaysvc.New(relaysvc.Config{
		Development: true, DBPath: filepath.Join(t.TempDir(), "data", "relay.db"), Limits: limits,
	})
	must(t, err)
	url, err = relaysvc.LoopbackURL(ln.Addr())
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, ln) }()
	stop = func() {
		if ctx.Err() == nil {
			cancel()
			must(t, <-ended)
			must(t, server.Close())
		}
	}
	t.Cleanup(stop)
	return url, stop
}

func errorsOf(errors []ErrorCount) map[string]int64 {
	counts := map[string]int64{}
	for _, e := range errors {
		counts[e.Code] = e.Count
	}
	return counts
}
