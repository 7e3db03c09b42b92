package loadgen

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// fsyncMetric counts how often the relay waited for its disk.
const fsyncMetric = "ace_relay_store_fsync_seconds_count"

const (
	metricTimeout = 2 * time.Second
	maxMetrics    = 1 << 20 // bytes of the page
)

// metric returns a number without labels from GET /metrics, or -1: a relay need
// not have any, and its operator may have moved them elsewhere.
func (l *Load) metric(ctx context.Context, name string) float64 {
	ctx, cancel := context.WithTimeout(ctx, metricTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.target.url+"/metrics", nil)
	if err != nil {
		return -1
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxMetrics))
	for resp.StatusCode == http.StatusOK && lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), name+" ")
		if !ok {
			continue
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil && v >= 0 {
			return v
		}
	}
	return -1
}
