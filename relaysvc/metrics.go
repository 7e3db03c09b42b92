package relaysvc

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// metricPrefix begins the name of every metric.
const metricPrefix = "ace_relay_"

// mediaMetrics is the media type of GET /metrics.
const mediaMetrics = "text/plain; version=0.0.4; charset=utf-8"

// Results of a send, the label of ace_relay_send_total.
const (
	sendQueued = iota
	sendDuplicate
	sendNotPermitted
	sendInboxFull
	sendRateLimited
	sendInvalid
	sendFailed
	sendResults
)

var sendResult = [sendResults]string{"queued", "duplicate", "not_permitted", "inbox_full", "rate_limited", "invalid", "failed"}

// Kinds of event on a listen stream, the label of
// ace_relay_listen_events_total.
const (
	eventConnected = iota
	eventCatchup
	eventMessage
	eventDrain
	eventHeartbeat
	eventKinds
)

var eventKind = [eventKinds]string{"connected", "catchup", "message", "drain", "heartbeat"}

// Outcomes of a verified signature and of a wake.
const (
	outcomeOK = iota
	outcomeFailed
	outcomes
)

var outcome = [outcomes]string{"ok", "failed"}

// metrics counts what the relay does. The instruments may be used from any
// goroutine and never fail. No label carries an identity, a handle or an
// address: every value a label can take stands in this file, in the table of
// routes, or in that of 07#errors.
type metrics struct {
	started   int64                    // Unix seconds
	routes    map[string]*routeMetrics // by label; not changed after newMetrics
	sends     [sendResults]counter
	commit    *histogram // seconds from the decision to send until it is durable
	acks      counter    // accepted acknowledgements
	events    [eventKinds]counter
	lag       *histogram        // seconds from the queueing of an entry to its event
	verified  [outcomes]counter // signatures
	verify    *histogram        // seconds for one signature
	replays   counter
	skews     counter // requests refused for their timestamp
	wakes     [outcomes]counter
	decisions counter      // that the store made durable
	fsync     *histogram   // seconds for a group of them to reach the disk
	write     *histogram   // seconds for the whole transaction of that group
	kelEvents atomic.Int64 // of the longest KEL seen
	backedUp  atomic.Int64 // Unix seconds of the last good backup, 0 for none
	store     storeWatch
}

// routeMetrics are those of one route.
type routeMetrics struct {
	label   string
	codes   map[fault.Code]*counter // not changed after newMetrics
	seconds *histogram
}

// What stands beside the codes of 07#errors: success, and a client that hung up
// before it had its answer.
const (
	codeOK   fault.Code = "ok"
	codeGone fault.Code = "client_gone"
)

// labelOther is the route of a request that has none.
const labelOther = "other"

func newMetrics(now int64) *metrics {
	m := &metrics{
		started: now,
		routes:  map[string]*routeMetrics{},
		commit:  newHistogram(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5),
		lag:     newHistogram(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10),
		verify:  newHistogram(.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025),
		fsync:   newHistogram(.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1),
		write:   newHistogram(.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1),
	}
	labels := []string{labelOther}
	for _, table := range []map[string]route{routes, wakeRoutes, lookups, operations} {
		for key := range table {
			labels = append(labels, key)
		}
	}
	for _, label := range labels {
		m.routes[label] = newRouteMetrics(label)
	}
	return m
}

func newRouteMetrics(label string) *routeMetrics {
	r := &routeMetrics{
		label:   label,
		codes:   map[fault.Code]*counter{codeOK: {}, codeGone: {}},
		seconds: newHistogram(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10),
	}
	for code := range relayapi.Statuses() {
		r.codes[code] = &counter{}
	}
	return r
}

// route returns the instruments of the route of a request.
func (m *metrics) route(method, path string) *routeMetrics {
	if r, ok := m.routes[method+" "+path]; ok {
		return r
	}
	if r, ok := m.routes[method+" "+path[:strings.LastIndexByte(path, '/')+1]]; ok {
		return r
	}
	return m.routes[labelOther]
}

// refused counts what a refusal says about the relay as a whole.
func (m *metrics) refused(code fault.Code) {
	switch code {
	case relayapi.Replay:
		m.replays.Inc()
	case fault.StaleTimestamp:
		m.skews.Inc()
	}
}

// checked counts a check of a signature that began at start and ended with err.
// One that failed for another reason did not get as far as the signature.
func (m *metrics) checked(start time.Time, err error) {
	switch {
	case err == nil:
		m.verified[outcomeOK].Inc()
	case errors.Is(err, fault.InvalidSignature):
		m.verified[outcomeFailed].Inc()
	default:
		return
	}
	m.verify.Since(start)
}

// sendRefused counts a send that was not accepted.
func (m *metrics) sendRefused(code fault.Code) {
	result := sendInvalid
	switch code {
	case fault.NotPermitted:
		result = sendNotPermitted
	case relayapi.RecipientInboxFull:
		result = sendInboxFull
	case relayapi.RateLimited:
		result = sendRateLimited
	case relayapi.InternalError, codeGone:
		result = sendFailed
	}
	m.sends[result].Inc()
}

// serveMetrics is GET /metrics, which is the operator's (07#operations).
// Code: rate_limited (too many answers at the same time), where anybody can ask.
func (s *Server) serveMetrics(w http.ResponseWriter, r *request) error {
	if s.ops == nil {
		if !s.answers.take(r.Context(), metricsBytes, bodyPatience) {
			return errNoMemory
		}
		defer s.answers.give(metricsBytes)
		defer s.answers.lend(metricsBytes, func() { _ = http.NewResponseController(w).SetWriteDeadline(longAgo) })()
	}
	w.Header().Set("Content-Type", mediaMetrics)
	_, _ = w.Write([]byte(s.exposition(r.Context(), r.now)))
	return nil
}

// metricsBytes is what the page of GET /metrics takes at most.
const metricsBytes = 80 << 10

// exposition returns the page of GET /metrics.
func (s *Server) exposition(ctx context.Context, now int64) string {
	var e exposition
	s.metrics.writeRequests(&e)
	s.metrics.writeDelivery(&e)
	s.metrics.writeChecks(&e)
	s.writeStore(ctx, &e, now)
	s.writeDisk(&e)
	s.writeState(&e)
	return e.String()
}

func (m *metrics) writeRequests(e *exposition) {
	var all []*routeMetrics
	for _, r := range m.routes {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *routeMetrics) int { return strings.Compare(a.label, b.label) })
	requests := e.family("requests_total", "counter", "Requests by route and by code of the answer, ok for success.")
	for _, r := range all {
		for _, code := range sortedCodes(r.codes) {
			if n := r.codes[code].value(); n > 0 || code == codeOK {
				requests.add(n, "route", r.label, "code", string(code))
			}
		}
	}
	seconds := e.family("request_seconds", "histogram", "Time for a request by route, streams apart.")
	for _, r := range all {
		seconds.histogram(r.seconds, "route", r.label)
	}
}

func sortedCodes(codes map[fault.Code]*counter) []fault.Code {
	var all []fault.Code
	for code := range codes {
		all = append(all, code)
	}
	slices.Sort(all)
	return all
}

func (m *metrics) writeDelivery(e *exposition) {
	writeLabelled(e, "send_total", "Sends by result.", "result", sendResult[:], m.sends[:])
	e.histogram("send_commit_seconds", "Time for an accepted packet to become durable.", m.commit)
	e.counter("inbox_ack_total", "Accepted acknowledgements.", &m.acks)
	writeLabelled(e, "listen_events_total", "Events written to listen streams by kind.", "kind", eventKind[:], m.events[:])
	e.histogram("listen_lag_seconds", "Time from the queueing of an entry to its event on an open stream.", m.lag)
	writeLabelled(e, "wakes_total", "Wakes sent to gateways by result.", "result", outcome[:], m.wakes[:])
}

func (m *metrics) writeChecks(e *exposition) {
	writeLabelled(e, "sig_verify_total", "Verified signatures by result.", "result", outcome[:], m.verified[:])
	e.histogram("sig_verify_seconds", "Time to verify a signature.", m.verify)
	e.counter("replay_total", "Requests refused because their nonce was used before.", &m.replays)
	e.counter("clock_skew_rejects_total", "Requests refused because their timestamp is outside its window.", &m.skews)
}

func writeLabelled(e *exposition, name, help, label string, values []string, counters []counter) {
	f := e.family(name, "counter", help)
	for i, value := range values {
		f.add(counters[i].value(), label, value)
	}
}

// writeState writes what the process knows without asking anybody.
func (s *Server) writeState(e *exposition) {
	draining := 0.0
	if s.draining() {
		draining = 1
	}
	e.gauge("draining", "1 from the moment the relay was asked to end.", draining)
	e.gauge("listen_streams", "Open listen streams.", float64(s.hub.count()))
	e.gauge("listen_streams_limit", "Listen streams that may be open.", float64(s.limits().Streams))
	e.gauge("connections", "Open connections of the main listener.", float64(s.connections.count()))
	e.gauge("connections_limit", "Connections that may be open.", float64(s.connections.most()))
	e.family("build_info", "gauge", "Always 1; the labels say which program this is.").
		add(1, "version", buildVersion(), "go", runtime.Version())
	e.gauge("start_time_seconds", "Unix time at which the relay started.", float64(s.metrics.started))
}

// buildVersion returns the version of the program, from its build.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
