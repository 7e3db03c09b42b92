package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/internal/span"
)

type inboxOptions struct {
	unread, markRead, failEmpty      bool
	unhandled                        bool // unread, shown with what came of handing them on
	from, messageType, thread, since string
	limit                            int
}

func newInboxCmd(a *app) *cobra.Command {
	var o inboxOptions
	list := &cobra.Command{Use: "list [flags]", Short: "List the messages you have received, newest last", Long: inboxLong}
	o.addFlags(a, list)
	run := func(ctx context.Context, _ []string) error { return runInboxList(ctx, a, o) }
	c := &cobra.Command{Use: "inbox [flags]", Short: "List the messages you have received", Long: inboxLong}
	o.addFlags(a, c)
	c.AddCommand(a.leaf(list, 0, 0, []any{inboxList{}}, run))
	a.leaf(c, 0, 0, []any{inboxList{}}, run)
	listed := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a.command = cmd.CommandPath()
		if len(args) > 0 {
			return a.unknownCommand(cmd, args[0])
		}
		return listed(cmd, args)
	}
	return c
}

const inboxLong = `List the messages you have received, newest last. Listing fetches nothing (see
ace pull and ace listen) and changes nothing, unless --mark-read asks for it. All
of them are in the state received; what your policy has set aside is quarantined,
and ace quarantine shows it.`

func (o *inboxOptions) addFlags(a *app, c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.unread, "unread", false, "only messages that are not marked as read")
	f.BoolVar(&o.unhandled, "unhandled", false, "the same, with what came of handing them to a handler")
	f.StringVar(&o.from, "from", "", "only messages from this `PEER`")
	f.StringVar(&o.messageType, "type", "", "only messages of this `TYPE`")
	f.StringVar(&o.thread, "thread", "", "only messages of this `THREAD`")
	f.StringVar(&o.since, "since", "", "only messages received since this `TIME`: 2h, 7d, or an RFC 3339 time")
	f.IntVar(&o.limit, "limit", 0, "only the newest `N`, 0 for all")
	f.BoolVar(&o.markRead, "mark-read", false, "mark the listed messages as read")
	a.completeOption(c, "from", peerValues)
	a.completeOption(c, "thread", threadValues)
	f.BoolVar(&o.failEmpty, "fail-empty", false, "exit with 3 when there is none")
}

// messageAnswer is one received message.
type messageAnswer struct {
	MessageID  string  `json:"message_id"`
	From       string  `json:"from"`
	PeerName   *string `json:"peer_name"`
	Type       string  `json:"type"`
	State      string  `json:"state"`
	SentAt     int64   `json:"sent_at"`
	ReceivedAt int64   `json:"received_at"`
	Read       bool    `json:"read"`
	// Damaged says that the stored body does not open; it is null then.
	Damaged   bool          `json:"damaged"`
	Untrusted bodyUntrusted `json:"untrusted"`
}

type bodyUntrusted struct {
	ThreadID *string         `json:"thread_id"`
	Body     json.RawMessage `json:"body"`
}

func newMessageAnswer(m core.Message) messageAnswer {
	return messageAnswer{
		MessageID: m.MessageID, From: m.From, PeerName: orNull(m.PeerName), Type: m.Type, State: core.StateReceived,
		SentAt: m.SentAt, ReceivedAt: m.ReceivedAt, Read: m.Handled, Damaged: m.Damaged, Untrusted: bodyUntrusted{orNull(m.ThreadID), m.Body.Canonical()},
	}
}

// preview is the text of a message, or its body as JSON, unsafe to print as it
// is.
func (r messageAnswer) preview() string {
	v, err := wire.Parse(r.Untrusted.Body, wire.MaxJSONDepth)
	if err == nil && r.Type == profileText {
		return profile.TextOf(v)
	}
	return string(r.Untrusted.Body)
}

// damaged stands, without quotes, for what was written and does not open any more.
const damaged = "(damaged: does not open)"

func runInboxList(ctx context.Context, a *app, o inboxOptions) error {
	since, err := parseSince(o.since, a.io.Now())
	if err != nil {
		return err
	}
	if o.limit < 0 {
		return usagef("--limit is not negative")
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	from := o.from
	if from != "" {
		if from, err = s.peer(ctx, from); err != nil {
			return err
		}
	}
	messages, err := s.Inbox(ctx, core.InboxFilter{From: from, Type: o.messageType, ThreadID: o.thread, Unhandled: o.unread || o.unhandled, Since: since, Limit: o.limit})
	if err != nil {
		return err
	}
	list, err := s.listed(ctx, messages)
	if err != nil {
		return err
	}
	var answer result = list
	if o.unhandled {
		answer = unhandledList{list}
	}
	if err := a.printList(answer, len(list), o.failEmpty); err != nil {
		return err
	}
	if o.markRead {
		return s.markRead(ctx, messages)
	}
	return nil
}

func (s *session) markRead(ctx context.Context, messages []core.Message) error {
	for _, m := range messages {
		if err := s.MarkHandled(ctx, m.From, m.MessageID); err != nil {
			return err
		}
	}
	return nil
}

// parseSince reads a time, or how long ago it was.
func parseSince(text string, now int64) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if d, err := span.Parse(text); err == nil && d >= 0 {
		return now - int64(d/time.Second), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, usagef("--since is a duration like 2h or 7d, or an RFC 3339 time, not %q", text)
	}
	return t.Unix(), nil
}
