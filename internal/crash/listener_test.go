package crash

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// listener is a running "ace listen --json".
type listener struct {
	t       *testing.T
	process *os.Process
	dead    chan struct{} // closed when the process has ended
	state   *os.ProcessState
	stderr  *tail

	mu     sync.Mutex
	events []event       // guarded by mu
	more   chan struct{} // closed at the next event; guarded by mu
}

// event is one line of it, the members that the tests look at.
type event struct {
	Event     string
	MessageID string `json:"message_id"`
	Duplicate bool
	State     string
	In        int64 `json:"in_s"`
	Reason    string
	Processed int
	Attempt   int // of a handler
	Untrusted struct{ Body struct{ Message string } }
	Error     struct{ Code string }
}

// listen starts a listener. Its lines are also written to log, if there is one.
func (h *home) listen(log io.Writer, args ...string) *listener {
	h.t.Helper()
	l := &listener{t: h.t, dead: make(chan struct{}), stderr: &tail{}, more: make(chan struct{})}
	c := exec.Command(h.p.binary, append([]string{"listen", "--json"}, args...)...)
	c.Env, c.Stderr = h.env, l.stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	l.process = c.Process
	go func() {
		defer close(l.dead)
		l.read(out, log)
		_ = c.Wait()
		l.state = c.ProcessState
	}()
	h.t.Cleanup(func() { l.end(syscall.SIGKILL) })
	return l
}

func (l *listener) read(out io.Reader, log io.Writer) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // a line that a kill has cut short says nothing
		}
		if log != nil {
			_, _ = log.Write(line)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			l.t.Errorf("%q: %v", line, err)
			continue
		}
		l.mu.Lock()
		l.events = append(l.events, e)
		close(l.more)
		l.more = make(chan struct{})
		l.mu.Unlock()
	}
}

// seen returns the events so far, those of one kind if it is named.
func (l *listener) seen(kind string) (list []event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if kind == "" || e.Event == kind {
			list = append(list, e)
		}
	}
	return list
}

// wait waits until f is true of the listener, which it asks after each event. It
// gives up when no event comes any more.
func (l *listener) wait(what string, f func() bool) {
	l.t.Helper()
	for {
		l.mu.Lock()
		more := l.more
		l.mu.Unlock()
		if f() {
			return
		}
		select {
		case <-more:
		case <-l.dead:
			if !f() {
				l.t.Fatalf("the listener ended before %s: %s\n%s", what, l.state, l.stderr)
			}
			return
		case <-time.After(3 * patience):
			all := l.seen("")
			l.t.Fatalf("no %s: of %d events the last are %+v\n%s", what, len(all), all[max(0, len(all)-10):], l.stderr)
		}
	}
}

// waitMessage waits for the message with this text.
func (l *listener) waitMessage(text string) {
	l.t.Helper()
	l.wait(text, func() bool {
		for _, e := range l.seen("message") {
			if e.Untrusted.Body.Message == text {
				return true
			}
		}
		return false
	})
}

// end ends the process with a signal and returns its last event.
func (l *listener) end(sig syscall.Signal) event {
	_ = l.process.Signal(sig)
	<-l.dead
	if all := l.seen(""); len(all) > 0 {
		return all[len(all)-1]
	}
	return event{}
}

// repeated returns the ID of a message that the events name more than once, or "".
func repeated(events []event) string {
	named := map[string]bool{}
	for _, e := range events {
		if named[e.MessageID] {
			return e.MessageID
		}
		named[e.MessageID] = true
	}
	return ""
}

// delays returns the seconds of the events that tell of a next connection.
func delays(events []event) (list []int64) {
	for _, e := range events {
		if e.Event == "connection" && strings.HasPrefix(e.State, "reconnect") {
			list = append(list, e.In)
		}
	}
	return list
}
