package relaysvc

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestLoansAreRecalled waits for memory that clients hold: those who have had
// their time lose it, as many as it takes and no one else.
func TestLoansAreRecalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const unit = 1 << 20
		m := newMemory(8*unit, 5*time.Second)
		ended := map[string]int{}
		lend := func(name string) (back func()) {
			if !m.try(unit) {
				t.Fatal("no memory")
			}
			back = m.lend(unit, func() {
				ended[name]++
				go m.give(unit) // as its owner does when the client is gone
			})
			return back
		}
		for _, name := range []string{"first", "second", "third", "fourth"} {
			lend(name)
		}
		done := lend("done")
		time.Sleep(5 * time.Second)
		done()
		fresh := lend("fresh")
		if len(ended) > 0 {
			t.Fatal("a loan was ended, and nobody waits")
		}
		// Two are left, which are for small buffers.
		for _, size := range []int64{unit, 2 * unit} {
			if !m.take(t.Context(), size, time.Second) {
				t.Fatalf("did not get %d", size)
			}
		}
		if len(ended) != 3 || ended["done"]+ended["fresh"] > 0 {
			t.Fatalf("ended: %v", ended)
		}
		// One more goes at once, and the last when it has had its time.
		for range 2 {
			if !m.take(t.Context(), unit, 6*time.Second) {
				t.Fatal("nothing for who has patience")
			}
		}
		for name, n := range ended {
			if n != 1 || name == "done" || len(ended) != 5 {
				t.Fatalf("ended: %v", ended)
			}
		}
		fresh()
		if m.take(t.Context(), unit, 6*time.Second) {
			t.Fatal("took what others use")
		}
		if back := m.lend(int64(sizes[0]), func() {}); len(m.lent) > 0 {
			t.Fatal("a small buffer is noted")
		} else {
			back()
		}
	})
}
