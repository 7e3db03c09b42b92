package relayadmin

import (
	"testing"
	"time"
)

// TestDrainBounds: what the client sends is what the relay does.
func TestDrainBounds(t *testing.T) {
	deadline, spread := 90*time.Second, 1500*time.Millisecond
	both := drainRequest{inSeconds(&deadline), inSeconds(&spread)}.bounds()
	if *both.Deadline != deadline || *both.Spread != spread {
		t.Errorf("%v, %v", *both.Deadline, *both.Spread)
	}
	if none := (drainRequest{}).bounds(); none.Deadline != nil || none.Spread != nil {
		t.Errorf("%+v", none)
	}
}
