package bench

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

const helloWorld = `package main

import "fmt"

func main() { fmt.Println("hello, world") }
`

// startupKit is the product and a hello-world program, built with the same
// flags, and a home with one identity.
type startupKit struct {
	ace, hello string
	env        []string
}

func newStartupKit(b *testing.B) *startupKit {
	b.Helper()
	dir := b.TempDir()
	source := filepath.Join(dir, "hello", "main.go")
	must(b, os.Mkdir(filepath.Dir(source), 0o700))
	must(b, os.WriteFile(source, []byte(helloWorld), 0o600))
	k := &startupKit{
		ace: filepath.Join(dir, "ace"), hello: filepath.Join(dir, "hello-world"),
		env: append(os.Environ(), "ACE_HOME="+filepath.Join(dir, "home"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config")),
	}
	k.build(b, k.ace, "../cmd/ace")
	k.build(b, k.hello, source)
	k.run(b, k.ace, "init", "--yes", "--no-publish", "--relay", "https://relay.example")
	return k
}

func (k *startupKit) build(b *testing.B, out, source string) {
	b.Helper()
	cmd := exec.Command("go", "build", "-o", out, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("go build %s: %v\n%s", source, err, text)
	}
}

// run starts a program, waits for its end and returns how long that took.
func (k *startupKit) run(b *testing.B, program string, args ...string) time.Duration {
	b.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = k.env
	start := time.Now()
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s %v: %v\n%s", program, args, err, text)
	}
	return time.Since(start)
}

// BenchmarkStartup measures whole processes, from fork to exit, turn by turn
// with a hello-world program. The ratio is that of the medians.
func BenchmarkStartup(b *testing.B) {
	k := newStartupKit(b)
	for _, args := range [][]string{{"version"}, {"identity", "show"}} {
		b.Run(args[len(args)-1], func(b *testing.B) {
			var ours, hello []time.Duration
			for b.Loop() {
				hello = append(hello, k.run(b, k.hello))
				ours = append(ours, k.run(b, k.ace, args...))
			}
			b.ReportMetric(micro(median(ours)), "ours-µs")
			b.ReportMetric(micro(median(hello)), "hello-µs")
			b.ReportMetric(micro(median(ours))/micro(median(hello)), "ratio")
		})
	}
}

func median[T cmp.Ordered](d []T) T {
	slices.Sort(d)
	return d[len(d)/2]
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
