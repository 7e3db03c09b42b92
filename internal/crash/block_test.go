package crash

import (
	"strings"
	"testing"
)

// TestBlockKilled kills blocking a peer, while the relay is away, and the upkeep
// that registers the decision at every place (05#blocks): in the end the peer is
// blocked here and at the relay, and an answer that was lost is not taken for that
// of a later decision.
func TestBlockKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t, program(t))
	defer p.serve(t)()
	alice := newHome(t, p).init()
	bob := newHome(t, p).init("--handle", "bob", "--contact", "open", "--accept", "text")
	to, from := bob.aceID(), alice.aceID()
	alice.must("connect", to)
	bob.must("pull")
	alice.must("pull")
	kills := walk(t, func(int) ([]step, func(int)) {
		return []step{
				{bob, []string{"contact", "block", from, "--yes", "--relay", "http://127.0.0.1:1"}},
				{bob, []string{"maintain"}},
			}, func(int) {
				if got := bob.must("contact", "list", "--state", "blocked", "--jq", "length"); got != "1" {
					t.Errorf("%s peers are blocked", got)
				}
				got := bob.must("why", from, "--offline", "--jq", "[.receive[].code] | join(\" \")")
				if strings.Contains(got, "block_") {
					t.Errorf("the relay has not taken the decision: %s", got)
				}
				if got := alice.must("send", to, "x", "--jq", ".state"); got != "queued" {
					t.Errorf("a message of the blocked peer is %s", got)
				}
				bob.must("contact", "unblock", from)
			}
	})
	enough(t, kills, 12)
}
