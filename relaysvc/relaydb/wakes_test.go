package relaydb

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// TestUnwoken asks for those to wake among registrations that are not armed: by
// name, and for all.
func TestUnwoken(t *testing.T) {
	const now = int64(1000)
	for _, c := range []struct{ disarmed, armed int }{
		{0, 0}, {1, 0}, {1, 1}, {armedSample - 1, 1}, {armedSample, 0}, {armedSample, 1}, {armedSample + 1, 0}, {armedSample + 1, 2},
	} {
		d, ctx := newStore(t), context.Background()
		var all, want []string
		for n := range c.disarmed + c.armed {
			a := newActor(t, d, fmt.Sprintf("agent %03d", n))
			ok(t, a.register("n", "end", 10, 0), a.wake("token", 0, now), a.packet("one", now))
			if all = append(all, a.id); n < c.disarmed {
				continue
			}
			want = append(want, a.id)
		}
		ok(t, d.Disarm(ctx, all[:c.disarmed], now, 30))
		for what, ids := range map[string][]string{"all": nil, "each": all} {
			got, err := d.Unwoken(ctx, ids, now)
			ok(t, err)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%d disarmed and %d armed, asked for %s: %q", c.disarmed, c.armed, what, got)
			}
		}
	}
}
