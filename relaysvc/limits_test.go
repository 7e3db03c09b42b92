package relaysvc

import (
	"fmt"
	"testing"
)

// TestLimiterKeepsCounts fills the limiter: what is over goes first, and never
// all of the rest.
func TestLimiterKeepsCounts(t *testing.T) {
	const most = 64
	l := newLimiter()
	for n := range most {
		at := int64(1000)
		if n < most/2 {
			at = 2000
		}
		if err := l.allow(fmt.Sprint(n), 10, at); err != nil {
			t.Fatal(err)
		}
	}
	l.makeRoom(most, 2001)
	if len(l.buckets) != most/2 {
		t.Fatalf("%d counts, want those that are not over", len(l.buckets))
	}
	l.makeRoom(most/2, 2001)
	if n := len(l.buckets); n != most/2-most/16 {
		t.Fatalf("%d counts", n)
	}
}

// TestLimiterAfterAClockSetBack uses a count up an hour ahead: it comes back at
// its rate, not an hour later.
func TestLimiterAfterAClockSetBack(t *testing.T) {
	l := newLimiter()
	if err := l.allow("x", 1, 5000); err != nil {
		t.Fatal(err)
	}
	if err := l.allow("x", 1, 1400); err == nil {
		t.Fatal("the count was forgotten")
	}
	if err := l.allow("x", 1, 1460); err != nil {
		t.Fatal(err)
	}
}
