package crash

import (
	"syscall"
	"testing"
	"time"
)

// faults are those of the relay while two nodes are at work.
const faults = "drop=0.05,dup=0.1,delay=50ms,error=0.05"

// TestNodeSoak is the life of two agents: what TestSoak does, over a relay that
// breaks connections, refuses, delays and doubles on purpose, and with a handler
// for each message that fails, dies, hangs and floods (see misbehaviour). In the
// end every message is delivered, settled by its receipt and handled, those of a
// sender in the order in which they came; no process of a handler is left; the
// audit log has what must have happened and nothing of what was written; and
// ace trace tells of it (see node_check_test.go).
//
//	make soak-node MINUTES=60
func TestNodeSoak(t *testing.T) {
	t.Parallel()
	s := newSoak(t)
	s.pace = 800 * time.Millisecond // runs that fail take their time, and hold the next ones back
	s.nudged = 8                    // a relay that delays each receipt takes its time for them
	s.handled = true
	s.begin()
	s.faults = faults
	s.again(syscall.SIGTERM)
	s.goOn(s.nodeActs)
	s.quiet()
	s.await("an outcome of every message, whatever the relay does", func() bool {
		return s.sides[0].waiting() == "0" && s.sides[1].waiting() == "0"
	})
	s.faults = "" // a receipt of the last minute may need the relay once more
	s.again(syscall.SIGTERM)
	s.await("a handled inbox on both sides", func() bool { return s.sides[0].unhandled() == "0" && s.sides[1].unhandled() == "0" })
	s.settle()
	states := s.check()
	for i, x := range s.sides {
		x.checkHandled(states[i])
		x.checkLog(states[i], states[1-i])
		x.checkTraces(states[i])
	}
	s.say("and of handlers and the audit log: %v", s.counts)
}

// changeEvery is in every how many turns keys are replaced, and appendsKept how
// many appends of its log a side keeps: an hour takes more than it has.
const changeEvery, appendsKept = 4, 24

// nodeActs are those of the n-th time around.
func (s *soak) nodeActs(n int) (acts []act) {
	if *minutes == 0 {
		return []act{
			{"alice delegates", func() { s.sides[0].changeKeys("delegate") }},
			{"bob's listener is killed", func() { s.sides[1].restart(syscall.SIGKILL) }},
			{"the relay is killed", func() { s.again(syscall.SIGKILL) }},
			{"alice's listener is ended", func() { s.sides[0].restart(syscall.SIGTERM) }},
		}
	}
	acts = s.ends()
	for _, x := range s.sides {
		if n%changeEvery == 0 && (n == 0 || x.appendsLeft > appendsKept) {
			acts = append(acts, x.changesOfKeys()...)
		}
	}
	return acts
}
