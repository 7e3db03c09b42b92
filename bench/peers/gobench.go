package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// goBenchmark is a row that is measured by a Go benchmark of ../: those need
// the inside of the relay.
type goBenchmark struct {
	row, name, unit string
}

var goBenchmarks = []goBenchmark{
	{rowPage, "BenchmarkRelayInboxPage", "ratio"},
	{rowBytes, "BenchmarkRelayAllocations", "B/send"},
}

// measureBenchmarks runs the Go benchmarks that are asked for.
func measureBenchmarks(ctx context.Context, o *options, t *table) (failed error) {
	for _, b := range goBenchmarks {
		if ctx.Err() != nil || !slices.Contains(o.rows, b.row) {
			continue
		}
		values, err := b.run(ctx, o)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", b.name, err))
			continue
		}
		t.addBenchmark(b.row, values)
	}
	return failed
}

func (b goBenchmark) run(ctx context.Context, o *options) ([]float64, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^"+b.name+"$", "-benchtime", "1x",
		"-count", strconv.Itoa(o.rounds), "-timeout", "1h", "./bench")
	cmd.Dir = o.repo
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "ACE_BENCH_PROGRAM="+o.ace, "ACE_BENCH_QUEUED="+strconv.Itoa(o.queued))
	// An interrupt lets the tests remove what they have made.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = endTime
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test: %w\n%s", err, out)
	}
	values := parseBenchmark(out, b.unit)
	if len(values) == 0 {
		return nil, fmt.Errorf("no %s in\n%s", b.unit, out)
	}
	for _, v := range values {
		progress("%-28s %.2f %s", b.name, v, b.unit)
	}
	return values, nil
}

// parseBenchmark returns the values of one unit in what "go test -bench" prints.
func parseBenchmark(out []byte, unit string) (values []float64) {
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil && fields[i+1] == unit {
				values = append(values, v)
			}
		}
	}
	return values
}
