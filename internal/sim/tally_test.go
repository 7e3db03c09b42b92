package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tally is what has happened in all worlds of a test.
type tally map[string]int

func (t tally) add(w *world) {
	for what, n := range w.counted {
		t[what] += n
	}
}

func (t tally) String() string {
	var list []string
	for _, what := range slices.Sorted(maps.Keys(t)) {
		list = append(list, fmt.Sprintf("%s: %d", what, t[what]))
	}
	return "in these worlds\n" + strings.Join(list, "\n")
}

// check fails when the worlds were too peaceful to say anything.
func (t tally) check(test *testing.T) {
	for _, what := range []string{
		"accepted", "died", "restored", "lost", "rotate", "held back", "answer lost", "doubled", "hopeful",
		"ended delivered", "ended expired", "sent to a peer prekey", "receipt delivered ", "event message",
		"stream", "stream cut", "another process", "recover", "imported", "forget", "unpublish", "prekeys exhausted",
		"handler: succeeds", "handler: fails", "handler: hangs", "handler: lies", "handler: interrupted", "handler: given up",
		"handler: not due yet", "handler: fails on", "handler: anew", "handler: the host dies before the work is done", "handler: the host dies after the work is done",
		"policy: ask", "policy: deny", "policy: approved", "policy: denied by the owner", "policy: released", "event withheld",
		"trade: ", "trade: thread_busy", "receipt rejected thread_busy", "threads at their end",
	} {
		if t[what] == 0 {
			test.Errorf("%q never happened", what)
		}
	}
}
