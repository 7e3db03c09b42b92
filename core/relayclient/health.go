package relayclient

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// Health is what a relay says of itself to anybody.
type Health struct {
	Date int64 // Unix seconds of the answer's Date header, 0 without one that can be read
}

// Health asks a relay, without saying who asks, whether it serves. The answer to
// GET /health is the operator's own (07#operations), and a relay may keep that
// route elsewhere: that it knows no such route is an answer as good as any. The
// date is valid also beside an error. Codes: invalid_argument, blocked_address,
// and those of 07#client-rules, relay_unavailable for a relay that drains.
func (c *Client) Health(ctx context.Context, relay string) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	pool, err := c.pool(relay)
	if err != nil {
		return Health{}, err
	}
	const path = "/health"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, relay+path, nil)
	if err != nil {
		return Health{}, fault.Wrap(fault.InvalidArgument, err)
	}
	req.Header.Set("User-Agent", "ace")
	begin := time.Now()
	e := Exchange{Method: http.MethodGet, Relay: relay, Path: path}
	h, status, err := readHealth(pool.Do(req))
	if c.trace != nil {
		e.Status, e.Err, e.Took = status, err, time.Since(begin)
		c.trace(e)
	}
	return h, err
}

func readHealth(res *http.Response, err error) (h Health, status int, failed error) {
	if err != nil {
		return h, 0, unavailable(err)
	}
	defer res.Body.Close()
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		h.Date = at.Unix()
	}
	if res.StatusCode == http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxShortBody)) // so that the connection is kept
		return h, res.StatusCode, nil
	}
	refused := refusal(res)
	if refused.Status == http.StatusNotFound && refused.Remote == string(relayapi.NotFound) {
		return h, res.StatusCode, nil
	}
	return h, res.StatusCode, refused
}
