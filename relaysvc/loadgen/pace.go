package loadgen

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

// What a run may be asked for at most.
const (
	MaxClients  = 1024
	MaxDuration = time.Hour
	MaxCount    = 10_000_000
)

// Pace says how many clients work how hard, and for how long.
type Pace struct {
	Clients int // 1 to MaxClients
	// Duration is how long a run is measured, up to MaxDuration. Warmup comes
	// before it and is not measured.
	Duration, Warmup time.Duration
	// Count ends the run after so many measured operations. 0 is MaxCount.
	Count int64
	// Rate is the number of operations a second that all clients together
	// begin, whether or not earlier ones are answered in time. A late one
	// counts from when it was due. 0: each client begins its next operation
	// when the last one has been answered.
	Rate float64
	// PID is a process on this machine whose CPU time is measured as well,
	// or 0.
	PID int

	sample func() float64 // a number of the relay's that grows; nil: none
}

func (p *Pace) check() error {
	switch {
	case p.Clients < 1 || p.Clients > MaxClients:
		return fault.New(fault.InvalidArgument, "%d clients, outside [1, %d]", p.Clients, MaxClients)
	case p.Duration <= 0 || p.Duration > MaxDuration || p.Warmup < 0 || p.Warmup > MaxDuration:
		return fault.New(fault.InvalidArgument, "a duration of %v, outside (0, %v]", p.Duration, MaxDuration)
	case p.Count < 0 || p.Count > MaxCount:
		return fault.New(fault.InvalidArgument, "a count of %d, outside [0, %d]", p.Count, MaxCount)
	case !(p.Rate >= 0 && p.Rate <= MaxCount): // also what is no number
		return fault.New(fault.InvalidArgument, "a rate of %g a second, outside [0, %d]", p.Rate, MaxCount)
	}
	if p.Count == 0 {
		p.Count = MaxCount
	}
	return nil
}

// Result is what a run measured.
type Result struct {
	Clients  int
	Seconds  float64 // that were measured
	Accepted int64   // operations that succeeded
	Latency  Latency // of those
	Errors   []ErrorCount
	// OwnCPU is the processor time of this process in seconds, ProcessCPU that
	// of Pace.PID, or -1 when it is not known.
	OwnCPU, ProcessCPU float64
	// Fsyncs counts how often the relay waited for its disk, by its metrics,
	// or is -1 when they do not tell.
	Fsyncs int64
}

// PerSecond returns the operations that succeeded in a second.
func (r *Result) PerSecond() float64 { return float64(r.Accepted) / r.Seconds }

// ErrorCount counts the failures with one code.
type ErrorCount struct {
	Code  string `json:"code"`
	Count int64  `json:"count"`
}

// errDone is what an operation returns when its client has nothing left to do.
var errDone = errors.New("nothing left to do")

const (
	// failurePause keeps a client whose operations fail from measuring how
	// fast failures are.
	failurePause = 10 * time.Millisecond
	// maxFailures in a row end a client.
	maxFailures = 200
)

// Run lets the clients do their operations at the given pace and returns what
// it measured. The function work makes the operation of one client, which is
// called by one goroutine. A run ends early when ctx does, which is no error.
// Code: invalid_argument (the pace).
func Run(ctx context.Context, p Pace, work func(client int) func() error) (*Result, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	r := newRun(p)
	life := ctx
	ctx, stop := context.WithCancel(life)
	defer stop()
	var workers sync.WaitGroup
	tallies := make([]tally, p.Clients)
	for i := range p.Clients {
		operation := work(i)
		workers.Go(func() { tallies[i].work(ctx, life, r, i, operation) })
	}
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()

	waitFor(r.begin, done)
	before := p.take()
	// Taken when the time is over, not when the slowest operation is.
	waitFor(r.end, done)
	end, after := time.Now(), p.take()
	<-done
	result := collect(tallies)
	result.Clients = p.Clients
	result.Seconds = max(end.Sub(r.begin).Seconds(), 1e-9)
	result.OwnCPU = after.own - before.own
	result.ProcessCPU = grown(before.process, after.process)
	result.Fsyncs = int64(grown(before.sample, after.sample))
	return result, nil
}

// reading is what has grown to where at one moment; -1: not known.
type reading struct{ own, process, sample float64 }

func (p *Pace) take() reading {
	r := reading{own: ownCPU(), process: processCPU(p.PID), sample: -1}
	if p.sample != nil {
		r.sample = p.sample()
	}
	return r
}

func grown(before, after float64) float64 {
	if before < 0 || after < 0 {
		return -1
	}
	return after - before
}

// waitFor waits until a time, or until all clients are done.
func waitFor(until time.Time, done <-chan struct{}) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}

// run is what the clients of one run share.
type run struct {
	start, begin, end time.Time
	left              atomic.Int64  // measured operations that may still begin
	interval          time.Duration // between two of one client; 0: a closed loop
	stagger           time.Duration // between the first ones of two clients
}

func newRun(p Pace) *run {
	r := &run{start: time.Now()}
	r.begin = r.start.Add(p.Warmup)
	r.end = r.begin.Add(p.Duration)
	r.left.Store(p.Count)
	if p.Rate > 0 {
		r.stagger = time.Duration(float64(time.Second) / p.Rate)
		r.interval = time.Duration(float64(time.Second) * float64(p.Clients) / p.Rate)
	}
	return r
}

// tally is what one client counts. Its goroutine alone touches it.
type tally struct {
	latencies []time.Duration
	errors    map[string]int64
}

// work does operations until the run is over. They end with life, of which ctx
// hears a moment later.
func (t *tally) work(ctx, life context.Context, r *run, client int, operation func() error) {
	due, failures := time.Now(), 0
	if r.interval > 0 {
		due = r.start.Add(time.Duration(client) * r.stagger)
	}
	for failures < maxFailures && wait(ctx, due) && due.Before(r.end) {
		measured := !due.Before(r.begin)
		if measured && r.left.Add(-1) < 0 {
			return
		}
		err := operation()
		now := time.Now()
		switch {
		case errors.Is(err, errDone), err != nil && (ctx.Err() != nil || life.Err() != nil):
			return // what the end of ctx has cut off is no failure
		case err != nil:
			failures++
			t.fail(err, measured && !now.After(r.end))
			now = now.Add(failurePause)
		case measured && !now.After(r.end):
			failures = 0
			t.latencies = append(t.latencies, now.Sub(due))
		}
		if due = due.Add(r.interval); r.interval == 0 {
			due = now
		}
	}
}

func (t *tally) fail(err error, measured bool) {
	if !measured {
		return
	}
	if t.errors == nil {
		t.errors = map[string]int64{}
	}
	t.errors[codeOf(err)]++
}

// codeOf names a failure: what the relay said, else our own code.
func codeOf(err error) string {
	var e *fault.Error
	switch {
	case !errors.As(err, &e):
		return "failed"
	case e.Remote != "":
		return e.Remote
	}
	return string(e.Code)
}

// wait sleeps until a time and reports whether ctx goes on.
func wait(ctx context.Context, until time.Time) bool {
	d := time.Until(until)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
