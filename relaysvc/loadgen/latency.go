package loadgen

import (
	"maps"
	"slices"
	"time"
)

// Latency is the distribution of how long operations took.
type Latency struct {
	P50, P90, P99, P999, Max time.Duration
}

// latencyOf sorts its argument.
func latencyOf(all []time.Duration) Latency {
	if len(all) == 0 {
		return Latency{}
	}
	slices.Sort(all)
	at := func(perMille int) time.Duration { return all[(len(all)*perMille-1)/1000] }
	return Latency{P50: at(500), P90: at(900), P99: at(990), P999: at(999), Max: all[len(all)-1]}
}

// collect adds up what the clients counted, the most frequent error first.
func collect(tallies []tally) *Result {
	var latencies []time.Duration
	counts := map[string]int64{}
	for _, t := range tallies {
		latencies = append(latencies, t.latencies...)
		for code, n := range t.errors {
			counts[code] += n
		}
	}
	r := &Result{Accepted: int64(len(latencies)), Latency: latencyOf(latencies), Errors: []ErrorCount{}}
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		r.Errors = append(r.Errors, ErrorCount{code, counts[code]})
	}
	slices.SortStableFunc(r.Errors, func(a, b ErrorCount) int { return int(b.Count - a.Count) })
	return r
}
