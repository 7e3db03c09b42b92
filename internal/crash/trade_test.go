package crash

import (
	"fmt"
	"testing"
)

// TestTradeKilled kills the receiving of a commerce message, and of its receipt,
// at every place: in the end both sides have the same entry of the thread once,
// because the rule's commit is part of the transaction that takes the message or
// the receipt in (08#profile-rules, 06#receive-pipeline).
func TestTradeKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, program(t))
	defer p.serve(t)()
	alice := newHome(t, p).init("--profiles", "commerce")
	bob := newHome(t, p).init("--profiles", "commerce", "--contact", "open", "--accept", "commerce")
	id := bob.aceID()
	alice.must("connect", id, "--profile", "commerce")
	bob.must("pull")
	alice.must("pull")

	kills := walk(t, func(n int) ([]step, func(int)) {
		thread := fmt.Sprint("t", n)
		sent := alice.must("send", id, "--type", "rfq", "--thread", thread, "--set", "need=x", "--jq", ".message_id")
		return []step{{bob, []string{"pull"}}, {alice, []string{"pull"}}}, func(int) {
			for name, h := range map[string]*home{"buyer": alice, "seller": bob} {
				const summary = `"\(.state) \(.entries) \(.history[0].message_id) \(.pending_message_id)"`
				if got := h.must("thread", "show", thread, "--jq", summary); got != "requested 1 "+sent+" null" {
					t.Errorf("the %s has %s", name, got)
				}
			}
			if got := bob.must("inbox", "list", "--thread", thread, "--jq", "length"); got != "1" {
				t.Errorf("the message is %s times in the inbox", got)
			}
		}
	})
	enough(t, kills, 20)
}
