package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/profile/commerce"
)

func newThreadCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "thread", Short: "Show how far your trades are"},
		newThreadListCmd(a), newThreadShowCmd(a))
}

func newThreadListCmd(a *app) *cobra.Command {
	var failEmpty bool
	c := &cobra.Command{
		Use:               "list [PEER] [--fail-empty]",
		ValidArgsFunction: a.complete(1, peerValues),
		Short:             "List the threads of the commerce profile",
		Long: `List the threads of the commerce profile, the one that changed last at the end. One
that your rfq opens is idle until its receipt comes. A thread that ended is kept
for 30 days.`,
	}
	c.Flags().BoolVar(&failEmpty, "fail-empty", false, "exit with 3 when there is none")
	return a.leaf(c, 0, 1, []any{threadList{}}, func(ctx context.Context, args []string) error {
		return runThreadList(ctx, a, args, failEmpty)
	})
}

func newThreadShowCmd(a *app) *cobra.Command {
	var peer string
	c := &cobra.Command{
		Use:               "show THREAD [--with PEER]",
		ValidArgsFunction: a.complete(1, threadValues),
		Short:             "Show a thread: its state, what comes next, its history",
		Example: `  ace thread show 3f1c2a90-5b6d-4c1e-8f2a-0d9e7b6a5c43
  ace thread show order-7 --with bob --jq '.next[] | select(.by == "seller").type'`,
	}
	c.Flags().StringVar(&peer, "with", "", "`PEER` of the thread, where several have one of that name")
	a.completeOption(c, "with", peerValues)
	return a.leaf(c, 1, 1, []any{threadDetail{}}, func(ctx context.Context, args []string) error {
		return runThreadShow(ctx, a, args[0], peer)
	})
}

// threadAnswer is one thread. Next lists the messages that its state takes; it is
// my turn when one of them is mine and none of mine is under way.
type threadAnswer struct {
	Peer      string       `json:"peer"`
	PeerName  *string      `json:"peer_name"`
	State     string       `json:"state"`
	Role      string       `json:"role"`
	MyTurn    bool         `json:"my_turn"`
	Next      []threadNext `json:"next"`
	Pending   *string      `json:"pending_message_id"`
	Entries   int          `json:"entries"`
	UpdatedAt int64        `json:"updated_at"`
	// Untrusted has the name of the thread, as whoever opened it chose it.
	Untrusted threadUntrusted `json:"untrusted"`
}

type threadUntrusted struct {
	ThreadID string `json:"thread_id"`
}

// threadNext is a message that a thread takes, by whom, and where it leads.
type threadNext struct {
	Type string `json:"type"`
	By   string `json:"by"`
	To   string `json:"to"`
}

func newThreadAnswer(t core.Thread) threadAnswer {
	r := threadAnswer{
		Untrusted: threadUntrusted{t.ThreadID}, Peer: t.Peer, PeerName: orNull(t.PeerName), State: string(t.State), Role: string(t.Role),
		MyTurn: t.MyTurn(), Next: []threadNext{}, Pending: orNull(t.Pending), Entries: t.Entries, UpdatedAt: t.UpdatedAt,
	}
	for _, m := range t.Next {
		r.Next = append(r.Next, threadNext{Type: m.Type, By: string(m.By), To: string(m.To)})
	}
	return r
}

// names returns the short names of the messages that come from a role.
func (r threadAnswer) names(of string) string {
	var names []string
	for _, n := range r.Next {
		if n.By == of {
			names = append(names, shortType(n.Type))
		}
	}
	return strings.Join(names, ", ")
}

func (r threadAnswer) otherRole() string {
	if r.Role == string(commerce.Buyer) {
		return string(commerce.Seller)
	}
	return string(commerce.Buyer)
}

// turn says in words whose turn it is.
func (r threadAnswer) turn(p *page) string {
	mine, theirs := r.names(r.Role), r.names(r.otherRole())
	switch {
	case r.Pending != nil:
		return "waits for the receipt of " + p.messageID(*r.Pending)
	case mine == "" && theirs == "":
		return "over"
	case theirs == "":
		return "you: " + mine
	case mine == "":
		return "they: " + theirs
	}
	return fmt.Sprintf("you: %s; they: %s", mine, theirs)
}

type threadList []threadAnswer

func (r threadList) text(p *page) {
	p.head("THREAD", "WITH", "YOU", "STATE", "NEXT", "CHANGED")
	for _, t := range r {
		p.row(clean(t.Untrusted.ThreadID, false), p.peer(t.Peer, t.PeerName), t.Role, t.State, t.turn(p), p.time(t.UpdatedAt))
	}
}

func runThreadList(ctx context.Context, a *app, args []string, failEmpty bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	var peer string
	if len(args) > 0 {
		if peer, err = s.peer(ctx, args[0]); err != nil {
			return err
		}
	}
	threads, err := s.Threads(ctx, peer)
	if err != nil {
		return err
	}
	answer := threadList{}
	for _, t := range threads {
		answer = append(answer, newThreadAnswer(t))
	}
	return a.printList(answer, len(answer), failEmpty)
}

// threadDetail is a thread with its history, oldest message first.
type threadDetail struct {
	threadAnswer
	History []threadEntry `json:"history"`
}

// threadEntry is an accepted message of a thread. Its time is the one that it is
// signed with or, for your own, the one that it was queued at.
type threadEntry struct {
	Type      string `json:"type"`
	MessageID string `json:"message_id"`
	From      string `json:"from"`
	By        string `json:"by"`
	SentAt    int64  `json:"sent_at"`
}

func (r threadDetail) text(p *page) {
	p.row("thread", clean(r.Untrusted.ThreadID, false))
	p.row("with", p.peerFull(r.Peer, r.PeerName))
	p.row("you", r.Role)
	p.row("state", r.State)
	p.row("next", r.turn(p))
	for _, e := range r.History {
		p.row(e.By, shortType(e.Type), p.messageID(e.MessageID), p.time(e.SentAt))
	}
}

func runThreadShow(ctx context.Context, a *app, threadID, peer string) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if peer, err = s.threadPeer(ctx, threadID, peer); err != nil {
		return err
	}
	t, history, err := s.Thread(ctx, peer, threadID)
	if err != nil {
		return err
	}
	answer := threadDetail{threadAnswer: newThreadAnswer(t), History: []threadEntry{}}
	for _, e := range history {
		by := answer.Role
		if e.From == t.Peer {
			by = answer.otherRole()
		}
		answer.History = append(answer.History, threadEntry{Type: e.Type, MessageID: e.MessageID, From: e.From, By: by, SentAt: e.Timestamp})
	}
	return a.print(answer)
}

// threadPeer returns the peer that was given, or the only one with such a thread.
func (s *session) threadPeer(ctx context.Context, threadID, given string) (string, error) {
	if given != "" {
		return s.peer(ctx, given)
	}
	peers, err := s.ThreadPeers(ctx, threadID)
	switch {
	case err != nil:
		return "", err
	case len(peers) == 0:
		return "", hintf(fault.New(fault.InvalidArgument, "no thread %.80q", threadID), "ace thread list shows them")
	case len(peers) > 1:
		return "", hintf(usagef("%d peers have a thread %q", len(peers), threadID), "say which with --with PEER")
	}
	return peers[0], nil
}
