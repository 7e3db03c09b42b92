package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ace-toolkit/ace/core"
)

// inboxEntry is a received message in a list. Handling is null for one that is
// handled, and for one that nothing has tried to handle.
type inboxEntry struct {
	messageAnswer
	Handling *handlingAnswer `json:"handling"`
}

// handlingAnswer is what came of handing a message to a handler.
type handlingAnswer struct {
	Attempts int `json:"attempts"`
	Failures int `json:"failures"`
	// Running says that an attempt is under way, or was cut off with its process.
	Running bool `json:"running"`
	// LastExit is the status of the last failure, 128 and its number for a signal,
	// null before there is one; Reason says it in words.
	LastExit      *int    `json:"last_exit"`
	Reason        *string `json:"reason"`
	LastAttemptAt int64   `json:"last_attempt_at"`
	NextAttemptAt *int64  `json:"next_attempt_at"` // null while one is under way, and for none
	GivenUp       bool    `json:"given_up"`
}

func newHandlingAnswer(h core.Handling) *handlingAnswer {
	r := &handlingAnswer{
		Attempts: h.Attempts, Failures: h.Failures, Running: h.Running, LastAttemptAt: h.StartedAt, GivenUp: h.GivenUp, Reason: orNull(h.LastError),
	}
	if h.Failures > 0 {
		r.LastExit = &h.LastExit
	}
	if !h.Running && !h.GivenUp {
		r.NextAttemptAt = &h.NextAttemptAt
	}
	return r
}

// next tells people when the next attempt is.
func (r *handlingAnswer) next(p *page) string {
	switch {
	case r == nil:
		return "-"
	case r.GivenUp:
		return "given up"
	case r.Running:
		return "under way"
	}
	return p.timeOr(r.NextAttemptAt)
}

// listed adds to messages what came of handing them on.
func (s *session) listed(ctx context.Context, messages []core.Message) (inboxList, error) {
	attempts, err := s.Handlings(ctx)
	if err != nil {
		return nil, err
	}
	of := map[[2]string]*handlingAnswer{}
	for _, h := range attempts {
		of[[2]string{h.From, h.MessageID}] = newHandlingAnswer(h)
	}
	list := inboxList{}
	for _, m := range messages {
		list = append(list, inboxEntry{newMessageAnswer(m), of[[2]string{m.From, m.MessageID}]})
	}
	return list, nil
}

type inboxList []inboxEntry

func (r inboxList) text(p *page) {
	p.head("MESSAGE", "FROM", "RECEIVED", "STATE", "", "TEXT")
	for _, m := range r {
		mark := "new"
		if m.Read {
			mark = ""
		}
		p.row(p.messageID(m.MessageID), p.peer(m.From, m.PeerName), p.time(m.ReceivedAt), m.State, mark, m.shown(p))
	}
}

// shown is what was written, as the last column of a line.
func (m inboxEntry) shown(p *page) string {
	if m.Damaged {
		return damaged
	}
	return p.quote(m.preview())
}

// unhandledList is a list for who looks after a handler.
type unhandledList struct{ inboxList }

func (r unhandledList) MarshalJSON() ([]byte, error) { return json.Marshal(r.inboxList) }

func (r unhandledList) text(p *page) {
	p.head("MESSAGE", "FROM", "RECEIVED", "ATTEMPTS", "LAST FAILURE", "NEXT", "TEXT")
	for _, m := range r.inboxList {
		attempts, failure := "0", "-"
		if h := m.Handling; h != nil {
			attempts, failure = fmt.Sprint(h.Attempts), orDash(h.Reason)
		}
		p.row(p.messageID(m.MessageID), p.peer(m.From, m.PeerName), p.time(m.ReceivedAt), attempts, failure, m.Handling.next(p), m.shown(p))
	}
}
