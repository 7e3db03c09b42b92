package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds how long these tests wait for what has to come.
const patience = 30 * time.Second

// place is an endpoint, with a folder in which its handlers work.
type place struct {
	t        *testing.T
	dir      string
	endpoint *core.Endpoint
	path     string
	key      *suite.Seed

	mu      sync.Mutex
	results []Result
	lines   []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), key: suite.NewSeed()}
	p.path = filepath.Join(t.TempDir(), "ace", "store.db")
	id, err := kel.Ephemeral(time.Now().Unix())
	if err != nil {
		t.Fatal(err)
	}
	p.endpoint, err = core.Open(t.Context(), core.Config{Identity: id, StorePath: p.path, VaultKey: p.key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.endpoint.Close() })
	return p
}

// receive puts messages into the store beside the endpoint, as another process
// that receives does.
func (p *place) receive(from, thread string, texts ...string) {
	p.t.Helper()
	s, err := store.Open(p.t.Context(), p.path, p.key)
	if err != nil {
		p.t.Fatal(err)
	}
	defer s.Close()
	err = s.Update(p.t.Context(), func(tx *store.Tx) error {
		for _, text := range texts {
			m := store.Message{MessageID: suite.NewMessageID(), Peer: sender32(from), Type: profile.TextType, ThreadID: thread,
				Body: profile.TextBody(text).Canonical(), SentAt: 5, ReceivedAt: 6}
			if err := tx.AddMessage(m); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// sender32 is an ACE ID.
func sender32(name string) string { return wire.ACEID(strings.Repeat(name, 64)[:64]) }

// queue returns a queue with a handler that is a script of the shell, run in the
// folder of the place.
func (p *place) queue(script string, change func(*Config)) *Queue {
	p.t.Helper()
	command, err := Find([]string{"sh", "-c", "cd " + p.dir + "\n" + script})
	if err != nil {
		p.t.Fatal(err)
	}
	c := Config{
		Endpoint: p.endpoint, Command: command, Environ: os.Environ(), AtOnce: 4, Timeout: patience,
		Input: func(m core.Message) []byte { return []byte(profile.TextOf(m.Body)) },
		On: func(r Result) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.results = append(p.results, r)
		},
		Line: func(_, line string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.lines = append(p.lines, line)
		},
	}
	if change != nil {
		change(&c)
	}
	return New(c)
}

// run runs a queue until the function it returns is called, which returns the
// error of the queue.
func (p *place) run(q *Queue) (stop func() error) {
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	over := sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	p.t.Cleanup(func() { _ = over() })
	return over
}

// await waits for so many results and returns them.
func (p *place) await(n int) []Result {
	p.t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		p.mu.Lock()
		got := slices.Clone(p.results)
		p.mu.Unlock()
		if len(got) >= n {
			return got
		}
		if time.Now().After(until) {
			p.t.Fatalf("%d results, want %d: %+v", len(got), n, got)
		}
	}
}

// once handles the messages that wait, until there are so many results.
func (p *place) once(script string, n int, change func(*Config)) []Result {
	p.t.Helper()
	stop := p.run(p.queue(script, change))
	got := p.await(n)
	if err := stop(); err != nil {
		p.t.Fatal(err)
	}
	return got
}

func (p *place) file(name string) string {
	text, _ := os.ReadFile(filepath.Join(p.dir, name))
	return string(text)
}

func (p *place) waitFile(name, want string) {
	p.t.Helper()
	for until := time.Now().Add(patience); !strings.Contains(p.file(name), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			p.t.Fatalf("%s has %q, want %q", name, p.file(name), want)
		}
	}
}

func (p *place) unhandled() (n int) {
	p.t.Helper()
	list, err := p.endpoint.Inbox(p.t.Context(), core.InboxFilter{Unhandled: true})
	if err != nil {
		p.t.Fatal(err)
	}
	return len(list)
}

// TestOrder: the messages of a sender are handled in their order. One that fails
// holds back those behind it, and nobody else's.
func TestOrder(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "a1", "a2", "a3")
	p.receive("b", "", "bad", "b2")
	p.receive("c", "", "c1", "c2")
	stop := p.run(p.queue(`text=$(cat); echo $text >>log; test $text != bad || test -e mended`, nil))
	p.await(6 + 1) // all but b2, and a failure
	p.receive("a", "", "a4")
	p.await(8)
	if err := os.WriteFile(filepath.Join(p.dir, "mended"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p.waitFile("log", "b2")
	for p.unhandled() > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for sender, want := range map[string]string{"a": "a1 a2 a3 a4", "c": "c1 c2"} {
		var got []string
		for _, line := range strings.Fields(p.file("log")) {
			if line[:1] == sender {
				got = append(got, line)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("handled %v, want %s", got, want)
		}
	}
	if log := strings.Fields(p.file("log")); log[len(log)-1] != "b2" || log[len(log)-2] != "bad" {
		t.Errorf("b2 did not wait for the one before it: %v", log)
	}
}

// TestAtOnce: as many runs at a time as there may be, and no more.
func TestAtOnce(t *testing.T) {
	p := newPlace(t)
	for _, sender := range strings.Split("abcdef", "") {
		p.receive(sender, "", sender)
	}
	// Each waits until another one runs beside it, or has.
	p.once(`id=$(cat); mkdir run-$id
		for i in $(seq 500); do
			n=$(ls -d run-* | wc -l); echo $n >>seen
			test $n -ge 2 && touch two; test -e two && break; sleep 0.01
		done
		sleep 0.05; ls -d run-* | wc -l >>seen; rmdir run-$id`, 6, func(c *Config) { c.AtOnce = 2 })
	most := 0
	for _, n := range strings.Fields(p.file("seen")) {
		got, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, got)
	}
	if most != 2 {
		t.Errorf("%d runs at a time, want 2", most)
	}
}

// TestOutcomes: what a run that is no good is taken for. Each is told and stored,
// and ends in the time it has.
func TestOutcomes(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(missing, []byte("#!/bin/sh\n"), 0o700))
	gone, err := Find([]string{missing})
	must(t, err)
	must(t, os.Remove(missing))
	large := func(core.Message) []byte { return make([]byte, 4<<20) }
	short := func(c *Config) { c.Timeout = 300 * time.Millisecond }
	for _, c := range []struct {
		name, script string
		change       func(*Config)
		exit         int
		reason       string
	}{
		{"good", "exit 0", nil, 0, ""},
		{"a status", "exit 7", nil, 7, "exit status 7"},
		{"a signal", "kill -SEGV $$", nil, 139, "signal 11 (segmentation fault)"},
		{"too long", "exec sleep 60", short, 143, "it took longer than 300ms"},
		{"too long, and then it says that it is done", `trap 'exit 0' TERM; sleep 60 & wait`, short, 143, "it took longer than 300ms"},
		{"does not want to end", `trap '' TERM; while :; do sleep 0.1; done`, short, 137, "it took longer than 300ms"},
		{"reads nothing", "exit 0", func(c *Config) { c.Input = large }, 0, ""},
		{"reads nothing and goes on", "exec sleep 60", func(c *Config) { c.Input = large; c.Timeout = 300 * time.Millisecond }, 143, "it took longer than 300ms"},
		{"a child holds the pipes", "sleep 60 & exit 0", nil, 0, ""},
		{"a child holds the pipes, and it failed", "sleep 60 & exit 3", nil, 3, "exit status 3"},
		{"is gone", "", func(c *Config) { c.Command = gone }, 127, "it does not start: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.receive("a", "", "x")
			r := p.once(c.script, 1, c.change)[0]
			if r.Handling.LastExit != c.exit || r.Handling.LastError != c.reason || r.Handled != (c.reason == "") || r.Interrupted {
				t.Errorf("result %+v", r)
			}
			if n := p.unhandled(); (n == 0) != r.Handled {
				t.Errorf("%d are left", n)
			}
			all, err := p.endpoint.Handlings(t.Context())
			if err != nil || len(all) != p.unhandled() || len(all) == 1 && (all[0].LastExit != c.exit || all[0].Running) {
				t.Errorf("stored %+v: %v", all, err)
			}
		})
	}
}

// TestMarkedMeanwhile: a run that fails after somebody has marked its message as
// handled, as it may itself, is told as a failure that brings no other run.
func TestMarkedMeanwhile(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x")
	stop := p.run(p.queue("touch runs; until test -e marked; do sleep 0.01; done; exit 7", nil))
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(p.dir, "runs")); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it does not run")
		}
	}
	_, err := p.endpoint.MarkAllHandled(t.Context(), "")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(p.dir, "marked"), nil, 0o600))
	r := p.await(1)[0]
	must(t, stop())
	if r.Handled || !r.Marked || r.Handling.LastExit != 7 {
		t.Errorf("result %+v", r)
	}
	if n := p.unhandled(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestStrays: what a run leaves behind in its group ends with it.
func TestStrays(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x")
	p.once(`sleep 60 & echo $! >pid; exit 0`, 1, nil)
	pid, err := strconv.Atoi(strings.TrimSpace(p.file("pid")))
	must(t, err)
	for until := time.Now().Add(patience); !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH); time.Sleep(5 * time.Millisecond) {
		state, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if strings.Contains(string(state), ") Z ") {
			break // nobody waits for it
		}
		if time.Now().After(until) {
			t.Fatal("it is still there")
		}
	}
}

// TestFlood: what a run writes is passed on as far as 64 KB, in lines of 4 KB at
// most, and the rest is counted.
func TestFlood(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x")
	r := p.once(`echo first; head -c 10000 /dev/zero | tr '\0' x; echo; yes $(printf %099d 7) | head -c 5000000; yes no | head -c 5000000 >&2; echo last`, 1, nil)[0]
	written := 0
	for _, line := range p.lines {
		if len(line) > lineMost {
			t.Errorf("a line of %d bytes", len(line))
		}
		written += len(line) + 1
	}
	if !r.Handled || r.Output != 10_010_012 || r.Left != r.Output-outputMost || written > outputMost+3 {
		t.Errorf("%d bytes passed on, result %+v", written, r)
	}
	if p.lines[0] != "first" || len(p.lines[1]) != lineMost || len(p.lines[3]) != 10000-2*lineMost || len(p.lines[4]) != 99 {
		t.Errorf("lines of %d, %d, %d bytes", len(p.lines[1]), len(p.lines[2]), len(p.lines[3]))
	}
}

// TestFloodOfLines: what is said of each line may be many times as long as the line,
// so that their number is bounded too.
func TestFloodOfLines(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x")
	r := p.once(`yes '' | head -c 50000; printf rest`, 1, nil)[0]
	if !r.Handled || r.Output != 50_004 || len(p.lines) != linesMost || r.Left != r.Output-linesMost {
		t.Errorf("%d lines passed on, result %+v", len(p.lines), r)
	}
}

// TestNobodyWantsOutput: a run whose output nobody gets writes it all the same.
func TestNobodyWantsOutput(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x")
	r := p.once("yes | head -c 1000000", 1, func(c *Config) { c.Line = nil })[0]
	if !r.Handled || r.Output != 1000000 || len(p.lines) > 0 {
		t.Errorf("result %+v, %d lines", r, len(p.lines))
	}
}

// TestEnvironment: a run is told of its message, and not what a peer may choose
// freely or where a passphrase is.
func TestEnvironment(t *testing.T) {
	environ := append(os.Environ(), "ACE_PASSPHRASE=s", "ACE_PASSPHRASE_FILE=s", "ACE_NEXT_PASSPHRASE_COMMAND=s", "CREDENTIALS_DIRECTORY=s",
		"ACE_THREAD_ID=stale", "ACE_HOME=kept")
	for thread, want := range map[string]string{"": "", "order-7": "order-7", "$(id)": "", "-rf": "", "a b": "", "\u202e": "", strings.Repeat("x", 129): ""} {
		p := newPlace(t)
		p.receive("a", thread, "$(hostile)")
		m, err := p.endpoint.Inbox(t.Context(), core.InboxFilter{})
		must(t, err)
		r := p.once(`cat >in; env | grep -E '^(ACE_|CREDENTIALS)' | sort >env`, 1, func(c *Config) { c.Environ = environ })[0]
		if !r.Handled || p.file("in") != "$(hostile)" {
			t.Errorf("read %q", p.file("in"))
		}
		lines := []string{"ACE_ATTEMPT=1", "ACE_FROM=" + sender32("a"), "ACE_HOME=kept", "ACE_IDENTITY=" + p.endpoint.ACEID(),
			"ACE_MESSAGE_ID=" + m[0].MessageID, "ACE_RECEIVED_AT=6", "ACE_SENT_AT=5"}
		if want != "" {
			lines = append(lines, "ACE_THREAD_ID="+want)
		}
		lines = append(lines, "ACE_TYPE=ace:text:1")
		if got := strings.TrimSpace(p.file("env")); got != strings.Join(lines, "\n") {
			t.Errorf("thread %q: environment\n%s\nwant\n%s", thread, got, strings.Join(lines, "\n"))
		}
	}
}

// TestEnded: a run under way at the end gets its grace, and then it is ended and
// run again by the next queue, which is told that it may not be the first.
func TestEnded(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x")
	q := p.queue(`echo $ACE_ATTEMPT >>log; trap 'exit 0' TERM; sleep 60 & wait`, nil)
	q.grace = 50 * time.Millisecond
	stop := p.run(q)
	p.waitFile("log", "1")
	must(t, stop())
	if got := p.await(1); !got[0].Interrupted || got[0].Handled || p.unhandled() != 1 {
		t.Errorf("results %+v", got)
	}
	p.once(`echo $ACE_ATTEMPT >>log`, 2, func(c *Config) { c.Attempts = 1 })
	if p.file("log") != "1\n2\n" || p.unhandled() != 0 {
		t.Errorf("attempts %q, %d left", p.file("log"), p.unhandled())
	}
}

// TestGrace: a run that ends within its grace has done its work.
func TestGrace(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x", "y")
	stop := p.run(p.queue(`cat >>log; while ! test -e go; do sleep 0.01; done`, nil))
	p.waitFile("log", "x")
	go func() {
		time.Sleep(20 * time.Millisecond)
		_ = os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600)
	}()
	must(t, stop())
	if got := p.await(1); len(got) != 1 || !got[0].Handled || p.file("log") != "x" || p.unhandled() != 1 {
		t.Errorf("results %+v, log %q", got, p.file("log"))
	}
}

// TestDrain lets a run under way go on, and no other begin.
func TestDrain(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x", "y")
	q := p.queue(`cat >>log; while ! test -e go; do sleep 0.01; done`, nil)
	stop := p.run(q)
	p.waitFile("log", "x")
	q.Drain()
	if !q.Busy() {
		t.Error("the run was ended")
	}
	must(t, os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o600))
	if got := p.await(1); !got[0].Handled {
		t.Errorf("results %+v", got)
	}
	q.News()
	for until := time.Now().Add(10 * lookInterval); q.Busy() && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	must(t, stop())
	if p.file("log") != "x" || p.unhandled() != 1 {
		t.Errorf("log %q, %d left", p.file("log"), p.unhandled())
	}
}

// TestKill ends runs at once, and no other begins.
func TestKill(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x")
	q := p.queue(`trap '' TERM; echo >log; while :; do sleep 0.1; done`, nil)
	stop := p.run(q)
	p.waitFile("log", "\n")
	q.Kill()
	p.await(1)
	must(t, stop())
}

// TestGivenUp: after so many failures a message is left alone, those behind it go
// on, and it comes back when its owner says so.
func TestGivenUp(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "bad", "next")
	stop := p.run(p.queue(`text=$(cat); echo $text >>log; test $text != bad || test -e mended`, func(c *Config) { c.Attempts = 2 }))
	got := p.await(3)
	if got[0].Handling.GivenUp || !got[1].Handling.GivenUp || !got[2].Handled || p.file("log") != "bad\nbad\nnext\n" {
		t.Errorf("results %+v, log %q", got, p.file("log"))
	}
	must(t, os.WriteFile(filepath.Join(p.dir, "mended"), nil, 0o600))
	bad := got[0].Message
	must(t, p.endpoint.UnmarkHandled(t.Context(), bad.From, bad.MessageID))
	if got := p.await(4); !got[3].Handled || got[3].Message.MessageID != bad.MessageID {
		t.Errorf("result %+v", got[3])
	}
	must(t, stop())
	if p.unhandled() != 0 {
		t.Errorf("%d are left", p.unhandled())
	}
}

// TestTypes: other types are left for somebody else.
func TestTypes(t *testing.T) {
	p := newPlace(t)
	p.receive("a", "", "x")
	stop := p.run(p.queue("exit 0", func(c *Config) { c.Types = []string{"example:other:1"} }))
	time.Sleep(50 * time.Millisecond)
	must(t, stop())
	if p.unhandled() != 1 {
		t.Error("it was handled")
	}
	p.once("exit 0", 1, func(c *Config) { c.Types = []string{"example:other:1", profile.TextType} })
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "plain"), []byte("x"), 0o600))
	for _, name := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "plain"), dir, "no-such-program-anywhere"} {
		if _, err := Find([]string{name}); err == nil {
			t.Errorf("%s was found", name)
		}
	}
}
