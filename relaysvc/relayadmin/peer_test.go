package relayadmin

import "testing"

func TestWhoMayAsk(t *testing.T) {
	for _, c := range []struct {
		uid, own int
		want     bool
	}{
		{1000, 1000, true}, {0, 1000, true}, {0, 0, true}, {1001, 1000, false}, {1000, 0, false}, {-1, 1000, false}, {-1, 0, false},
	} {
		if got := mayAsk(c.uid, c.own); got != c.want {
			t.Errorf("user %d of a relay of user %d: %v", c.uid, c.own, got)
		}
	}
}
