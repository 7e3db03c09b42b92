// Package sim plays whole worlds of agents: real endpoints on real SQLite files
// and real relays, in one process, on a clock, a network and disks that a seed
// decides about. Messages are sent while packets are lost, doubled, held back
// and overtaken, answers fail, hosts die between any two writes and come back
// from older copies. After each step the rules of the specification are looked
// at from the outside (rules_*_test.go); then the faults stop, and every message
// has to come to its end.
//
// One thing happens at a time and every choice comes from the seed, so a world
// that broke a rule breaks it again:
//
//	go test ./internal/sim -run 'TestSim$' -seed 42 -v
//
// A new verb of the endpoint becomes one more row of actions (actions_test.go),
// and what it promises one more row of rules.
package sim

import (
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	seedCount = flag.Int("seeds", 0, "how many worlds TestSim plays, 0: a few")
	firstSeed = flag.Uint64("seed", 0, "the first world; alone when -seeds is 0")
	kept      = flag.String("keep", "", "the steps of the world to play, such as 3,7,12: what a failure was reduced to")
	failures  = flag.Int("failures", 1, "how many worlds may break a rule before the test stops")
	reduce    = flag.Bool("reduce", true, "reduce a world that broke a rule to the steps that matter")
)

// usualSeeds are the worlds of a test without flags, some thirty seconds on one
// core. With -short there are shortSeeds.
const usualSeeds = 160

func TestMain(m *testing.M) {
	debug.SetGCPercent(-1) // much garbage, and little that stays
	debug.SetMemoryLimit(256 << 20)
	goleak.VerifyTestMain(m)
}

func TestSim(t *testing.T) {
	first, count := *firstSeed, *seedCount
	switch {
	case count > 0:
	case first > 0:
		count = 1
	case testing.Short():
		first, count = 1, shortSeeds
	default:
		first, count = 1, usualSeeds
	}
	var total tally
	if count >= parallelSeeds && *share == "" {
		total = playShared(t, first, count)
	} else {
		total = playShare(t, first, count)
	}
	t.Log(total.String())
	if count >= usualSeeds && *share == "" {
		total.check(t)
	}
}

// playShare plays the worlds of this process and returns what happened in them
// that was not told yet.
func playShare(t *testing.T, first uint64, count int) tally {
	stages := newStages(t)
	told := &teller{news: news{Tally: tally{}}, last: time.Now()}
	defer told.tell()
	n, of := parseShare(t)
	for ; n < uint64(count); n += of {
		p := drawPlan(first + n)
		p.keep = keptSteps(t)
		w := play(t, stages, p)
		told.add(w)
		if testing.Verbose() && count == 1 {
			t.Log("\n" + strings.Join(w.trace, "\n"))
		}
		if w.broken != nil {
			report(t, stages, p, w)
			if *failures--; *failures <= 0 {
				t.FailNow()
			}
		}
	}
	return told.Tally
}

// report tells how a world broke a rule and how to see it again, with as few
// steps as still break the same rule.
func report(t *testing.T, stages *stages, p plan, w *world) {
	again := fmt.Sprintf("go test ./internal/sim -run 'TestSim$' -seed %d -v", p.seed)
	if *reduce && p.keep == nil {
		p, w = reduced(t, stages, p, w)
		again += " -keep " + stepList(p.keep)
	}
	t.Errorf("seed %d broke %s\n%s\n\nagain: %s", p.seed, w.broken, strings.Join(w.trace, "\n"), again)
}

// TestSimIsDeterministic: a failure that is seen once can be seen again.
func TestSimIsDeterministic(t *testing.T) {
	stages := newStages(t)
	for seed := uint64(1); seed <= replayedSeeds; seed++ {
		first, second := play(t, stages, drawPlan(seed)), play(t, stages, drawPlan(seed))
		if slices.Equal(first.trace, second.trace) {
			continue
		}
		for i, line := range first.trace {
			if i >= len(second.trace) || line != second.trace[i] {
				t.Fatalf("seed %d: line %d is %q first and then %q", seed, i, line, strings.Join(second.trace[i:min(i+1, len(second.trace))], ""))
			}
		}
		t.Fatalf("seed %d: the second trace is longer", seed)
	}
}
