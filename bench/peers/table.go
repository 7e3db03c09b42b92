package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ace-toolkit/ace/relaysvc/loadgen"
)

// table collects the rounds of everything that is measured.
type table struct {
	options *options
	skipped []string
	verify  []float64 // CPU seconds of one verification, by round
	sends   map[string]map[int]*sends
	names   []string // of the systems, in the order of the first round
	streams []float64
	opened  int                  // streams
	values  map[string][]float64 // of the Go benchmarks, by row
}

// sends are the rounds of one system with one number of clients.
type sends struct {
	perSecond, p50, p99 []float64 // a second, and milliseconds
	cpu                 []float64 // seconds of the relay for one send
	errors              int64
}

func newTable(o *options) *table {
	return &table{options: o, sends: map[string]map[int]*sends{}, values: map[string][]float64{}}
}

func (t *table) addVerify(seconds float64) { t.verify = append(t.verify, seconds) }

func (t *table) addSend(system string, r *loadgen.Result) {
	if t.sends[system] == nil {
		t.sends[system] = map[int]*sends{}
		t.names = append(t.names, system)
	}
	s := t.sends[system][r.Clients]
	if s == nil {
		s = &sends{}
		t.sends[system][r.Clients] = s
	}
	s.perSecond = append(s.perSecond, r.PerSecond())
	s.p50 = append(s.p50, millis(r.Latency.P50))
	s.p99 = append(s.p99, millis(r.Latency.P99))
	if r.ProcessCPU >= 0 {
		s.cpu = append(s.cpu, r.ProcessCPU/float64(r.Accepted))
	}
	for _, e := range r.Errors {
		s.errors += e.Count
	}
}

func (t *table) addStream(opened int, size int64) {
	t.opened, t.streams = opened, append(t.streams, float64(size)/1024)
}

func (t *table) addBenchmark(row string, values []float64) { t.values[row] = values }

// goal is one row with what it has to reach: at least, or at most.
type goal struct {
	What  string  `json:"what"`
	Value float64 `json:"value"` // median over the rounds
	Low   float64 `json:"low"`   // least and greatest round
	High  float64 `json:"high"`
	Must  float64 `json:"must"`
	Bold  float64 `json:"bold"`
	Least bool    `json:"at_least"` // or else at most
	Met   string  `json:"met"`      // bold, must or no
}

func newGoal(what string, rounds []float64, least bool, must, bold float64) goal {
	g := goal{What: what, Value: median(rounds), Low: slices.Min(rounds), High: slices.Max(rounds), Must: must, Bold: bold, Least: least, Met: "no"}
	reaches := func(bound float64) bool { return least && g.Value >= bound || !least && g.Value <= bound }
	switch {
	case reaches(bold):
		g.Met = "bold"
	case reaches(must):
		g.Met = "must"
	}
	return g
}

// goalClients is the number of clients that the goals are about.
const goalClients = 32

func (t *table) goals() (all []goal) {
	ours := t.sends["relay"][goalClients]
	for _, peer := range []struct {
		system, what string
		must, bold   float64
	}{
		{"postgres", "accepted/s ÷ PostgreSQL commits/s", 1.3, 2},
		{"redis", "accepted/s ÷ Redis, appendfsync always", 0.5, 0.9},
		{"nats", "accepted/s ÷ NATS JetStream, sync always", 2, 3},
	} {
		if theirs := t.sends[peer.system][goalClients]; ours != nil && theirs != nil {
			all = append(all, newGoal(peer.what, ratios(ours.perSecond, theirs.perSecond), true, peer.must, peer.bold))
		}
	}
	if theirs := t.sends["postgres"][goalClients]; ours != nil && theirs != nil {
		all = append(all, newGoal("p99 ÷ PostgreSQL p99", ratios(ours.p99, theirs.p99), false, 0.5, 0.2))
	}
	if ours != nil && len(ours.cpu) > 0 {
		all = append(all, newGoal("CPU of a send ÷ one verification", ratios(ours.cpu, t.verify), false, 4.5, 3))
	}
	if v := t.values[rowBytes]; v != nil {
		all = append(all, newGoal("KB allocated for a send of 14 KB", scaled(v, 1e-3), false, 6, 3))
	}
	if t.streams != nil {
		all = append(all, newGoal(fmt.Sprintf("KiB of an idle stream, of %d", t.opened), t.streams, false, 36, 16))
	}
	if v := t.values[rowPage]; v != nil {
		all = append(all, newGoal(fmt.Sprintf("inbox page, %d queued ÷ empty store", t.options.queued), v, false, 1.5, 1.2))
	}
	return all
}

// print writes the table as text.
func (t *table) print(w io.Writer) error {
	o := t.options
	fmt.Fprintf(w, "%s, %d processors, %s/%s, %s; %d rounds of %v, medians\n", time.Now().Format(time.DateOnly),
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), o.rounds, o.measured)
	if o.peerBody != o.body {
		fmt.Fprintf(w, "a send has %d bytes, a message of the others %d\n", o.body, o.peerBody)
	} else {
		fmt.Fprintf(w, "a send, and a message of the others, has %d bytes\n", o.body)
	}
	for _, s := range t.skipped {
		fmt.Fprintf(w, "left out: %s\n", s)
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	t.printSends(tw)
	if goals := t.goals(); len(goals) > 0 {
		fmt.Fprintf(tw, "\ngoals, %d clients\tmedian\trounds\tmust\tbold\tmet\n", goalClients)
		for _, g := range goals {
			sign := "≤"
			if g.Least {
				sign = "≥"
			}
			fmt.Fprintf(tw, "%s\t%.2f\t%.2f–%.2f\t%s %g\t%s %g\t%s\n", g.What, g.Value, g.Low, g.High, sign, g.Must, sign, g.Bold, g.Met)
		}
	}
	return tw.Flush()
}

func (t *table) printSends(w io.Writer) {
	if len(t.names) == 0 {
		return
	}
	head, columns := "\naccepted/s (p50, p99 in ms)", ""
	for _, n := range t.options.clients {
		columns += fmt.Sprintf("\t%d clients", n)
	}
	fmt.Fprintln(w, head+columns)
	for _, name := range t.names {
		line := name
		for _, n := range t.options.clients {
			s := t.sends[name][n]
			if s == nil { // the run was ended before
				line += "\t-"
				continue
			}
			line += fmt.Sprintf("\t%.0f (%.1f, %.1f)", median(s.perSecond), median(s.p50), median(s.p99))
			if s.errors > 0 {
				line += fmt.Sprintf(" %d refused", s.errors)
			}
		}
		fmt.Fprintln(w, line)
	}
	if ours := t.sends["relay"]; ours != nil {
		line := "relay, CPU µs for a send"
		for _, n := range t.options.clients {
			if s := ours[n]; s != nil && len(s.cpu) > 0 {
				line += fmt.Sprintf("\t%.0f", median(s.cpu)*1e6)
			}
		}
		fmt.Fprintln(w, line)
		fmt.Fprintf(w, "one verification, CPU µs\t%.1f\n", median(t.verify)*1e6)
	}
}

// sendsJSON is one system with one number of clients.
type sendsJSON struct {
	System       string    `json:"system"`
	Clients      int       `json:"clients"`
	PerSecond    float64   `json:"accepted_per_second"`
	P50          float64   `json:"p50_ms"`
	P99          float64   `json:"p99_ms"`
	CPU          *float64  `json:"cpu_us_per_send"` // of the relay, else null
	Errors       int64     `json:"errors"`
	AllPerSecond []float64 `json:"rounds_accepted_per_second"`
	AllP99       []float64 `json:"rounds_p99_ms"`
}

func (t *table) printJSON(w io.Writer) error {
	doc := struct {
		Date       string      `json:"date"`
		Processors int         `json:"processors"`
		System     string      `json:"system"`
		Go         string      `json:"go"`
		Rounds     int         `json:"rounds"`
		Seconds    float64     `json:"seconds"`
		Body       int         `json:"body_bytes"`
		PeerBody   int         `json:"peer_body_bytes"`
		VerifyUS   *float64    `json:"verify_cpu_us"`
		Skipped    []string    `json:"left_out"`
		Sends      []sendsJSON `json:"sends"`
		Goals      []goal      `json:"goals"`
	}{
		Date: time.Now().Format(time.DateOnly), Processors: runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH, Go: strings.TrimPrefix(runtime.Version(), "go"),
		Rounds: t.options.rounds, Seconds: t.options.measured.Seconds(), Body: t.options.body, PeerBody: t.options.peerBody,
		Skipped: append([]string{}, t.skipped...), Sends: []sendsJSON{}, Goals: append([]goal{}, t.goals()...),
	}
	if len(t.verify) > 0 {
		us := median(t.verify) * 1e6
		doc.VerifyUS = &us
	}
	for _, name := range t.names {
		for _, n := range t.options.clients {
			s := t.sends[name][n]
			if s == nil {
				continue
			}
			row := sendsJSON{
				System: name, Clients: n, PerSecond: median(s.perSecond), P50: median(s.p50), P99: median(s.p99),
				Errors: s.errors, AllPerSecond: s.perSecond, AllP99: s.p99,
			}
			if len(s.cpu) > 0 {
				us := median(s.cpu) * 1e6
				row.CPU = &us
			}
			doc.Sends = append(doc.Sends, row)
		}
	}
	return json.NewEncoder(w).Encode(doc)
}

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// ratios divides round by round.
func ratios(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
	}
	return out
}

func scaled(values []float64, by float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * by
	}
	return out
}
