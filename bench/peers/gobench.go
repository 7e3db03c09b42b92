package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// measureBenchmarks runs the Go benchmarks that are asked for. They are built
// first and run without "go test", which would outlive this program.
func measureBenchmarks(ctx context.Context, o *options, dir string, t *table) (failed error) {
	wanted := slices.DeleteFunc(slices.Clone(goBenchmarks), func(b goBenchmark) bool { return !slices.Contains(o.rows, b.row) })
	if len(wanted) == 0 {
		return nil
	}
	program := filepath.Join(dir, "bench.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./bench")
	build.Dir = o.repo
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c ./bench: %w\n%s", err, text)
	}
	for _, b := range wanted {
		values, err := b.run(ctx, o, dir, program)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", b.name, err))
			continue
		}
		t.addBenchmark(b.row, values)
	}
	return failed
}

// run returns the least round, the median and the greatest.
func (b goBenchmark) run(ctx context.Context, o *options, dir, program string) ([]float64, error) {
	cmd := exec.Command(program, "-test.run", "^$", "-test.bench", "^"+b.name+"$", "-test.timeout", "2h",
		"-test.benchtime", strconv.Itoa(o.rounds)+"x")
	cmd.Dir = filepath.Join(o.repo, "bench")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "ACE_BENCH_PROGRAM="+o.ace, "ACE_BENCH_QUEUED="+strconv.Itoa(o.queued))
	var out bytes.Buffer
	cmd.Stdout = &out
	p, err := startProcess(ctx, cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), p.kill(0))
	}
	if !cmd.ProcessState.Success() {
		return nil, fmt.Errorf("%v\n%s%s", cmd.ProcessState, out.Bytes(), p.stderr.Bytes())
	}
	var values []float64
	for _, unit := range []string{b.unit + "-least", b.unit, b.unit + "-most"} {
		values = append(values, parseBenchmark(out.Bytes(), unit)...)
	}
	if len(values) != 3 {
		return nil, fmt.Errorf("no %s in\n%s", b.unit, out.Bytes())
	}
	progress("%-26s %.2f (%.2f–%.2f) %s", b.name, values[1], values[0], values[2], b.unit)
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
