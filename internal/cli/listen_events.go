package cli

import (
	"fmt"

	"github.com/ace-toolkit/ace/core"
)

// The events of ace listen --json.
type (
	readyEvent struct {
		Event    string `json:"event"`
		Identity string `json:"identity"`
		Relay    string `json:"relay"`
		// Cursor is the stream ID of the last entry that an earlier listen or pull
		// processed, null for none.
		Cursor *string `json:"cursor"`
		// Backlog is how many entries wait at the relay, null when it has not told.
		// With more it is how many the first page has, and there may be others.
		Backlog *int `json:"backlog"`
		More    bool `json:"more"`
	}
	messageEvent struct {
		Event string `json:"event"`
		messageAnswer
		Duplicate bool `json:"duplicate"`
	}
	receiptEvent struct {
		Event     string  `json:"event"`
		MessageID string  `json:"message_id"`
		Outcome   string  `json:"outcome"`
		From      string  `json:"from"`
		Code      *string `json:"code"`
		At        int64   `json:"at"`
	}
	requestEvent struct {
		Event string `json:"event"`
		requestAnswer
	}
	contactEvent struct {
		Event string `json:"event"`
		contactAnswer
	}
	connectionEvent struct {
		Event  string `json:"event"`
		State  string `json:"state"`
		In     int64  `json:"in_s"`
		Reason string `json:"reason"`
	}
	upkeepEvent struct {
		Event string `json:"event"`
		maintainAnswer
	}
	endEvent struct {
		Event     string  `json:"event"`
		Reason    string  `json:"reason"`
		Cursor    *string `json:"cursor"` // of the last entry processed, null for none
		Processed int     `json:"processed"`
	}
	errorEvent struct {
		Event string `json:"event"`
		Error report `json:"error"`
	}
)

func listenEvents() []any {
	return []any{
		readyEvent{}, messageEvent{}, handledEvent{}, handlerFailedEvent{}, receiptEvent{}, requestEvent{}, contactEvent{}, connectionEvent{},
		upkeepEvent{}, endEvent{}, errorEvent{},
	}
}

func (e readyEvent) text(p *page) {
	p.line("listening as %s at %s", e.Identity, e.Relay)
	if e.Backlog != nil && *e.Backlog > 0 {
		more := ""
		if e.More {
			more = " or more"
		}
		p.app.say("%d%s waited at the relay", *e.Backlog, more)
	}
}
func (e messageEvent) text(p *page) {
	p.line("%s\t%s\t%s\t%s", p.time(e.ReceivedAt), p.peer(e.From, e.PeerName), p.messageID(e.MessageID), p.quote(e.preview()))
}
func (e receiptEvent) text(p *page) {
	p.line("%s\t%s\t%s\t%s", p.time(e.At), p.id(e.From), p.messageID(e.MessageID), e.Outcome)
}
func (e requestEvent) text(p *page) {
	p.line("%s\t%s\tasks for contact\t%s", p.time(e.ReceivedAt), p.id(e.From), p.quote(e.Untrusted.Note))
}
func (e contactEvent) text(p *page) {
	p.line("%s\t%s", p.time(p.app.io.Now()), e.news(p))
}
func (e connectionEvent) text(*page) {}
func (e upkeepEvent) text(*page)     {}
func (e endEvent) text(*page)        {}

// connectionText tells people of the stream.
func connectionText(c core.ConnectionEvent) string {
	if c.Reason == "" {
		return c.State
	}
	return fmt.Sprintf("%s in %d s: %s", c.State, c.InSeconds, clean(c.Reason, false))
}
