// Package crash kills the program and looks what is left. A command that changes
// an identity's keys dies at each of its places (identity_test.go); the rest is
// about the relay. The real program runs
// on a real folder under concurrent senders, owners and listeners, dies of
// SIGKILL at a random instant or at a place around its commit, starts again on
// the same folder, and is compared with a model of what it has answered:
//
//   - a packet that was accepted is served until it is acknowledged, byte for
//     byte, once, under one stream ID, in the order of the stream IDs, and no
//     entry ever appears below one that was served before (07#send, 07#inbox);
//   - an entry whose acknowledgement was answered does not come back;
//   - a nonce that an answered request spent stays spent (07#authentication);
//   - registrations, unregistrations, blocks, documents, handles and wake
//     registrations that were answered hold (07#registration, 07#blocks,
//     07#descriptors-and-cards, 07#wake-hints);
//   - what was asked and not answered has happened as a whole or not at all.
//
// All of this is seen over HTTP, as a client sees it. The files are looked at
// too: a store that a dead relay has left has no problem that a check finds, a
// packet that is gone is in none of the files some time after, and the packet
// log is no longer than what is queued demands.
//
//	go test ./internal/crash -run TestCrash -kills 10000 -timeout 0 -v
//
// Commands that change the keys of an identity are killed as well, at each of
// their places, and so is what sends and receives messages. The stream of a
// listener is cut at every byte (TestListenCut), and two listeners and their
// relay live through all of it at once (TestSoak), also with handlers that crash
// and a relay that fails on purpose (TestNodeSoak).
//
// A seed gives the plan of a round: who does what, and where the relay dies.
// How the processes interleave is not in it.
package crash

import (
	"flag"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	kills = flag.Int("kills", 12, "how often the relay is killed")
	seed  = flag.Uint64("seed", 0, "seed of the round; 0 takes one from the clock")
)

func TestMain(m *testing.M) {
	sideBySide()
	flag.Parse()
	var err error
	if scratch, err = os.MkdirTemp("", "ace-crash-"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(scratch)
		os.Exit(code)
	}))
}

// sideBySide has more tests run at a time than there are cores, unless -parallel
// says how many: they wait for processes and disks.
func sideBySide() {
	if err := flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
}

// TestCrash is a round of kills.
func TestCrash(t *testing.T) {
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano()) | 1
	}
	r := newRound(t, s)
	t.Logf("seed %d", s)
	random := rand.New(rand.NewPCG(s, 0))
	began := time.Now()
	for n := 1; n <= *kills; n++ {
		r.live(n, r.plan(random))
		if n%100 == 0 {
			t.Logf("%d kills, %d acknowledged sends, %s", n, r.count.sends.Load(), time.Since(began).Round(time.Second))
		}
		if r.failed(n) {
			return
		}
	}
	for i, end := range []plan{quiet(last()), last()} {
		r.live(*kills+1+i, end)
		if r.failed(*kills + 1 + i) {
			return
		}
	}
	r.checkPlaces()
	t.Log(r.summary(*kills, time.Since(began)))
}
