package relaysvc

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// counter counts what happened since the relay started. Its zero value is
// ready, and counting allocates nothing.
type counter struct{ n atomic.Uint64 }

// Inc counts one more.
func (c *counter) Inc() { c.n.Add(1) }

// Add counts n more.
func (c *counter) Add(n uint64) { c.n.Add(n) }

func (c *counter) value() float64 { return float64(c.n.Load()) }

// histogram counts observations by size. Observing allocates nothing.
type histogram struct {
	bounds []float64       // upper bounds of the buckets, in ascending order
	counts []atomic.Uint64 // one more than bounds: the last has no bound
	sum    atomic.Uint64   // bits of a float64
}

func newHistogram(bounds ...float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

// Observe counts a value, in seconds where the name of the metric says so.
func (h *histogram) Observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)) {
			return
		}
	}
}

// Since observes the time that has passed since start.
func (h *histogram) Since(start time.Time) { h.Observe(time.Since(start).Seconds()) }

// exposition is a page in the text format of Prometheus, version 0.0.4.
type exposition struct{ strings.Builder }

// family begins the metrics of one name, which comes after ace_relay_.
func (e *exposition) family(name, kind, help string) series {
	name = metricPrefix + name
	e.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
	return series{e, name}
}

// gauge writes a metric of one value without labels.
func (e *exposition) gauge(name, help string, value float64) {
	e.family(name, "gauge", help).add(value)
}

// counter writes a counter without labels.
func (e *exposition) counter(name, help string, c *counter) {
	e.family(name, "counter", help).add(c.value())
}

// histogram writes a histogram without labels.
func (e *exposition) histogram(name, help string, h *histogram) {
	e.family(name, "histogram", help).histogram(h)
}

// series writes the values of one name.
type series struct {
	page *exposition
	name string
}

// add writes a value. Labels are names and values in turns, from the relay's
// own vocabulary: no value needs an escape, and none comes from a request.
func (s series) add(value float64, labels ...string) { s.write("", value, labels) }

func (s series) write(suffix string, value float64, labels []string) {
	s.page.WriteString(s.name + suffix)
	separator := "{"
	for i := 0; i < len(labels); i += 2 {
		s.page.WriteString(separator + labels[i] + `="` + labels[i+1] + `"`)
		separator = ","
	}
	if len(labels) > 0 {
		s.page.WriteString("}")
	}
	s.page.WriteString(" " + number(value) + "\n")
}

func (s series) histogram(h *histogram, labels ...string) {
	total := uint64(0)
	for i := range h.counts {
		total += h.counts[i].Load()
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = number(h.bounds[i])
		}
		s.write("_bucket", float64(total), append(labels[:len(labels):len(labels)], "le", bound))
	}
	s.write("_sum", math.Float64frombits(h.sum.Load()), labels)
	s.write("_count", float64(total), labels)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
