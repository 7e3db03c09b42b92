package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// minMessagePrefix is how many characters of a message ID stand for it.
const minMessagePrefix = 8

// Message is a delivered message.
type Message struct {
	MessageID  string
	From       string
	PeerName   string
	Type       string
	ThreadID   string
	Body       wire.Value // untrusted, null when it is damaged
	SentAt     int64
	ReceivedAt int64
	Handled    bool // the local mark
	Damaged    bool // the stored body does not open
}

// InboxFilter selects messages. Zero members select everything.
type InboxFilter struct {
	From, Type, ThreadID string
	Unhandled            bool
	Since                int64 // received at or after
	Limit                int   // the newest Limit, 0: all
}

// Inbox returns the selected messages, oldest first. Reading changes nothing. One
// whose stored body does not open is listed as damaged.
func (e *Endpoint) Inbox(ctx context.Context, f InboxFilter) (list []Message, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		stored, err := tx.Messages(store.MessageFilter{
			Peer: f.From, Type: f.Type, ThreadID: f.ThreadID, Unhandled: f.Unhandled, Since: f.Since, Limit: f.Limit,
		})
		if err != nil {
			return err
		}
		names, err := tx.Names()
		if err != nil {
			return err
		}
		for _, s := range stored {
			m, err := messageOf(s, names[s.Peer])
			if err != nil {
				return err
			}
			list = append(list, m)
		}
		return nil
	})
	return list, err
}

func messageOf(s store.Message, name string) (Message, error) {
	m := Message{
		MessageID: s.MessageID, From: s.Peer, PeerName: name, Type: s.Type, ThreadID: s.ThreadID,
		SentAt: s.SentAt, ReceivedAt: s.ReceivedAt, Handled: s.Handled, Damaged: s.Damaged != nil,
	}
	if m.Damaged {
		return m, nil
	}
	body, err := wire.Parse(s.Body, wire.MaxJSONDepth)
	m.Body = body
	return m, fault.Wrapf(fault.StorageFailed, err, "message %s", s.MessageID)
}

// Message returns the message with an ID, or with at least 8 characters that
// only one ID begins with. Senders choose the IDs of their messages, and two may
// have chosen the same: from names the one that is meant, "" is any. Codes:
// invalid_argument, storage_failed for one that is damaged.
func (e *Endpoint) Message(ctx context.Context, id, from string) (m Message, err error) {
	m, damaged, err := e.find(ctx, id, from)
	if err == nil {
		err = damaged
	}
	return m, err
}

// FindMessage is [Endpoint.Message] for who does not read what was written: it
// also returns one that is damaged. Code: invalid_argument.
func (e *Endpoint) FindMessage(ctx context.Context, id, from string) (Message, error) {
	m, _, err := e.find(ctx, id, from)
	return m, err
}

func (e *Endpoint) find(ctx context.Context, id, from string) (m Message, damaged, err error) {
	if err := checkMessagePrefix(id); err != nil {
		return m, nil, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		found, err := tx.MessagesWithPrefix(id, from, 2)
		switch {
		case err != nil:
			return err
		case len(found) == 0:
			return fault.New(fault.InvalidArgument, "no message %q in the inbox", id)
		case len(found) > 1 && found[0].MessageID == found[1].MessageID:
			return fault.New(fault.InvalidArgument, "%q is the ID of a message of %s and of one of %s: say whose", id, found[0].Peer, found[1].Peer)
		case len(found) > 1:
			return fault.New(fault.InvalidArgument, "%q stands for several messages: write more characters", id)
		}
		name, err := tx.Name(found[0].Peer)
		if err != nil {
			return err
		}
		damaged = found[0].Damaged
		m, err = messageOf(found[0], name)
		return err
	})
	return m, damaged, err
}

// MarkHandled sets the local mark of the message that from has sent with an ID.
// Code: invalid_argument for an unknown one.
func (e *Endpoint) MarkHandled(ctx context.Context, from, messageID string) error {
	return e.store.Update(ctx, func(tx *store.Tx) error {
		found, err := tx.SetHandled(from, messageID)
		if err == nil && !found {
			err = fault.New(fault.InvalidArgument, "no message %.80q in the inbox", messageID)
		}
		return err
	})
}
