package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/store"
)

// TestThreadsOfOthersMaking: a thread ID is text of whoever opened the thread,
// and two peers may choose the same.
func TestThreadsOfOthersMaking(t *testing.T) {
	s := newStage(t)
	s.must("init", "--yes", "--no-publish")
	peers := []string{"ace:sha256:" + strings.Repeat("a", 64), "ace:sha256:" + strings.Repeat("b", 64)}
	message := 0
	add := func(tx *store.Tx, peer, id string) error {
		message++
		row := store.Thread{Profile: profile.CommerceID, Peer: peer, ThreadID: id, State: string(commerce.Requested), Opener: peer, Entries: 1, HeadAt: 1}
		return tx.SaveThread(row, store.ThreadEntry{Type: commerce.RFQ, MessageID: fmt.Sprint("m", message), Timestamp: 1, Sender: peer})
	}
	const hostile = "\u202e]0;x"
	s.inStore("default", func(tx *store.Tx) error {
		for _, peer := range peers {
			if err := add(tx, peer, "same"); err != nil {
				return err
			}
		}
		return add(tx, peers[0], hostile)
	})

	for _, args := range [][]string{{"thread", "list"}, {"thread", "show", hostile}, {"thread", "list", "--json"}} {
		if out := s.must(args...); strings.Contains(out, hostile) || !strings.Contains(out, `\u202e]0;x`) {
			t.Errorf("%v: %q", args, out)
		}
	}
	if r := s.try("thread", "show", "same"); r.status != exitUsage || !strings.Contains(r.err, "--with") {
		t.Errorf("status %d: %s", r.status, r.err)
	}
	if got := s.must("thread", "show", "same", "--with", peers[1], "--jq", ".peer, .role, .my_turn, .history[0].by"); got != peers[1]+"\nseller\ntrue\nbuyer" {
		t.Errorf("shown %q", got)
	}
	if got := s.must("thread", "list", peers[1], "--jq", ".[].untrusted.thread_id"); got != "same" {
		t.Errorf("listed %q", got)
	}
}
