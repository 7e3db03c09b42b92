package cli

import (
	"fmt"
	"time"

	"github.com/ace-toolkit/ace/relaysvc/loadgen"
)

// benchLatency is a distribution of times in microseconds.
type benchLatency struct {
	P50  int64 `json:"p50_us"`
	P90  int64 `json:"p90_us"`
	P99  int64 `json:"p99_us"`
	P999 int64 `json:"p999_us"`
	Max  int64 `json:"max_us"`
}

func newBenchLatency(l loadgen.Latency) benchLatency {
	return benchLatency{l.P50.Microseconds(), l.P90.Microseconds(), l.P99.Microseconds(), l.P999.Microseconds(), l.Max.Microseconds()}
}

func (l benchLatency) rows(p *page) {
	for _, row := range []struct {
		name string
		us   int64
	}{{"p50", l.P50}, {"p90", l.P90}, {"p99", l.P99}, {"p99.9", l.P999}, {"max", l.Max}} {
		p.row(row.name, (time.Duration(row.us) * time.Microsecond).String())
	}
}

// benchSendAnswer is the answer of ace relay bench send. What the relay uses is
// null when it is not known.
type benchSendAnswer struct {
	Relay      string               `json:"relay"`
	Own        bool                 `json:"own_relay"` // which the command ran itself
	Clients    int                  `json:"clients"`
	Recipients int                  `json:"recipients"`
	BodyBytes  int                  `json:"body_bytes"`
	Millis     int64                `json:"duration_ms"`
	Accepted   int64                `json:"accepted"`
	PerSecond  int64                `json:"accepted_per_second"`
	Bytes      int64                `json:"accepted_bytes"`
	Latency    benchLatency         `json:"latency"`
	Errors     []loadgen.ErrorCount `json:"errors"`
	RelayCPU   *int64               `json:"relay_cpu_us_per_send"`
	Fsyncs     *int64               `json:"relay_fsyncs"`
	OwnCPU     *int64               `json:"bench_cpu_us_per_send"`
}

func newBenchSendAnswer(o *relayBench, own bool, body int, r *loadgen.Result) benchSendAnswer {
	return benchSendAnswer{
		Relay: o.url, Own: own, Clients: r.Clients, Recipients: o.recipients, BodyBytes: body,
		Millis: int64(r.Seconds * 1000), Accepted: r.Accepted, PerSecond: int64(r.PerSecond()), Bytes: r.Accepted * int64(body),
		Latency: newBenchLatency(r.Latency), Errors: r.Errors,
		RelayCPU: perSend(r.ProcessCPU, r.Accepted), Fsyncs: known(r.Fsyncs), OwnCPU: perSend(r.OwnCPU, r.Accepted),
	}
}

func (r benchSendAnswer) text(p *page) {
	p.row("relay", r.Relay)
	p.row("clients", fmt.Sprint(r.Clients))
	p.row("recipients", fmt.Sprint(r.Recipients))
	p.row("body", count(r.BodyBytes, "byte"))
	p.row("accepted", fmt.Sprintf("%d in %v", r.Accepted, time.Duration(r.Millis)*time.Millisecond))
	p.row("accepted/s", fmt.Sprint(r.PerSecond))
	r.Latency.rows(p)
	p.row("errors", showErrors(r.Errors))
	p.row("relay CPU", cpuText(r.RelayCPU))
	if r.Fsyncs != nil {
		p.row("relay fsyncs", fmt.Sprint(*r.Fsyncs))
	}
	p.row("bench CPU", cpuText(r.OwnCPU))
}

// benchListenAnswer is the answer of ace relay bench listen.
type benchListenAnswer struct {
	Relay          string               `json:"relay"`
	Own            bool                 `json:"own_relay"`
	Streams        int                  `json:"streams"`
	Recipients     int                  `json:"recipients"`
	OpeningMillis  int64                `json:"opening_ms"`
	Millis         int64                `json:"duration_ms"`
	Accepted       int64                `json:"accepted"`
	Events         int64                `json:"events"`
	Missing        int64                `json:"events_missing"`
	Push           benchLatency         `json:"push_latency"`
	Errors         []loadgen.ErrorCount `json:"errors"`
	BytesPerStream *int64               `json:"relay_bytes_per_stream"`
	RelayCPU       *int64               `json:"relay_cpu_ms"`
}

func newBenchListenAnswer(o *relayBench, own bool, r *loadgen.ListenResult) benchListenAnswer {
	return benchListenAnswer{
		Relay: o.url, Own: own, Streams: r.Streams, Recipients: o.recipients,
		OpeningMillis: r.Opening.Milliseconds(), Millis: o.duration.Milliseconds(),
		Accepted: r.Sent, Events: r.Events, Missing: r.Missing, Push: newBenchLatency(r.Push), Errors: r.Errors,
		BytesPerStream: known(r.BytesPerStream), RelayCPU: known(int64(r.ProcessCPU * 1000)),
	}
}

func (r benchListenAnswer) text(p *page) {
	p.row("relay", r.Relay)
	p.row("streams", fmt.Sprintf("%d, opened in %v", r.Streams, time.Duration(r.OpeningMillis)*time.Millisecond))
	p.row("recipients", fmt.Sprint(r.Recipients))
	p.row("accepted", fmt.Sprintf("%d in %v", r.Accepted, time.Duration(r.Millis)*time.Millisecond))
	p.row("events", fmt.Sprintf("%d, %d missing", r.Events, r.Missing))
	if r.Events > 0 {
		r.Push.rows(p)
	}
	p.row("errors", showErrors(r.Errors))
	if r.BytesPerStream != nil {
		p.row("relay memory", fmt.Sprintf("%.1f KiB a stream", float64(*r.BytesPerStream)/1024))
	}
	if r.RelayCPU != nil {
		p.row("relay CPU", (time.Duration(*r.RelayCPU) * time.Millisecond).String())
	}
}

// perSend is CPU time in microseconds for one send, nil when it is not known.
func perSend(seconds float64, sends int64) *int64 {
	if seconds < 0 || sends == 0 {
		return nil
	}
	us := int64(seconds * 1e6 / float64(sends))
	return &us
}

func cpuText(us *int64) string {
	if us == nil {
		return "-"
	}
	return fmt.Sprintf("%d µs a send", *us)
}

// known returns nil for a negative number, which stands for one not known.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
