package span_test

import (
	"testing"
	"time"

	"github.com/ace-toolkit/ace/internal/span"
)

const day = 24 * time.Hour

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "0": 0, "-5s": -5 * time.Second,
		"7d": 7 * day, "0d": 0, "2w": 14 * day, "1w2d12h": 9*day + 12*time.Hour, "1d0.5s": day + time.Second/2,
		"36600d": 36600 * day,
	} {
		if got, err := span.Parse(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "d", "7", "-7d", "+7d", "1.5d", "7d-1h", "2d1w", "7dd", "7D", "1h7d", "36601d", "5229w", "99999999999999999999d", "7 d", "9999999h",
	} {
		if got, err := span.Parse(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestString(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", 90 * time.Second: "1m30s", 10 * time.Minute: "10m", 90 * time.Minute: "1h30m",
		time.Hour: "1h", 36 * time.Hour: "36h", day: "24h", 7 * day: "7d", time.Millisecond: "1ms",
	} {
		if got := span.String(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
		if back, err := span.Parse(span.String(d)); err != nil || back != d {
			t.Errorf("%d comes back as %d: %v", d, back, err)
		}
	}
}
