package cli

import (
	"bytes"
	"context"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// stage is a home with a configuration of its own, in which commands run in
// this process.
type stage struct {
	t   *testing.T
	dir string
	env map[string]string
	// ahead is by how many seconds the clock of all that runs here is ahead of the
	// system's.
	ahead atomic.Int64
}

func newStage(t *testing.T) *stage {
	t.Helper()
	dir := t.TempDir()
	return &stage{t: t, dir: dir, env: map[string]string{
		"HOME":            dir,
		"XDG_RUNTIME_DIR": filepath.Join(dir, "runtime"),
	}}
}

// io returns what a command sees, with the given standard input.
func (s *stage) io(in string) IO {
	return IO{
		In: strings.NewReader(in), Out: io.Discard, Err: io.Discard,
		Getenv:   func(name string) (string, bool) { v, ok := s.env[name]; return v, ok },
		Unsetenv: func(name string) { delete(s.env, name) },
		Now:      func() int64 { return time.Now().Unix() + s.ahead.Load() },
	}
}

// outcome of a command.
type ran struct {
	status   int
	out, err string
}

// try runs a command.
func (s *stage) try(args ...string) ran {
	var out, stderr bytes.Buffer
	o := s.io("")
	o.Out, o.Err = &out, &stderr
	status := run(context.Background(), args, o)
	return ran{status, out.String(), stderr.String()}
}

// must runs a command that has to succeed and returns what it prints.
func (s *stage) must(args ...string) string {
	s.t.Helper()
	r := s.try(args...)
	if r.status != exitOK {
		s.t.Fatalf("ace %s: status %d: %s", strings.Join(args, " "), r.status, r.err)
	}
	return strings.TrimSpace(r.out)
}

// relay runs a development relay until the test ends and returns its ready
// line.
func (s *stage) relay(options ...string) string {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	first := &firstLine{line: make(chan string, 1)}
	stderr := &lockedBuffer{} // the activity line and what is said are two goroutines'
	ended := make(chan int, 1)
	o := s.io("")
	o.Out, o.Err = first, stderr
	go func() {
		ended <- run(ctx, append([]string{"relay", "serve", "--dev", "--data", filepath.Join(s.dir, "relay")}, options...), o)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case line := <-first.line:
		return line
	case <-ended:
		s.t.Fatalf("the relay did not start: %s", stderr.String())
	case <-time.After(30 * time.Second):
		s.t.Fatal("the relay does not get ready")
	}
	return ""
}

// leaves returns the answers of every command of the tree, by path.
func leaves(t *testing.T) map[string][]any {
	t.Helper()
	a := &app{io: newStage(t).io("")}
	a.root(nil)
	all := map[string][]any{}
	for c, answers := range a.answers {
		all[c.CommandPath()] = answers
	}
	if len(all) < 30 {
		t.Fatalf("only %d commands found: %v", len(all), slices.Sorted(maps.Keys(all)))
	}
	return all
}
