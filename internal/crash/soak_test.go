package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

var minutes = flag.Float64("minutes", 0, "how long the soak goes on, at least once through all that happens in it; 0 is once through some of that")

// TestSoak is the life of two people who write to each other, steadily, through
// one relay, each with a listener that runs: what happens to computers in months
// happens to theirs in minutes. The relay ends and is killed, so are the
// listeners, signing keys and roots are replaced, and once the state of one of
// them is lost, all with the commands that people have. In the end every message
// is delivered and settled by its receipt, none is shown twice, and none is lost
// that the chapters do not give up (see soak_check_test.go).
//
//	make soak MINUTES=10
//
// A soak that fails leaves its folder and says how to look into it.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := newSoak(t)
	s.begin()
	s.goOn(s.acts)
	s.settle()
	s.check()
}

// soak is one of them.
type soak struct {
	t       *testing.T
	seed    uint64
	dir     string
	log     *os.File
	place   place
	relay   *relay
	lives   int // of the relay
	sides   [2]*side
	lost    *loss         // nil as long as nothing is
	pace    time.Duration // between two messages of one, at least
	nudged  int           // how many of its messages a side attempts again at a time
	faults  string        // of the relay, "" for none
	handled bool          // both have a handler, one of each kind
	counts  map[string]int

	senders sync.WaitGroup
	stop    chan struct{} // closed when no more is to be sent
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	dir, err := os.MkdirTemp("", "ace-soak-")
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{t: t, seed: *seed, dir: dir, place: newPlace(t, program(t)), pace: 200 * time.Millisecond, nudged: 32, counts: map[string]int{}, stop: make(chan struct{})}
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano()) | 1
	}
	t.Cleanup(s.leave)
	s.place.dir = s.folder("relay")
	if s.log, err = os.Create(filepath.Join(dir, "soak.log")); err == nil {
		err = os.WriteFile(s.place.config(), nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.say("seed %d", s.seed)
	return s
}

func (s *soak) folder(name string) string {
	path := filepath.Join(s.dir, name)
	if err := os.Mkdir(path, 0o700); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// say writes a line of the story.
func (s *soak) say(format string, args ...any) {
	line := time.Now().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	_, _ = fmt.Fprintln(s.log, line)
	if testing.Verbose() {
		fmt.Println(line)
	}
}

// leave ends what runs and removes the folder, unless there is something to see.
func (s *soak) leave() {
	s.quiet()
	for _, side := range s.sides {
		if side != nil && side.listener != nil {
			side.listener.end(syscall.SIGKILL)
		}
	}
	if s.relay != nil {
		s.relay.kill(syscall.SIGKILL)
	}
	_ = s.log.Close()
	if !s.t.Failed() {
		os.RemoveAll(s.dir)
		return
	}
	s.t.Logf(`the soak of seed %d is left in %s:
  soak.log               what was done, and when
  NAME-listen-N.jsonl    what each listener of alice and bob said, relay-N.log the relay
  HOME=%s/alice XDG_RUNTIME_DIR=%s ace outbox list
                         and inbox list, contact list, quarantine list, identity log; the relay is down
  lost                   the state that was lost`, s.seed, s.dir, s.dir, s.place.dir)
}

// quiet lets nobody send any more.
func (s *soak) quiet() {
	select {
	case <-s.stop:
	default:
		close(s.stop)
	}
	s.senders.Wait()
}

// begin starts the relay, and makes two identities that have admitted each
// other, listen and send.
func (s *soak) begin() {
	s.serve()
	alice, bob := s.newSide("alice"), s.newSide("bob")
	alice.init("--accept", "text") // closed to strangers
	bob.init("--handle", "bob", "--contact", "open", "--accept", "text")
	alice.id, bob.id = alice.aceID(), bob.aceID()
	alice.peer, bob.peer = bob, alice
	alice.must("connect", bob.id)
	bob.must("pull")
	alice.must("pull")
	for i, x := range s.sides {
		if s.handled {
			x.handle(i == 1)
		}
		x.start()
		s.senders.Go(x.send)
	}
	s.heal("the beginning")
}

func (s *soak) newSide(name string) *side {
	dir := s.folder(name)
	x := &side{
		home: &home{t: s.t, p: s.place, dir: dir, env: []string{"HOME=" + dir, "XDG_RUNTIME_DIR=" + s.place.dir}},
		soak: s, name: name,
	}
	if s.sides[0] == nil {
		s.sides[0] = x
	} else {
		s.sides[1] = x
	}
	return x
}

// serve starts the relay.
func (s *soak) serve() {
	s.t.Helper()
	if s.place.chaos = s.faults; s.faults != "" {
		s.place.chaos = fmt.Sprintf("%s,seed=%d", s.faults, s.seed>>32+uint64(s.lives))
	}
	r, err := s.place.start()
	if err != nil {
		s.t.Fatal(err)
	}
	s.relay = r
	select {
	case <-r.ready:
	case <-r.dead:
		s.t.Fatalf("the relay ended: %s", r.stderr)
	case <-time.After(patience):
		s.t.Fatalf("no ready line: %s", r.stderr)
	}
}

// act is something that happens to them.
type act struct {
	name string
	do   func()
}

// goOn does what happens, once around or until the time is over.
func (s *soak) goOn(acts func(n int) []act) {
	s.t.Helper()
	random := rand.New(rand.NewPCG(s.seed, 0))
	until := time.Now().Add(time.Duration(*minutes * float64(time.Minute)))
	for n := 0; n == 0 || time.Now().Before(until); n++ {
		list := acts(n)
		if *minutes > 0 {
			random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
		for i, a := range list {
			if n > 0 && !time.Now().Before(until) {
				break
			}
			s.do(fmt.Sprintf("%d.%d %s", n, i, a.name), a.do)
		}
	}
}

// acts are those of the n-th time around.
func (s *soak) acts(n int) (acts []act) {
	add := func(name string, do func()) { acts = append(acts, act{name, do}) }
	if *minutes == 0 {
		add("alice delegates", func() { s.sides[0].changeKeys("delegate") })
		add("bob loses his state", func() { s.lose(s.sides[1]) })
		add("bob's listener is killed", func() { s.sides[1].restart(syscall.SIGKILL) })
		add("the relay is killed", func() { s.again(syscall.SIGKILL) })
		return acts
	}
	acts = s.ends()
	for _, x := range s.sides {
		acts = append(acts, x.changesOfKeys()...)
	}
	if n == 0 {
		add("the state of one is lost", func() { s.lose(s.sides[s.seed%2]) })
	}
	return acts
}

// ends are the ends of each process that runs.
func (s *soak) ends() (acts []act) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		acts = append(acts, act{"the relay gets " + sig.String(), func() { s.again(sig) }})
		for _, x := range s.sides {
			acts = append(acts, act{x.name + "'s listener gets " + sig.String(), func() { x.restart(sig) }})
		}
	}
	return acts
}

func (x *side) changesOfKeys() []act {
	return []act{
		{x.name + " delegates", func() { x.changeKeys("delegate") }},
		{x.name + " rotates", func() { x.changeKeys("rotate", "--yes") }},
	}
}

// do does something, and lets some time pass in which they write.
func (s *soak) do(name string, f func()) {
	s.t.Helper()
	s.say("%s", name)
	f()
	s.counts["acts"]++
	time.Sleep(time.Second)
	if s.t.Failed() {
		s.t.FailNow()
	}
}

// again ends the relay and starts it again on its folder.
func (s *soak) again(sig syscall.Signal) {
	s.t.Helper()
	s.relay.kill(sig)
	if sig == syscall.SIGTERM && s.relay.state.ExitCode() != 0 {
		s.t.Errorf("the relay ended with %s: %s", s.relay.state, s.relay.stderr)
	}
	if line := complaint(s.relay.stderr.String()); line != "" {
		s.t.Errorf("the relay said: %s", line)
	}
	s.lives++
	_ = os.WriteFile(filepath.Join(s.dir, fmt.Sprintf("relay-%d.log", s.lives)), []byte(s.relay.stderr.String()), 0o600)
	s.serve()
}

// heal waits until each side has got the receipt for a message that it has
// queued from now on. What waits is attempted now and then, as people do who do
// not want to wait for an hour.
func (s *soak) heal(after string) {
	s.t.Helper()
	from := [2]int{s.sides[0].queuedSoFar(), s.sides[1].queuedSoFar()}
	s.await("a receipt each way after "+after, func() bool {
		return s.sides[0].deliveredSince(from[0]) && s.sides[1].deliveredSince(from[1])
	})
}

// await waits for f, and nudges both sides meanwhile.
func (s *soak) await(what string, f func() bool) {
	s.t.Helper()
	most := 5*time.Minute + time.Duration(*minutes/4*float64(time.Minute)) // also for what has piled up
	deadline := time.Now().Add(most)
	for n := 1; !f(); n++ {
		if time.Now().After(deadline) {
			s.say("gave up on %s", what)
			s.t.Fatalf("no %s within %s", what, most)
		}
		time.Sleep(300 * time.Millisecond)
		if n%10 == 0 {
			for _, x := range s.sides {
				x.nudge()
			}
		}
	}
	s.say("there is %s", what)
}

// settle lets nobody send any more, and waits until all is settled.
func (s *soak) settle() {
	s.t.Helper()
	s.quiet()
	s.await("an outcome of every message", func() bool { return s.sides[0].waiting() == "0" && s.sides[1].waiting() == "0" })
	for _, x := range s.sides {
		x.end(syscall.SIGINT)
	}
	for range 2 { // what came late, and then the receipts for it
		for _, x := range s.sides {
			x.must("pull")
		}
	}
	for _, x := range s.sides {
		if got := x.must("pull", "--jq", ".fetched"); got != "0" {
			s.t.Errorf("%s entries wait for %s at the relay", got, x.name)
		}
	}
}
