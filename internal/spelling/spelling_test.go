package spelling_test

import (
	"testing"

	"github.com/ace-toolkit/ace/internal/spelling"
)

func TestNearest(t *testing.T) {
	candidates := []string{"limits.streams", "timeout", "time", "relay"}
	for _, c := range []struct {
		word string
		most int
		want string
	}{
		{"timeout", 0, "timeout"},
		{"timout", 1, "timeout"},
		{"timout", 0, ""},
		{"tiem", 2, "time"},
		{"tiem", 1, ""},
		{"limits.strems", 2, "limits.streams"},
		{"rely", 2, "relay"},
		{"relax", 2, "relay"},
		{"xrelay", 2, "relay"},
		{"lime", 1, "time"},
		{"zzzz", 3, ""},
		{"timeo", 2, "time"}, // one edit away, where timeout is two
		{"", 3, ""},
	} {
		if got := spelling.Nearest(c.word, candidates, c.most); got != c.want {
			t.Errorf("%q within %d: %q, want %q", c.word, c.most, got, c.want)
		}
	}
	if got := spelling.Nearest("ab", []string{"ax", "xb"}, 1); got != "ax" {
		t.Errorf("of two that are as near, %q", got)
	}
	if got := spelling.Nearest("a", nil, 9); got != "" {
		t.Errorf("of none, %q", got)
	}
}
