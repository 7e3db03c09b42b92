package sim

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// share says which worlds a process plays: every of-th, from the n-th. Chance is
// the same for a whole process, so that worlds are played side by side in
// processes of their own.
var share = flag.String("share", "", "for TestSim's own use: n/of, the part of the worlds that this process plays")

// parallelSeeds is from how many worlds on they are shared out.
const parallelSeeds = 200

// news is what a process that plays a share tells from time to time, as a line
// of its output.
type news struct {
	Worlds int // since the last time
	Tally  tally
}

const newsPrefix = "sim news "

func parseShare(t *testing.T) (n, of uint64) {
	t.Helper()
	if *share == "" {
		return 0, 1
	}
	if _, err := fmt.Sscanf(*share, "%d/%d", &n, &of); err != nil || of == 0 {
		t.Fatalf("-share %q: %v", *share, err)
	}
	return n, of
}

// tellEvery is how often a share tells its news, and sayEvery how often the
// whole says how far it is.
const (
	tellEvery = 5 * time.Second
	sayEvery  = time.Minute
)

// teller tells the news of a share.
type teller struct {
	news
	last time.Time
}

func (r *teller) add(w *world) {
	r.Tally.add(w)
	r.Worlds++
	if time.Since(r.last) > tellEvery {
		r.tell()
	}
}

func (r *teller) tell() {
	if line, err := json.Marshal(r.news); err == nil && *share != "" {
		fmt.Println(newsPrefix + string(line))
		r.Worlds, r.Tally = 0, tally{}
	}
	r.last = time.Now()
}

// playShared plays worlds in as many processes as there are cores, and says each
// minute how far they are.
func playShared(t *testing.T, first uint64, count int) tally {
	p := &progress{t: t, count: count, began: time.Now(), said: time.Now(), total: tally{}}
	var shares sync.WaitGroup
	of := runtime.GOMAXPROCS(0)
	for n := range of {
		shares.Go(func() { p.run(n, of, first) })
	}
	shares.Wait()
	p.say()
	return p.total
}

// progress gathers the news of all shares.
type progress struct {
	t     *testing.T
	count int
	began time.Time

	mu    sync.Mutex
	said  time.Time // guarded by mu, as what follows
	done  int
	total tally
}

func (p *progress) run(n, of int, first uint64) {
	again := exec.Command(os.Args[0], "-test.run", "TestSim$", "-test.timeout", "0",
		"-share", fmt.Sprintf("%d/%d", n, of), "-seed", strconv.FormatUint(first, 10), "-seeds", strconv.Itoa(p.count),
		"-failures", strconv.Itoa(*failures), "-reduce="+strconv.FormatBool(*reduce))
	again.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := again.StdoutPipe()
	if err == nil {
		again.Stderr = again.Stdout
		err = again.Start()
	}
	if err != nil {
		p.t.Errorf("share %d: %v", n, err)
		return
	}
	p.read(out)
	if err := again.Wait(); err != nil {
		p.t.Errorf("share %d: %v, for what it has said above", n, err)
	}
}

// read takes the news out of what a share says and passes on the rest at once.
func (p *progress) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		told, ok := strings.CutPrefix(line, newsPrefix)
		switch {
		case ok:
			p.take(told)
		case strings.TrimSpace(line) != "PASS":
			fmt.Fprint(os.Stderr, line)
		}
		if err != nil {
			return
		}
	}
}

func (p *progress) take(line string) {
	var n news
	if err := json.Unmarshal([]byte(line), &n); err != nil {
		p.t.Errorf("%v in %q", err, line)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n.Worlds
	for what, times := range n.Tally {
		p.total[what] += times
	}
	if time.Since(p.said) > sayEvery {
		p.saying()
	}
}

func (p *progress) say() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saying()
}

// saying says how far it is. The caller holds mu.
func (p *progress) saying() {
	p.said = time.Now()
	taken := p.said.Sub(p.began)
	fmt.Fprintf(os.Stderr, "%s: %d of %d worlds, %.1f a second\n", taken.Round(time.Second), p.done, p.count, float64(p.done)/taken.Seconds())
}
