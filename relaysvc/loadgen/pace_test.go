package loadgen

import (
	"context"
	"math"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
)

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pace := Pace{Clients: 2, Duration: time.Second, Warmup: 100 * time.Millisecond}
		r, err := Run(t.Context(), pace, func(int) func() error {
			return func() error {
				time.Sleep(30 * time.Millisecond)
				return nil
			}
		})
		must(t, err)
		// Operations begin at 0, 30, 60, …: those that begin from 120 on and
		// end by 1100 are measured.
		if r.Accepted != 2*32 || r.Seconds != 1 || r.Latency.P50 != 30*time.Millisecond || r.Latency.Max != 30*time.Millisecond {
			t.Errorf("%+v", r)
		}
	})
}

func TestOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, stalled := time.Now(), false
		pace := Pace{Clients: 1, Duration: time.Second, Rate: 10}
		r, err := Run(t.Context(), pace, func(int) func() error {
			return func() error {
				if time.Since(begin) >= 500*time.Millisecond && !stalled {
					stalled = true
					time.Sleep(350 * time.Millisecond)
				}
				return nil
			}
		})
		must(t, err)
		// The one due at 500 ms ends at 850, and so do those due at 600, 700
		// and 800: they counted from when they were due.
		if r.Accepted != 10 || r.Latency.Max != 350*time.Millisecond || r.Latency.P90 != 250*time.Millisecond || r.Latency.P50 != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestOpenLoopSharesItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, first := time.Now(), make([]time.Duration, 4)
		calls := make([]int, 4)
		r, err := Run(t.Context(), Pace{Clients: 4, Duration: time.Second, Rate: 40}, func(i int) func() error {
			return func() error {
				if calls[i]++; calls[i] == 1 {
					first[i] = time.Since(begin)
				}
				return nil
			}
		})
		must(t, err)
		if r.Accepted != 40 || first[0] != 0 || first[3] != 75*time.Millisecond || calls[3] != 10 {
			t.Errorf("%+v %v %v", r, first, calls)
		}
	})
}

func TestCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), Pace{Clients: 3, Duration: MaxDuration, Count: 100}, func(int) func() error {
			return func() error {
				time.Sleep(time.Millisecond)
				return nil
			}
		})
		must(t, err)
		if r.Accepted != 100 || r.Seconds != 0.034 {
			t.Errorf("%+v", r)
		}
	})
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		refused := &fault.Error{Code: fault.RelayUnavailable, Remote: "rate_limited", Status: 429}
		outcomes := []error{nil, refused, context.Canceled, refused, fault.New(fault.RelayProtocolError, "x"), nil, errDone}
		r, err := Run(t.Context(), Pace{Clients: 1, Duration: MaxDuration}, func(int) func() error {
			return func() error {
				n++
				return outcomes[n-1]
			}
		})
		must(t, err)
		got := errorsOf(r.Errors)
		if r.Accepted != 2 || len(got) != 3 || got["rate_limited"] != 2 || got["relay_protocol_error"] != 1 || got["failed"] != 1 || r.Errors[0].Code != "rate_limited" {
			t.Errorf("%+v", r)
		}
	})
}

// TestGivingUp bounds what a client tries whose every operation fails.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Run(t.Context(), Pace{Clients: 1, Duration: MaxDuration}, func(int) func() error {
			return func() error { return fault.New(fault.RelayUnavailable, "x") }
		})
		must(t, err)
		if r.Accepted != 0 || errorsOf(r.Errors)["relay_unavailable"] != maxFailures {
			t.Errorf("%+v", r)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r, err := Run(ctx, Pace{Clients: 1, Duration: MaxDuration, Rate: 1}, func(int) func() error {
			return func() error { return nil }
		})
		must(t, err)
		if r.Accepted != 1 || r.Seconds != 0.1 {
			t.Errorf("%+v", r)
		}
	})
}

// TestCutOff does not count what fails because the run was ended.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		r, err := Run(ctx, Pace{Clients: 2, Duration: MaxDuration}, func(int) func() error {
			return func() error {
				<-ctx.Done()
				return fault.New(fault.RelayUnavailable, "cut off")
			}
		})
		must(t, err)
		if r.Accepted != 0 || len(r.Errors) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestPaceBounds(t *testing.T) {
	good := Pace{Clients: 1, Duration: time.Second}
	for name, change := range map[string]func(*Pace){
		"no clients":        func(p *Pace) { p.Clients = 0 },
		"too many clients":  func(p *Pace) { p.Clients = MaxClients + 1 },
		"no duration":       func(p *Pace) { p.Duration = 0 },
		"too long":          func(p *Pace) { p.Duration = MaxDuration + 1 },
		"negative warm-up":  func(p *Pace) { p.Warmup = -1 },
		"negative count":    func(p *Pace) { p.Count = -1 },
		"too great a count": func(p *Pace) { p.Count = MaxCount + 1 },
		"negative rate":     func(p *Pace) { p.Rate = -1 },
		"no rate":           func(p *Pace) { p.Rate = math.NaN() },
	} {
		t.Run(name, func(t *testing.T) {
			p := good
			change(&p)
			_, err := Run(t.Context(), p, func(int) func() error { return func() error { return errDone } })
			wantCode(t, err, fault.InvalidArgument)
		})
	}
}

func TestLatency(t *testing.T) {
	var all []time.Duration
	for i := range 1000 {
		all = append(all, time.Duration(1000-i))
	}
	if got, want := latencyOf(all), (Latency{P50: 500, P90: 900, P99: 990, P999: 999, Max: 1000}); got != want {
		t.Errorf("%+v", got)
	}
	if got, want := latencyOf([]time.Duration{7}), (Latency{7, 7, 7, 7, 7}); got != want {
		t.Errorf("%+v", got)
	}
	if got := latencyOf(nil); got != (Latency{}) {
		t.Errorf("%+v", got)
	}
}

func TestProcess(t *testing.T) {
	if ownCPU() <= 0 {
		t.Error("this process took no time")
	}
	if processCPU(0) != -1 || residentBytes(-1) != -1 {
		t.Error("a process that there is not has used something")
	}
	if runtime.GOOS != "linux" {
		t.Skip("no /proc")
	}
	if processCPU(os.Getpid()) < 0 || residentBytes(os.Getpid()) < 1<<20 {
		t.Error("this process is not found")
	}
}
