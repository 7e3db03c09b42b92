package relaysvc

import (
	"testing"
	"time"
)

// TestExposition spells out a page with a metric of each kind.
func TestExposition(t *testing.T) {
	var e exposition
	var c counter
	c.Inc()
	c.Add(2)
	e.counter("sends_total", "Sends.", &c)
	e.gauge("part", "A part.", 0.25)
	h := newHistogram(0.1, 1)
	for _, v := range []float64{0.05, 0.1, 0.5, 7} {
		h.Observe(v)
	}
	e.family("seconds", "histogram", "Seconds.").histogram(h, "route", "GET /x")
	const want = `# HELP ace_relay_sends_total Sends.
# TYPE ace_relay_sends_total counter
ace_relay_sends_total 3
# HELP ace_relay_part A part.
# TYPE ace_relay_part gauge
ace_relay_part 0.25
# HELP ace_relay_seconds Seconds.
# TYPE ace_relay_seconds histogram
ace_relay_seconds_bucket{route="GET /x",le="0.1"} 2
ace_relay_seconds_bucket{route="GET /x",le="1"} 3
ace_relay_seconds_bucket{route="GET /x",le="+Inf"} 4
ace_relay_seconds_sum{route="GET /x"} 7.65
ace_relay_seconds_count{route="GET /x"} 4
`
	if got := e.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestCountingAllocatesNothing uses the instruments as a hot path does.
func TestCountingAllocatesNothing(t *testing.T) {
	m := newMetrics(0)
	start := time.Now()
	if n := testing.AllocsPerRun(100, func() {
		m.sends[sendQueued].Inc()
		m.commit.Since(start)
		m.route("POST", "/v1/send").codes[codeOK].Inc()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
