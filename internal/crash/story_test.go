package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/internal/failpoint"
)

// die runs a command and reports whether it was killed.
type die func(h *home, args ...string) (killed bool)

// tell tells a story again and again, and kills each command that it gives to
// die once at every place in which something has happened that nobody else knows
// of. It returns how often that was.
func tell(t *testing.T, story func(n int, d die)) (kills int) {
	t.Helper()
	n := 0
	for at := 0; ; at++ {
		for _, name := range []string{failpoint.Saved, failpoint.Requested} {
			for pass := 1; ; pass++ {
				n++
				calls, killed, what := 0, false, ""
				story(n, func(h *home, args ...string) bool {
					calls++
					if calls-1 != at {
						h.must(args...)
						return false
					}
					what = fmt.Sprint(args)
					_, killed = h.run(fmt.Sprintf("ACE_FAILPOINT=%s:%d", name, pass), args...)
					return killed
				})
				if t.Failed() {
					t.Fatalf("command %d %s, killed at %s, pass %d", at, what, name, pass)
				}
				if calls <= at {
					return kills
				}
				if !killed {
					break
				}
				kills++
			}
		}
	}
}

// pull pulls under d, and once more when that was killed.
func (h *home) pull(d die) {
	if d(h, "pull") {
		h.must("pull")
	}
}

// texts returns what is in the inbox.
func (h *home) texts() map[string]int {
	h.t.Helper()
	got := map[string]int{}
	for _, text := range lines(h.t, h.must("inbox", "list", "--jq", "[.[].untrusted.body.message]")) {
		got[text]++
	}
	return got
}

// expectOnce fails unless the texts are in the inbox, and each once.
func (h *home) expectOnce(texts ...string) {
	h.t.Helper()
	got := h.texts()
	for _, text := range texts {
		if got[text] != 1 {
			h.t.Errorf("%q is %d times in the inbox", text, got[text])
		}
	}
}

// expectSettled fails unless all of the Outbox is delivered, and nothing is in
// quarantine.
func (h *home) expectSettled() {
	h.t.Helper()
	if got := h.must("outbox", "list", "--jq", `map(select(.state != "delivered") | .message_id + " " + .state)`); got != "[]" {
		h.t.Errorf("not delivered: %s", got)
	}
	if got := h.must("quarantine", "list", "--jq", "length"); got != "0" {
		h.t.Errorf("%s packets are in quarantine", got)
	}
}

// expectAdmitted fails unless there is one contact, with permits both ways.
func (h *home) expectAdmitted() {
	h.t.Helper()
	const both = `.[] | select(.held_permit_expires_at != null and .issued_permit_expires_at != null) | .state`
	if got := h.must("contact", "list", "--jq", both); got != "admitted" {
		h.t.Errorf("the contact is %q", got)
	}
}

// TestListenKilled kills a listener at each of its places, from its start to the
// acknowledgement of an entry of its stream (06#receive-pipeline, steps 1 to 11):
// the message is in the inbox once and gets its receipt, by the next that fetches.
func TestListenKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, program(t))
	defer p.serve(t)()
	alice, bob := acquainted(t, p)
	id := bob.aceID()
	kills, streams, n := 0, 0, 0
	for _, name := range []string{failpoint.Saved, failpoint.Requested} {
		for pass := 1; ; pass++ {
			n++
			armed := *bob
			armed.env = append(bob.env[:len(bob.env):len(bob.env)], fmt.Sprintf("ACE_FAILPOINT=%s:%d", name, pass))
			l := armed.listen(nil, "--once", "--no-maintain")
			l.waitUp()
			text := fmt.Sprint("text ", n)
			alice.must("send", id, text)
			select {
			case <-l.dead:
			case <-time.After(3 * patience):
				t.Fatalf("%s:%d: the listener goes on: %+v", name, pass, l.seen(""))
			}
			status := l.state.Sys().(syscall.WaitStatus)
			killed := status.Signaled()
			if killed {
				kills++
				if len(l.seen("ready")) > 0 {
					streams++
				}
				bob.must("pull")
			} else if l.state.ExitCode() != 0 {
				t.Fatalf("%s:%d: %s", name, pass, l.stderr)
			}
			alice.must("pull")
			bob.expectOnce(text)
			alice.expectSettled()
			if t.Failed() {
				t.Fatalf("killed at %s, pass %d", name, pass)
			}
			if !killed {
				break
			}
		}
	}
	t.Logf("%d of them at the stream", streams)
	if streams < 3 { // after the commit, the receipt and the acknowledgement
		t.Errorf("%d kills came while there was a stream", streams)
	}
	enough(t, kills, 6)
}

// waitUp waits until the listener is at its stream, or dead.
func (l *listener) waitUp() {
	for len(l.seen("ready")) == 0 {
		l.mu.Lock()
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-l.dead:
			return
		}
	}
}

// town is two homes and their relay, and a clock that the test sets.
type town struct {
	t          *testing.T
	p          place
	alice, bob *home
	ahead      int
	end        func() // of the relay
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{t: t, p: newPlace(t, program(t))}
	w.end = w.p.serve(t)
	t.Cleanup(func() { w.end() })
	w.alice, w.bob = acquainted(t, w.p)
	return w
}

// later sets the clock so far ahead that a claimed attempt may be made by others,
// and a pin be refreshed again.
func (w *town) later() {
	w.t.Helper()
	w.end()
	w.ahead += 130
	clock := fmt.Sprint("ACE_FAILPOINT_CLOCK=", w.ahead)
	w.alice.env, w.bob.env = append(w.alice.env, clock), append(w.bob.env, clock)
	w.end = w.p.serve(w.t, clock)
}

// retry attempts alice's messages under d, and once more later when that was
// killed.
func (w *town) retry(d die) {
	if d(w.alice, "outbox", "retry", "--all") {
		w.later()
		w.alice.must("outbox", "retry", "--all")
	}
}

// TestRecoveryKilled kills what brings a contact back whose receiver has lost its
// state (05#admission-recovery), and the retry of a message that was encrypted to
// a lost prekey (06#outbox-sender): the attempt that carries the recovery data,
// the pull that restores the contact from it, the one that rejects with
// unknown_prekey, and the one that takes that receipt.
func TestRecoveryKilled(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	alice, bob := w.alice, w.bob
	id := bob.aceID()
	kills := tell(t, func(n int, d die) {
		first, second := fmt.Sprint("first ", n), fmt.Sprint("second ", n)
		alice.must("send", id, first)
		bob.loseState()
		w.later()
		bob.must("maintain")
		bob.must("pull") // drops what it cannot open
		w.retry(d)
		bob.pull(d)
		bob.expectAdmitted()
		alice.must("send", id, second) // to the key that the lost state had offered
		bob.pull(d)
		if got := alice.must("outbox", "list", "--jq", `map(select(.state == "relayed")) | length`); got != "2" {
			t.Errorf("%s messages wait for their receipt", got)
		}
		alice.pull(d)
		alice.must("outbox", "retry", "--all")
		bob.must("pull")
		alice.must("pull")
		bob.expectOnce(first, second)
		alice.expectSettled()
	})
	enough(t, kills, 12)
}

// TestNewKeyKilled kills what follows a new signing key: the upkeep that sends a
// fresh permit, the pull that refreshes the pin for it and answers, and the one
// that takes the answer (06#receive-pipeline step 3, 05#delivery-permits). In the
// end messages of the new key arrive, and those to it.
func TestNewKeyKilled(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	alice, bob := w.alice, w.bob
	to, from := bob.aceID(), alice.aceID()
	kills := tell(t, func(n int, d die) {
		there, back := fmt.Sprint("there ", n), fmt.Sprint("back ", n)
		alice.must("identity", "delegate")
		w.later()
		if d(alice, "maintain") {
			alice.must("maintain")
		}
		if d(bob, "pull") {
			w.later() // the refresh of the pin may be spent
			bob.must("pull")
		}
		alice.pull(d)
		alice.must("send", to, there)
		bob.must("send", from, back)
		bob.must("pull")
		alice.must("pull")
		bob.must("pull")
		for _, h := range []*home{alice, bob} {
			h.expectAdmitted()
			h.expectSettled()
		}
		bob.expectOnce(there)
		alice.expectOnce(back)
	})
	enough(t, kills, 14)
}

// loseState deletes the store, and leaves keys and settings.
func (h *home) loseState() {
	h.t.Helper()
	files, err := filepath.Glob(filepath.Join(h.dir, ".local/share/ace/identities/default/*.db*"))
	if err != nil || len(files) == 0 {
		h.t.Fatalf("no store: %v", err)
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			h.t.Fatal(err)
		}
	}
}
