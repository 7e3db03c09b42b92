package sim

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// plan is what a seed comes to: a stage, the weather on it, and the steps. A
// step has its own source of chance, so that leaving others out changes nothing
// about it but what it finds.
type plan struct {
	seed     uint64
	shape    int
	weather  weather
	policies []int // of the hosts, nil: none has one
	steps    []step
	keep     []int // the steps to play, nil: all
}

type step struct {
	action *action
	host   int
	peer   int // another host
	seed   uint64
}

// weather is how often things fail, in parts of one.
type weather struct {
	network float64 // a request
	death   float64 // a host during a step
	disk    float64 // some writes of a host during a step
	relay   float64 // a relay is restarted during a request
	rival   float64 // another process of the host acts during a request
}

// weathers are what seeds choose from: each kind of fault has worlds of its own,
// in which it is not hidden behind others.
var weathers = []weather{
	{},
	{network: 0.1},
	{network: 0.35},
	{death: 0.25},
	{disk: 0.25},
	{network: 0.15, death: 0.15, disk: 0.1, relay: 0.01},
	{network: 0.05, death: 0.05, disk: 0.03, relay: 0.005, rival: 0.01},
	{rival: 0.08},
}

const minSteps, maxSteps = 20, 60

func drawPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := plan{seed: seed, shape: r.IntN(len(shapes)), weather: weathers[r.IntN(len(weathers))]}
	hosts := len(shapes[p.shape].hosts)
	all := make([]*action, len(actions))
	for i := range actions {
		all[i] = &actions[i]
	}
	setBesides()
	for range hosts {
		p.policies = append(p.policies, r.IntN(len(policies)))
	}
	for range minSteps + r.IntN(maxSteps-minSteps) {
		host := r.IntN(hosts)
		p.steps = append(p.steps, step{
			action: drawFrom(all, r), host: host, peer: (host + 1 + r.IntN(hosts-1)) % hosts, seed: r.Uint64(),
		})
	}
	return p
}

// drawFrom chooses one of some actions by their weights.
func drawFrom(list []*action, r *rand.Rand) *action {
	total := 0
	for _, a := range list {
		total += a.weight
	}
	n := r.IntN(total)
	for _, a := range list {
		if n < a.weight {
			return a
		}
		n -= a.weight
	}
	panic("sim: no such action")
}

func (p plan) plays(n int) bool { return p.keep == nil || slices.Contains(p.keep, n) }

// reduced leaves out steps, by ever smaller parts, while what is left breaks the
// same rule.
func reduced(t *testing.T, stages *stages, p plan, w *world) (plan, *world) {
	p.keep = make([]int, 0, len(p.steps))
	for n := range p.steps[:min(len(p.steps), w.step+1)] {
		p.keep = append(p.keep, n)
	}
	for size := len(p.keep) / 2; size > 0; size /= 2 {
		for at := 0; at < len(p.keep); {
			less := p
			less.keep = slices.Delete(slices.Clone(p.keep), at, min(at+size, len(p.keep)))
			if again := play(t, stages, less); again.broken != nil && again.broken.rule == w.broken.rule {
				p, w = less, again
				continue
			}
			at += size
		}
	}
	return p, w
}

func stepList(steps []int) string {
	list := make([]string, len(steps))
	for i, n := range steps {
		list[i] = strconv.Itoa(n)
	}
	return `"` + strings.Join(list, ",") + `"`
}

func keptSteps(t *testing.T) (steps []int) {
	t.Helper()
	if *kept == "" {
		return nil
	}
	for n := range strings.SplitSeq(*kept, ",") {
		step, err := strconv.Atoi(n)
		if err != nil {
			t.Fatalf("-keep: %v", err)
		}
		steps = append(steps, step)
	}
	return steps
}
