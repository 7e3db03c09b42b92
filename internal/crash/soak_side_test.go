package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// side is one of the two people.
type side struct {
	*home
	soak *soak
	name string
	id   string // ACE ID
	peer *side

	listener *listener
	lives    int // of it
	killed   bool
	shown    []event  // messages that its listeners showed, since the state was lost
	handler  *handler // that its listeners run, nil for none

	changes     []change // of its keys
	appendsLeft int      // of its log after them

	using sync.RWMutex // held while a command uses the state that may be lost

	mu     sync.Mutex
	queued []queuedMessage // guarded by mu, as what follows
	barred bool            // the permits it holds may be void, or lost
}

// change is one of keys.
type change struct {
	rotated bool
	seq     int64 // of the last event of the log after it
}

// queuedMessage is one that "ace send" has taken.
type queuedMessage struct {
	id, text string
	lost     bool // with the state of its sender
	early    bool // queued before the state of its recipient was lost
}

// try runs a command, and returns what it printed and the code that it failed
// with, "" for none.
func (x *side) try(args ...string) (stdout, code string) {
	x.using.RLock()
	defer x.using.RUnlock()
	c := exec.Command(x.p.binary, append(args, "--json")...)
	c.Env = x.env
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err == nil {
		return out.String(), ""
	}
	for line := range strings.Lines(stderr.String()) {
		var v struct{ Error struct{ Code string } }
		if json.Unmarshal([]byte(line), &v) == nil && v.Error.Code != "" {
			return out.String(), v.Error.Code
		}
	}
	return out.String(), fmt.Sprintf("%s: %s", c.ProcessState, &stderr)
}

// send queues messages, one after another, until the soak is to end.
func (x *side) send() {
	for n := 1; ; n++ {
		select {
		case <-x.soak.stop:
			return
		case <-time.After(x.soak.pace):
		}
		if err := x.sendOne(n); err != nil {
			x.t.Errorf("%s: message %d: %v", x.name, n, err)
			return
		}
	}
}

// sendOne queues one message. A command that failed for a reason that passes is
// given again, with the key that keeps it from queueing a second message.
func (x *side) sendOne(n int) error {
	text := fmt.Sprint(x.name, " ", n)
	for {
		out, code := x.try("send", x.peer.id, text, "--request-id", text)
		switch code {
		case "":
			var v struct {
				MessageID string `json:"message_id"`
			}
			if err := json.Unmarshal([]byte(out), &v); err != nil || v.MessageID == "" {
				return fmt.Errorf("%q: %v", out, err)
			}
			x.mu.Lock()
			defer x.mu.Unlock()
			x.queued = append(x.queued, queuedMessage{id: v.MessageID, text: text})
			return nil
		case "not_permitted", "unknown_peer", "relay_unavailable":
			// Who has lost the permits of others can send again when one of them
			// has written (05#admission-recovery), and whose peer has a new key
			// when a fresh permit has come (05#delivery-permits).
			if !x.isBarred() {
				return fmt.Errorf("refused with %s", code)
			}
			return nil
		case "lock_busy", "identity_unavailable":
		default:
			return fmt.Errorf("failed with %s", code)
		}
	}
}

func (x *side) isBarred() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.barred
}

// bar says whether the side may be refused a message for want of a permit.
func (x *side) bar(barred bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.barred = barred
}

func (x *side) queuedSoFar() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.queued)
}

// deliveredSince reports whether one of the messages that were queued after the
// first n is delivered.
func (x *side) deliveredSince(n int) bool {
	x.mu.Lock()
	later := map[string]bool{}
	for _, m := range x.queued[n:] {
		later[m.id] = true
	}
	x.mu.Unlock()
	if len(later) == 0 {
		return false
	}
	for _, id := range x.outbox(`map(select(.state == "delivered") | .message_id)`) {
		if later[id] {
			return true
		}
	}
	return false
}

// outbox returns what a filter makes of the Outbox: a list of texts.
func (x *side) outbox(filter string) []string {
	return lines(x.t, x.must("outbox", "list", "--jq", filter))
}

// nudge attempts the messages that have waited longest for an outcome. All of them
// again and again would fill the queues of both at the relay, where neither finds
// room for the receipts of the other's then (07#send, recipient_inbox_full).
func (x *side) nudge() {
	ids := x.outbox(`map(select(.settled_at == null) | .message_id) | .[:` + fmt.Sprint(x.soak.nudged) + `]`)
	if len(ids) > 0 {
		_, _ = x.try(append([]string{"outbox", "retry"}, ids...)...)
	}
}

// waiting is how many messages have no outcome.
func (x *side) waiting() string {
	return x.must("outbox", "list", "--jq", `map(select(.settled_at == null)) | length`)
}

// restart ends the listener with a signal and starts the next one, after the peer
// has attempted what it has sent meanwhile a second time: both packets wait.
func (x *side) restart(sig syscall.Signal) {
	x.t.Helper()
	x.end(sig)
	from := x.peer.queuedSoFar()
	x.soak.await("a message of "+x.peer.name, func() bool { return x.peer.queuedSoFar() > from })
	_, _ = x.peer.try("outbox", "retry", "--all")
	x.start()
}

// start starts the next listener.
func (x *side) start() {
	x.t.Helper()
	x.lives++
	log, err := os.Create(filepath.Join(x.soak.dir, fmt.Sprintf("%s-listen-%d.jsonl", x.name, x.lives)))
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { log.Close() })
	x.listener = x.listen(log, x.handler.options()...)
	x.listener.wait("being ready", func() bool { return len(x.listener.seen("ready")) > 0 })
}

// end ends the listener, if there is one.
func (x *side) end(sig syscall.Signal) {
	x.t.Helper()
	if x.listener == nil {
		return
	}
	select {
	case <-x.listener.dead:
		x.t.Errorf("%s's listener has ended by itself: %s\n%s", x.name, x.listener.state, x.listener.stderr)
	default:
	}
	last := x.listener.end(sig)
	if sig == syscall.SIGKILL {
		x.killed = true
	} else if last.Event != "end" {
		x.t.Errorf("%s's listener ended with %+v: %s", x.name, last, x.listener.stderr)
	}
	x.shown = append(x.shown, x.listener.seen("message")...)
	x.handler.ended(x.listener)
	x.listener = nil
}

// changeKeys replaces the signing key, or the root with it, and waits until both
// sides hear each other again: peers replace theirs one at a time
// (06#security-considerations).
func (x *side) changeKeys(command ...string) {
	x.t.Helper()
	const reserve = 8 // appends that the log keeps
	x.peer.bar(true)
	out, code := x.try(append([]string{"identity"}, command...)...)
	var v struct {
		Events []struct{ Seq int64 }
		Budget struct {
			Left int `json:"appends_left"`
		} `json:"budget_after"`
	}
	if err := json.Unmarshal([]byte(out), &v); code != "" || err != nil {
		x.t.Errorf("%s: identity %v: %s %v", x.name, command, code, err)
		return
	}
	if v.Budget.Left < reserve {
		x.t.Fatalf("%s: %d appends are left of the log: this soak is too long", x.name, v.Budget.Left)
	}
	x.appendsLeft = v.Budget.Left
	x.changes = append(x.changes, change{rotated: command[0] == "rotate", seq: v.Events[len(v.Events)-1].Seq})
	x.soak.counts["keys"]++
	x.soak.heal(x.name + " has new keys")
	x.peer.bar(false)
}
