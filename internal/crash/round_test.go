package crash

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/failpoint"
)

const (
	agentsInRound  = 4
	sendersInRound = 3
	senderIDs      = 5
)

// round is a sequence of lives of a relay on one folder.
type round struct {
	t         *testing.T
	seed      uint64
	place     place
	gateway   *gateway
	findings  *findings
	envelopes *envelopes
	senders   []string // ACE IDs
	agents    []*agent
	former    []*agent // whose queues are left to expire
	made      bool     // there is a store
	named     int
	ahead     int64 // of the relay's clock and ours, in seconds
	networks  atomic.Int64
	count     counters
	died      map[string]int // kills by place, "" for a random instant
	audited   int
}

// counters are of a whole round.
type counters struct {
	sends, acks, scans, replays, resends, registrations, events, verified, settled, wakes atomic.Int64
}

func newRound(t *testing.T, seed uint64) *round {
	r := &round{
		t: t, seed: seed, place: newPlace(t, program(t)), gateway: newGateway(t), findings: &findings{},
		envelopes: newEnvelopes(), died: map[string]int{},
	}
	for range senderIDs {
		r.senders = append(r.senders, strangerID())
	}
	for range agentsInRound {
		r.agents = append(r.agents, r.newAgent())
	}
	return r
}

func (r *round) now() int64 { return time.Now().Unix() + r.ahead }

func (r *round) newAgent() *agent {
	r.named++
	a, err := newAgent(fmt.Sprintf("agent %d", r.named), handleOf(r.named), r.place.url(), r.now(), r.findings)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// handleOf returns a handle in letters that no other resembles.
func handleOf(n int) string {
	return "agent-" + strings.Map(func(digit rune) rune { return digit - '0' + 'a' }, strconv.Itoa(n))
}

// plan is how one life goes.
type plan struct {
	place   string        // at which the relay dies, "" for none
	pass    int           // of that place
	answers int64         // after which it is killed otherwise; compared ends it when all agents were
	after   time.Duration // from the last of these answers, or from the start when there are none
	sweep   time.Duration
	segment int64 // length of the packet log's, in bytes
	quiet   bool  // nobody acts or listens: see settle
	forward int64 // seconds that the clock is put forward before
	replace int   // index of the agent that another replaces, or -1
	signal  syscall.Signal
}

// compared is no number of answers.
const compared = -1

const (
	day  = wire.ContactRequestTTLSeconds + 301
	week = wire.OfflineWindowSeconds + 301
)

// passes bounds at which pass of a place the relay dies: as often as it comes
// by in a life.
var passes = map[string]int{
	failpoint.Open: 1, failpoint.Register: 2, failpoint.Unregister: 7, failpoint.Remove: 12,
	failpoint.Sweep: 3, failpoint.Erased: 4, failpoint.Move: 6, failpoint.Checkpoint: 4, failpoint.Moved: 4,
	failpoint.Begin: 60, failpoint.Decided: 60, failpoint.Committed: 60, failpoint.Written: 30, failpoint.Synced: 30,
	failpoint.Decide: 120, failpoint.Answered: 120, failpoint.Enqueue: 60,
}

// segments are some lengths of the packet log's, of which a packet of the
// longest kind fills the first ones.
var segments = []int64{16 << 10, 64 << 10, 64 << 10, 512 << 10}

// plan draws the next life.
func (r *round) plan(random *rand.Rand) plan {
	p := plan{
		answers: 1 + random.Int64N(160),
		after:   time.Duration(random.IntN(3000)) * time.Microsecond,
		sweep:   []time.Duration{5 * time.Millisecond, 40 * time.Millisecond, time.Minute}[random.IntN(3)],
		segment: segments[random.IntN(len(segments))],
		replace: -1,
		signal:  syscall.SIGKILL,
	}
	if random.IntN(40) == 0 {
		p.forward = []int64{day, day, day, week}[random.IntN(4)]
		p.sweep = 5 * time.Millisecond
	}
	if random.IntN(10) == 0 {
		p.answers, p.after = 0, time.Duration(random.IntN(30))*time.Millisecond
	}
	if random.IntN(30) == 0 {
		p.replace = random.IntN(len(r.agents))
	}
	switch n := random.IntN(40); {
	case n < 2:
		return quiet(p)
	case n < 20:
		return p
	case n == 20:
		p.place, p.pass = []string{failpoint.SyncError, failpoint.PacketSyncError}[random.IntN(2)], 1+random.IntN(40)
		p.answers, p.after = 200, 0
		return p
	}
	p.place = failpoint.Places()[random.IntN(len(failpoint.Places()))]
	if p.forward > 0 && random.IntN(2) == 0 {
		p.place = failpoint.Sweep
	}
	if p.place == failpoint.Erased {
		p.sweep = 5 * time.Millisecond // erases at once
	}
	p.pass = 1 + random.IntN(passes[p.place])
	p.answers, p.after = 200, 0
	return p
}

// quiet returns p for a life in which the relay gets time to erase.
func quiet(p plan) plan {
	p.quiet, p.answers, p.after, p.sweep = true, compared, 0, 5*time.Millisecond
	return p
}

// last is the life that ends a round: it goes on until everything was compared.
func last() plan {
	return plan{answers: compared, sweep: time.Minute, segment: segments[0], replace: -1, signal: syscall.SIGTERM}
}

// failing reports whether the disk fails, in place of the relay.
func (p plan) failing() bool {
	return p.place == failpoint.SyncError || p.place == failpoint.PacketSyncError
}

func (p plan) environment(ahead int64) []string {
	env := []string{
		"ACE_FAILPOINT_SWEEP=" + p.sweep.String(), "ACE_FAILPOINT_CLOCK=" + strconv.FormatInt(ahead, 10),
		"ACE_FAILPOINT_SEGMENT=" + strconv.FormatInt(p.segment, 10),
	}
	if p.place != "" {
		env = append(env, fmt.Sprintf("ACE_FAILPOINT=%s:%d", p.place, p.pass))
	}
	return env
}

// live runs the n-th life of the relay under load until its end.
func (r *round) live(n int, p plan) {
	r.prepare(p)
	relay, err := r.place.start(p.environment(r.ahead)...)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := &life{
		round: r, relay: relay, plan: p, client: newClient(r.place), ctx: ctx, mortal: p.place != "" || p.signal != syscall.SIGKILL,
		source: func(worker int) *rand.Rand { return rand.New(rand.NewPCG(r.seed, uint64(n)<<8|uint64(worker))) },
	}
	if p.answers == 0 && p.place == "" {
		l.endAfter(p.after)
	}
	longest := patience
	if p.answers == compared {
		longest *= 6
	}
	end := l.endAfter(longest)
	var workers sync.WaitGroup
	if relay.waitReady(ctx) {
		r.made = true
		l.work(&workers)
	}
	<-relay.dead
	end.Stop()
	cancel()
	workers.Wait()
	l.client.close()
	r.judge(l, p)
	r.verify(n, p)
}

// prepare changes what can only change while the relay is down.
func (r *round) prepare(p plan) {
	if p.replace >= 0 {
		r.former = append(r.former, r.agents[p.replace])
		r.agents[p.replace] = r.newAgent()
	}
	if p.forward == 0 {
		return
	}
	r.ahead += p.forward
	for _, a := range r.agents {
		a.expire(r.now())
		a.spent = nil
		a.wake.unclear = true // it may have expired
	}
	for _, a := range r.former {
		a.expire(r.now())
	}
	r.former = slices.DeleteFunc(r.former, func(a *agent) bool { return a.size() == 0 })
}

// endAfter kills the relay in a while.
func (l *life) endAfter(d time.Duration) *time.Timer {
	return time.AfterFunc(d, func() { l.relay.kill(l.plan.signal) })
}

func (l *life) work(workers *sync.WaitGroup) {
	if l.plan.quiet {
		workers.Go(l.settle)
		return
	}
	for i, a := range l.agents {
		workers.Go(func() { (&owner{life: l, agent: a, random: l.source(2 * i)}).run() })
		workers.Go(func() { l.listener(l.source(2*i+1), a) })
	}
	for i := range sendersInRound {
		workers.Go(func() { l.sender(l.source(100+i), l.agents) })
	}
}

// judge looks at how a life ended.
func (r *round) judge(l *life, p plan) {
	relay := l.relay
	if p.failing() && !relay.killed() {
		r.judgeFailure(relay, p.place)
		return
	}
	if line := complaint(relay.stderr.String()); line != "" {
		r.findings.add(service, "the relay complained: %s", line)
	}
	if p.signal == syscall.SIGTERM {
		if !relay.state.Success() {
			r.findings.add(service, "the relay ended with %s after SIGTERM\n%s", relay.state, relay.stderr)
		}
		if int(l.audits.Load()) != len(r.agents) {
			r.findings.add(service, "%d of %d agents were compared at the end", l.audits.Load(), len(r.agents))
		}
		return
	}
	if !relay.killed() {
		r.findings.add(service, "the relay ended by itself: %s\n%s", relay.state, relay.stderr)
		return
	}
	if p.quiet && int(l.audits.Load()) != len(r.agents) {
		r.findings.add(service, "%d of %d agents were compared in a quiet life\n%s", l.audits.Load(), len(r.agents), relay.stderr)
	}
	where := p.place
	if relay.dying.Load() {
		where = ""
	}
	r.died[where]++
	r.audited += int(l.audits.Load())
}

// judgeFailure looks at the end of a relay whose disk failed.
func (r *round) judgeFailure(relay *relay, place string) {
	if status := relay.state.ExitCode(); status != exitStorage {
		r.findings.add(service, "the relay ended with %s after a failed fsync, want status %d\n%s", relay.state, exitStorage, relay.stderr)
		return
	}
	r.died[place]++
}

// failed reports what a round has found so far.
func (r *round) failed(n int) bool {
	found := r.findings.all()
	for _, text := range found {
		r.t.Errorf("life %d: %s", n, text)
	}
	if len(found) > 0 {
		r.t.Errorf("the round can be repeated with -seed %d", r.seed)
	}
	return len(found) > 0 || r.t.Failed()
}

// checkPlaces fails when a long round never died at one of the places: it has
// gone from the code, and the round tests less than it says.
func (r *round) checkPlaces() {
	const long = 1000
	if *kills < long {
		return
	}
	for _, name := range failpoint.Places() {
		if r.died[name] == 0 {
			r.t.Errorf("the relay never died at %q", name)
		}
	}
}

func (r *round) summary(kills int, took time.Duration) string {
	var places []string
	for _, name := range slices.Sorted(maps.Keys(r.died)) {
		where := name
		if name == "" {
			where = "at random"
		}
		places = append(places, fmt.Sprintf("%s %d", where, r.died[name]))
	}
	c := &r.count
	return fmt.Sprintf("%d kills, %d acknowledged sends, %d lost, %d out of order, %d back\n"+
		"in %s with seed %d: %d whole comparisons after a restart, %d reads of a queue, %d events of streams, %d acknowledgements, %d replays, %d sends repeated, %d registrations, %d checks of the store, %d of what is erased, %d wakes\n"+
		"killed: %s",
		kills, c.sends.Load(), r.findings.of(lost), r.findings.of(outOfOrder), r.findings.of(back),
		took.Round(time.Second), r.seed, r.audited, c.scans.Load(), c.events.Load(), c.acks.Load(), c.replays.Load(), c.resends.Load(), c.registrations.Load(), c.verified.Load(), c.settled.Load(), c.wakes.Load(),
		strings.Join(places, ", "))
}
