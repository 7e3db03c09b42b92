package relayclient

import "github.com/ace-toolkit/ace/core/fault"

const (
	maxBackoffSeconds = 30
	maxFailures       = 10
)

// Reconnect decides how listening goes on after a connection has ended: the
// reconnect rules of 07#client-rules, without clock or socket.
type Reconnect struct {
	since    string
	failures int // consecutive
}

// NewReconnect starts listening after since, "-" being the start.
func NewReconnect(since string) *Reconnect { return &Reconnect{since: since} }

// Since returns the ID of the last processed entry, or the start.
func (r *Reconnect) Since() string { return r.since }

// Processed records the ID of an entry that was processed.
func (r *Reconnect) Processed(id string) { r.since = id }

// Ending is how one connection ended, or failed to open.
type Ending struct {
	Progress   bool  // it delivered catchup, message or drain
	Drain      bool  // it delivered drain
	Clean      bool  // the relay ended it in order
	RetryAfter int64 // seconds the relay asked for, or 0
}

// Next returns the seconds to wait before reconnecting. After drain, or a clean
// end following progress, that is 0; otherwise 1, 2, 4 … 30, and at least what
// the relay asked for. Progress ends a run of failures, the failure of its own
// connection being the first of a new one. Code: relay_unavailable for the
// tenth failure in a row.
func (r *Reconnect) Next(e Ending) (delay int64, err error) {
	if e.Progress {
		r.failures = 0
	}
	if e.Drain || e.Clean && e.Progress {
		return 0, nil
	}
	r.failures++
	if r.failures >= maxFailures {
		return 0, fault.New(fault.RelayUnavailable, "%d connections in a row failed", r.failures)
	}
	delay = min(int64(1)<<(r.failures-1), maxBackoffSeconds)
	return max(delay, e.RetryAfter), nil
}
