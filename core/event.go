package core

import (
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/store"
)

// The kinds of an [Event].
const (
	EventMessage        = "message"
	EventReceipt        = "receipt"
	EventContactRequest = "contact_request"
	EventContact        = "contact" // the admission table changed
	EventDropped        = "dropped"
	EventWithheld       = "withheld" // a message, by the policy
	EventConnection     = "connection"
	EventBacklog        = "backlog"
	EventCursor         = "cursor"
)

// Event is what Pull and Listen report, in order, after it is durable. The
// member of its kind is set.
type Event struct {
	Kind       string
	Message    *Message
	Receipt    *ReceiptEvent
	Request    *ContactRequest
	Contact    *Contact
	Dropped    *DroppedEvent
	Withheld   *WithheldEvent
	Connection *ConnectionEvent
	Backlog    *BacklogEvent
	Cursor     string // of an EventCursor: the stream ID through which the inbox is processed
}

// ReceiptEvent tells of a receipt that ended a message.
type ReceiptEvent struct {
	MessageID, From, Outcome, Code string
	At                             int64
	Entry                          Outgoing // after it was applied
}

// DroppedEvent tells of a packet that was refused: dropped, rejected or given up.
type DroppedEvent struct{ MessageID, From, Code string }

// WithheldEvent tells of a message that the policy has set aside, without what it
// says.
type WithheldEvent struct{ MessageID, From, Type string }

// ConnectionEvent tells of the stream that Listen follows.
type ConnectionEvent struct {
	State     string // connected or reconnecting
	InSeconds int64  // until the next try
	Reason    string
}

// BacklogEvent tells of the inbox as a Listen finds it, before anything else, once
// it has read its first page.
type BacklogEvent struct {
	// Cursor is the stream ID through which an earlier Listen or Pull that ended in
	// good order processed the inbox, "" for none.
	Cursor  string
	Waiting int  // entries on the first page of the inbox
	More    bool // the page is full, so that more may wait
}

// eventsOf returns what a result is to be told as. What was stored a moment ago
// is read back without its checks: a record that does not decode is left out.
func eventsOf(tx *store.Tx, r delivery.Result) (events []Event, err error) {
	name, err := tx.Name(r.From)
	if err != nil {
		return nil, err
	}
	if r.Message != nil {
		if m, err := messageOf(*r.Message, name); err == nil {
			events = append(events, Event{Kind: EventMessage, Message: &m})
		}
	}
	if w := r.Withheld; w != nil {
		events = append(events, Event{Kind: EventWithheld, Withheld: &WithheldEvent{MessageID: w.MessageID, From: w.Peer, Type: w.Type}})
	}
	if r.Receipt != nil {
		if out, err := outgoingOf(r.Receipt.Entry, name); err == nil {
			body := r.Receipt.Body
			events = append(events, Event{Kind: EventReceipt, Receipt: &ReceiptEvent{
				MessageID: body.MessageID, From: r.From, Outcome: body.Outcome, Code: body.Code, At: r.Receipt.At, Entry: out,
			}})
		}
	}
	if r.Request != nil {
		if q, err := requestOf(*r.Request); err == nil {
			events = append(events, Event{Kind: EventContactRequest, Request: &q})
		}
	}
	if r.Contact != nil {
		c, err := contactOf(tx, *r.Contact)
		if err != nil {
			return events, err
		}
		events = append(events, Event{Kind: EventContact, Contact: &c})
	}
	switch r.Outcome {
	case delivery.Dropped, delivery.Rejected, delivery.Quarantined:
		events = append(events, Event{Kind: EventDropped, Dropped: &DroppedEvent{MessageID: r.MessageID, From: r.From, Code: string(r.Code)}})
	}
	return events, nil
}
