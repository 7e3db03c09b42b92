package bench

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"
)

// What one measurement sends: a load with few and one with many sends. Both
// register and prepare the same, so that the difference is the sends alone.
const (
	fewSends  = 500
	manySends = 4_500
)

// BenchmarkRelayAllocations reports the bytes that a relay allocates for a send
// of 14 KB whose permit it knows, in its whole process. Must be at most 6 KB.
// The clients are in a process of their own.
func BenchmarkRelayAllocations(b *testing.B) {
	ace := aceProgram(b)
	url, stop := startRelay(b, filepath.Join(b.TempDir(), "data"))
	defer stop()
	var each []float64
	for b.Loop() {
		few, many := allocated(b, ace, url, fewSends), allocated(b, ace, url, manySends)
		each = append(each, float64(many-few)/(manySends-fewSends))
	}
	reportSpread(b, each, "B/send")
}

// allocated returns the bytes that this process, the relay, allocated while
// another has sent so many packets.
func allocated(b *testing.B, ace, url string, sends int64) int64 {
	b.Helper()
	before := heapAllocated()
	cmd := exec.Command(ace, "relay", "bench", "send", "--url", url, "--json", "--clients", "32", "--recipients", "32",
		"--count", strconv.FormatInt(sends, 10), "--warmup", "0", "--duration", "10m")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	must(b, err)
	after := heapAllocated()
	var answer struct{ Accepted int64 }
	must(b, json.Unmarshal(out, &answer))
	if answer.Accepted != sends {
		b.Fatalf("%d of %d sends were accepted: %s", answer.Accepted, sends, out)
	}
	return after - before
}

func heapAllocated() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// reportSpread reports the median of the rounds, and the least and the greatest
// of them.
func reportSpread(b *testing.B, rounds []float64, unit string) {
	b.Helper()
	sorted := slices.Sorted(slices.Values(rounds))
	b.ReportMetric(sorted[len(sorted)/2], unit)
	b.ReportMetric(sorted[0], unit+"-least")
	b.ReportMetric(sorted[len(sorted)-1], unit+"-most")
}
