package relaysvc

import (
	"testing"
	"time"
)

// TestDrainOr: what is not given is as configured, and streams are asked to
// reconnect within the time that there is.
func TestDrainOr(t *testing.T) {
	configured := Timeouts{Drain: 30 * time.Second, Spread: 10 * time.Second}
	at := func(d time.Duration) *time.Duration { return &d }
	for _, c := range []struct {
		drain         Drain
		total, spread time.Duration
	}{
		{Drain{}, 30 * time.Second, 10 * time.Second},
		{Drain{Deadline: at(5 * time.Second)}, 5 * time.Second, 5 * time.Second},
		{Drain{Spread: at(time.Second)}, 30 * time.Second, time.Second},
		{Drain{Deadline: at(time.Second), Spread: at(time.Minute)}, time.Second, time.Second},
		{Drain{Deadline: at(-1), Spread: at(-1)}, 0, 0},
	} {
		if got := c.drain.or(configured); got.Drain != c.total || got.Spread != c.spread {
			t.Errorf("%+v: %v, %v", c.drain, got.Drain, got.Spread)
		}
	}
}
