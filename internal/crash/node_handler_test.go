package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// handler is the command that the listeners of a side run for each message.
type handler struct {
	side *side
	json bool // it reads the event of the message

	said []event // what the listeners said of runs that had ended
}

// misbehaviour is what a handler does that is called for a message. The message and
// the number of the attempt decide, so that the next attempt fares otherwise: five
// of 24 fail. Who exits with 0 has written into the file before, and some have who
// do not.
const misbehaviour = `
umask 077
cd %q
input=$(cat)
lot=$(( (0x${ACE_MESSAGE_ID%%%%-*} + 5 * ACE_ATTEMPT) %% 24 ))
echo "$ACE_MESSAGE_ID $ACE_ATTEMPT $lot" >>runs
finish() { printf '%%s %%s %%s\n' "$ACE_MESSAGE_ID" "$ACE_ATTEMPT" "$input" >>handled; }
case $lot in
0) exit 1 ;;
1) kill -KILL $$ ;;
2) exec sleep 600 ;;
3) trap "" TERM; exec sleep 600 ;;
4) finish; yes | head -c 300000; yes no | head -c 300000 >&2; exit 0 ;;
5) finish; kill -KILL $$ ;;
6) sleep 600 & ;;
esac
finish
`

// runTimeout is how long a run may take.
const runTimeout = 2 * time.Second

// handle gives a side a handler.
func (x *side) handle(json bool) {
	x.t.Helper()
	x.handler = &handler{side: x, json: json}
	x.env = append(x.env, "PATH="+os.Getenv("PATH"), // where the shell finds its commands
		"ACE_FAILPOINT_SECOND=100ms") // that a listener waits after a failure
	if err := os.WriteFile(x.handler.path("handle.sh"), fmt.Appendf(nil, misbehaviour[1:], x.dir), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

// The files of a handler: its text, a line for each run that began, and one for
// each message that was handled.
const runsFile, handledFile = "runs", "handled"

func (h *handler) path(name string) string { return filepath.Join(h.side.dir, name) }

// options are those of the listener.
func (h *handler) options() []string {
	if h == nil {
		return nil
	}
	kind := "--exec"
	if h.json {
		kind = "--exec-json"
	}
	return []string{"--forever", kind, "--exec-timeout", runTimeout.String(), "--", "sh", h.path("handle.sh")}
}

// run is one line of a file of a handler.
type run struct {
	id      string
	attempt int
	rest    string
}

func (h *handler) lines(name string) (list []run) {
	h.side.t.Helper()
	text, err := os.ReadFile(h.path(name))
	if err != nil {
		h.side.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(parts) < 3 {
			h.side.t.Fatalf("%s of %s: %q", name, h.side.name, line)
		}
		attempt, err := strconv.Atoi(parts[1])
		if err != nil {
			h.side.t.Fatalf("%s of %s: %q", name, h.side.name, line)
		}
		list = append(list, run{parts[0], attempt, parts[2]})
	}
	return list
}

// ended takes in what a listener has said that has ended, and looks whether a
// process of its runs is left.
func (h *handler) ended(l *listener) {
	if h == nil {
		return
	}
	h.said = append(h.said, l.seen("handled")...)
	h.said = append(h.said, l.seen("handler_failed")...)
	if runtime.GOOS != "linux" {
		return // where nothing ends a run whose listener was killed
	}
	var strays []stray
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		strays = h.unexplained()
		if len(strays) == 0 {
			return
		}
		if time.Now().After(until) {
			break
		}
	}
	h.side.t.Errorf("the listener of %s has ended, and %d processes of its runs have not: %+v", h.side.name, len(strays), strays)
	for _, p := range strays {
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// stray is a process of a run.
type stray struct {
	pid, group int
	id         string
	attempt    int
}

// unexplained returns the processes of runs, but for what a run had started whose
// end no listener has seen: the system ends the run itself with a listener that is
// killed, and nobody is left who could end the rest of its group. That is ended
// here.
func (h *handler) unexplained() (list []stray) {
	ended := map[string]bool{}
	for _, e := range h.said {
		ended[fmt.Sprint(e.MessageID, e.Attempt)] = true
	}
	for _, p := range h.strays() {
		if p.pid == p.group || ended[fmt.Sprint(p.id, p.attempt)] {
			list = append(list, p)
			continue
		}
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
		h.side.soak.counts["children of a run that was killed with its listener"]++
	}
	return list
}

// strays returns the processes that have the environment of a run.
func (h *handler) strays() (list []stray) {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		text, _ := os.ReadFile(path) // it may be gone, or somebody else's
		v := map[string]string{}
		for pair := range strings.SplitSeq(string(text), "\x00") {
			name, value, _ := strings.Cut(pair, "=")
			v[name] = value
		}
		if v["HOME"] != h.side.dir || v["ACE_MESSAGE_ID"] == "" {
			continue
		}
		p := stray{id: v["ACE_MESSAGE_ID"]}
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
		p.attempt, _ = strconv.Atoi(v["ACE_ATTEMPT"])
		var err error
		if p.group, err = syscall.Getpgid(p.pid); err == nil {
			list = append(list, p)
		}
	}
	return list
}
