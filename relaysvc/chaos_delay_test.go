package relaysvc

import (
	"context"
	"testing"
	"time"
)

// A delay keeps nobody waiting whose client is gone, nor a relay that drains.
func TestChaosDelayEnds(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	draining := newHub(1, 1)
	draining.drain(0)
	for name, c := range map[string]struct {
		ctx context.Context
		hub *hub
	}{
		"the client is gone": {gone, newHub(1, 1)},
		"the relay drains":   {t.Context(), draining},
	} {
		f := &faults{Chaos: Chaos{Delay: MaxChaosDelay, Seed: 43}, server: &Server{hub: c.hub}}
		d := f.dice(diceOfSends, 1)
		if wait := f.dice(diceOfSends, 1).Float64() * MaxChaosDelay.Seconds(); wait < 25 {
			t.Fatalf("the dice say %v s, too short to tell", wait)
		}
		ended := make(chan struct{})
		go func() {
			f.pause(c.ctx, d)
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Errorf("%s and the delay goes on", name)
			<-ended
		}
	}
}
