package relayclient

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// What GET /health answers is the operator's own (07#operations): a relay that
// keeps the route elsewhere serves all the same, and one that drains does not.
func TestHealth(t *testing.T) {
	at := time.Unix(now, 0).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		name, date, body string
		status           int
		want             int64
		code             fault.Code
	}{
		{"serves", at, `{"status":"ok"}`, 200, now, ""},
		{"keeps it elsewhere", at, `{"error":"not_found"}`, 404, now, ""},
		{"drains", at, `{"status":"draining"}`, 503, now, fault.RelayUnavailable},
		{"is no relay", at, `not found`, 404, now, fault.RelayRejected},
		{"redirects", at, ``, 302, now, fault.RelayProtocolError},
		{"has no clock", "yesterday", `{}`, 200, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			relay := newRelay(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", c.date)
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			var told []Exchange
			client := New(Config{URLs: wire.Development, Configured: []string{relay.URL}, Trace: func(e Exchange) { told = append(told, e) }})
			defer client.Close()
			h, err := client.Health(t.Context(), relay.URL)
			if h.Date != c.want || fault.CodeOf(err) != c.code {
				t.Errorf("date %d and code %q, want %d and %q", h.Date, fault.CodeOf(err), c.want, c.code)
			}
			if seen := relay.seen(); len(seen) != 1 || seen[0].uri != "/health" || seen[0].header.Get("X-ACE-Id") != "" {
				t.Errorf("requests %+v", seen)
			}
			if len(told) != 1 || told[0].Status != c.status || !errors.Is(told[0].Err, err) {
				t.Errorf("traced %+v", told)
			}
		})
	}
}
