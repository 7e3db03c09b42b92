package crash

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

// home is one person's machine, at the relay of a place.
type home struct {
	t   *testing.T
	p   place
	dir string
	env []string
}

func newHome(t *testing.T, p place) *home {
	dir := t.TempDir()
	return &home{t: t, p: p, dir: dir, env: []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + p.dir}}
}

// run runs the program to its end and reports whether it was killed.
func (h *home) run(env string, args ...string) (stdout string, killed bool) {
	h.t.Helper()
	c := exec.Command(h.p.binary, args...)
	c.Env = append(h.env[:len(h.env):len(h.env)], env)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	err := c.Run()
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return "", true
	}
	if err != nil {
		h.t.Fatalf("ace %s (%s): %v: %s", strings.Join(args, " "), env, err, &stderr)
	}
	return strings.TrimSpace(out.String()), false
}

// must runs the program unharmed.
func (h *home) must(args ...string) string {
	h.t.Helper()
	out, killed := h.run("", args...)
	if killed {
		h.t.Fatalf("ace %s was killed by somebody else", strings.Join(args, " "))
	}
	return out
}

// aceID returns the identity's ACE ID.
func (h *home) aceID() string { return h.must("identity", "show", "--jq", ".ace_id") }

func (h *home) init(args ...string) *home {
	h.t.Helper()
	h.must(append([]string{"init", "--yes", "--relay", "dev"}, args...)...)
	return h
}

// step is a command of somebody.
type step struct {
	who  *home
	args []string
}

// walk lets scenario tell the steps of one case after another, and kills each
// step once at every place that it passes. Whoever was killed runs the same
// command again. It returns how often that was.
func walk(t *testing.T, scenario func(n int) (steps []step, check func(killed int))) (kills int) {
	t.Helper()
	places := failpoint.EndpointPlaces()
	if testing.Short() { // those in which something has happened that nobody knows of
		places = []string{failpoint.Saved, failpoint.Requested}
	}
	n := 0
	for at := 0; ; at++ {
		for _, name := range places {
			for pass := 1; ; pass++ {
				n++
				steps, check := scenario(n)
				if at == len(steps) {
					return kills
				}
				killed := runSteps(steps, at, fmt.Sprintf("ACE_FAILPOINT=%s:%d", name, pass))
				check(at)
				if t.Failed() {
					t.Fatalf("step %d (%s), killed at %s, pass %d", at, strings.Join(steps[at].args, " "), name, pass)
				}
				if !killed {
					break
				}
				kills++
			}
		}
	}
}

func runSteps(steps []step, at int, env string) (killed bool) {
	for i, s := range steps {
		if i != at {
			s.who.must(s.args...)
			continue
		}
		if _, killed = s.who.run(env, s.args...); killed {
			s.who.must(s.args...)
		}
	}
	return killed
}

// serve runs the relay of a place and returns what ends it.
func (p place) serve(t *testing.T, env ...string) (end func()) {
	t.Helper()
	r, err := p.start(env...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !r.waitReady(ctx) {
		t.Fatalf("no ready line: %s", r.stderr)
	}
	return func() { r.kill(syscall.SIGTERM) }
}

// TestInitKilled kills the making of an identity at every place: made again, it
// is there once and published.
func TestInitKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, program(t))
	defer p.serve(t)()
	kills := walk(t, func(int) ([]step, func(int)) {
		h := newHome(t, p)
		return []step{
				{h, []string{"init", "--yes", "--if-missing", "--relay", "dev"}},
				{h, []string{"publish"}},
			}, func(int) {
				if got := h.must("status", "--jq", ".registered"); got != "true" {
					t.Errorf("registered: %s", got)
				}
				if left, err := filepath.Glob(filepath.Join(h.dir, ".local/share/ace/identities/.new-*")); err != nil || len(left) > 0 {
					t.Errorf("left over: %v, %v", left, err)
				}
			}
	})
	enough(t, kills, 12)
}

// TestContactKilled kills asking for contact, accepting it and taking the answer
// at every place: both end up admitted, each with a permit of the other.
func TestContactKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, program(t))
	defer p.serve(t)()
	bob := newHome(t, p).init("--handle", "bob", "--contact", "open")
	id := bob.aceID()
	kills := walk(t, func(n int) ([]step, func(int)) {
		alice := newHome(t, p).init()
		from := alice.aceID()
		return []step{
			{alice, []string{"connect", id}},
			{bob, []string{"pull"}},
			{bob, []string{"contact", "accept", from, "--yes"}},
			{alice, []string{"pull"}},
		}, func(int) { wantContact(t, alice, bob, from) }
	})
	enough(t, kills, 40)
}

// TestRuleKilled is TestContactKilled for who accepts by rule, and has only the
// packet to be reminded by that the reply is still due.
func TestRuleKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, program(t))
	defer p.serve(t)()
	bob := newHome(t, p).init("--handle", "bob", "--contact", "open", "--accept", "text")
	id := bob.aceID()
	kills := walk(t, func(n int) ([]step, func(int)) {
		alice := newHome(t, p).init()
		from := alice.aceID()
		return []step{
			{alice, []string{"connect", id}},
			{bob, []string{"pull"}},
			{alice, []string{"pull"}},
		}, func(int) { wantContact(t, alice, bob, from) }
	})
	enough(t, kills, 30)
}

// wantContact wants two to be admitted at each other, each with a permit of the
// other. from is who asked.
func wantContact(t *testing.T, asking, asked *home, from string) {
	t.Helper()
	const both = ` | select(.held_permit_expires_at != null and .issued_permit_expires_at != null) | .state`
	if got := asking.must("contact", "list", "--jq", `.[]`+both); got != "admitted" {
		t.Errorf("the asking side has %q", got)
	}
	if got := asked.must("contact", "list", "--jq", `.[] | select(.ace_id == "`+from+`")`+both); got != "admitted" {
		t.Errorf("the accepting side has %q", got)
	}
}

// TestMessageKilled kills sending a message, receiving it and receiving its
// receipt at every place (06#outbox-sender, 06#receive-pipeline): in the end
// each message is in the inbox once, and delivered in the Outbox.
func TestMessageKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, program(t))
	end := p.serve(t)
	defer func() { end() }()
	alice := newHome(t, p).init()
	bob := newHome(t, p).init("--handle", "bob", "--contact", "open", "--accept", "text")
	id := bob.aceID()
	alice.must("connect", id)
	bob.must("pull")
	alice.must("pull")

	sent := 0
	kills := walk(t, func(n int) ([]step, func(int)) {
		return []step{
				{alice, []string{"send", id, fmt.Sprint("text ", n), "--request-id", fmt.Sprint(n)}},
				{bob, []string{"pull"}},
				{alice, []string{"pull"}},
			}, func(killed int) {
				sent = n
				if killed == 0 {
					// The attempt is claimed, and what is queued behind it waits for that.
					alice.forgetClaims()
					return
				}
				const count = `[.[] | select(.untrusted.body.message == "%s")] | length`
				if got := bob.must("inbox", "list", "--jq", fmt.Sprintf(count, fmt.Sprint("text ", n))); got != "1" {
					t.Errorf("the message is %s times in the inbox", got)
				}
			}
	})
	enough(t, kills, 30)

	// An attempt that ended in the middle may be claimed for a while, and a
	// receipt may be lost: an hour later both are made up for.
	end()
	const later = "ACE_FAILPOINT_CLOCK=3600"
	end = p.serve(t, later)
	alice.env, bob.env = append(alice.env, later), append(bob.env, later)
	alice.must("outbox", "retry", "--all")
	bob.must("pull")
	alice.must("pull")
	want := map[string]int{}
	for n := range sent {
		want[fmt.Sprint("text ", n+1)] = 1
	}
	got := map[string]int{}
	for _, text := range lines(t, bob.must("inbox", "list", "--jq", "[.[].untrusted.body.message]")) {
		got[text]++
	}
	for text, times := range got {
		if times != want[text] {
			t.Errorf("%q is %d times in the inbox", text, times)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d messages arrived of %d", len(got), len(want))
	}
	for _, state := range lines(t, alice.must("outbox", "list", "--jq", `[.[] | .state + " " + .request_id]`)) {
		if !strings.HasPrefix(state, "delivered ") {
			t.Errorf("in the outbox: %s", state)
		}
	}
	if got := bob.must("quarantine", "list", "--jq", "length"); got != "0" {
		t.Errorf("%s packets are in quarantine", got)
	}
}

// forgetClaims is the time after which an attempt whose process has died holds up
// nobody any more.
func (h *home) forgetClaims() {
	h.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(h.dir, ".local/share/ace/identities/default/store.db"))
	if err == nil {
		_, err = db.Exec("UPDATE outbox SET claimed_until = 0")
	}
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// lines reads a JSON list of texts.
func lines(t *testing.T, text string) (list []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%.80q: %v", text, err)
	}
	return list
}

// enough fails when there were fewer kills than there are writes and requests at
// least: the places would not be where they should.
func enough(t *testing.T, kills, least int) {
	t.Helper()
	t.Logf("%d kills", kills)
	if testing.Short() {
		least /= 2
	}
	if kills < least {
		t.Errorf("%d kills, less than %d", kills, least)
	}
}
