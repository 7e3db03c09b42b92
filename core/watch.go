package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// What a process asks that waits for something, again and again: a few rows that
// an index finds, in a transaction that takes no turn of the writer.

// NextMessage returns the oldest of the selected messages that is not damaged, and
// whether there is one. The Limit of the filter does not count.
func (e *Endpoint) NextMessage(ctx context.Context, f InboxFilter) (m Message, ok bool, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		var found store.Message
		found, ok, err = tx.FirstMessage(store.MessageFilter{
			Peer: f.From, Type: f.Type, ThreadID: f.ThreadID, Unhandled: f.Unhandled, Since: f.Since,
		})
		if err != nil || !ok {
			return err
		}
		name, err := tx.Name(found.Peer)
		if err != nil {
			return err
		}
		m, err = messageOf(found, name)
		return err
	})
	return m, ok, err
}

// ViewOutgoing is [Endpoint.OutboxEntry] as the store has the entry: one whose
// time has ended a moment ago may not be settled yet. Code: invalid_argument for
// an unknown message.
func (e *Endpoint) ViewOutgoing(ctx context.Context, messageID string) (Outgoing, error) {
	var entry store.OutboxEntry
	err := e.store.View(ctx, func(tx *store.Tx) error {
		found, ok, err := tx.Outbox(messageID)
		if err == nil && !ok {
			return fault.New(fault.InvalidArgument, "no message %.80q in the outbox", messageID)
		}
		entry = found
		return err
	})
	if err != nil {
		return Outgoing{}, err
	}
	return e.viewOutgoing(ctx, entry)
}

// CountDamaged returns how many messages, messages of the Outbox without an outcome
// and contact requests in the store do not open. It tries each of them.
func (e *Endpoint) CountDamaged(ctx context.Context) (n int64, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		n, err = tx.CountDamaged()
		return err
	})
	return n, err
}

// Contact returns the row of a peer in the admission table and whether it has one.
func (e *Endpoint) Contact(ctx context.Context, aceID string) (c Contact, ok bool, err error) {
	now, err := e.now()
	if err != nil {
		return c, false, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		var row store.Contact
		row, ok, err = tx.Contact(aceID, now)
		if err != nil || !ok {
			return err
		}
		c, err = contactOf(tx, row)
		return err
	})
	return c, ok, err
}

// Registered asks the home relay whether it knows the identity with the log that
// it has now, and registers nothing. Codes: kel_conflict and others for good when
// the relay holds something against the identity, and those of 07#client-rules.
func (e *Endpoint) Registered(ctx context.Context) (bool, error) {
	now, err := e.now()
	if err != nil {
		return false, err
	}
	_, err = e.client.Inbox(ctx, e.config.Relay, streamStart, 1, now)
	if e.needsRegistration(ctx, err) {
		return false, nil
	}
	return err == nil, err
}

// RelayHealth is what a relay says of itself to anybody.
type RelayHealth = relayclient.Health

// AskHealth asks the owner's relay, without an identity, whether it serves. Codes:
// as [relayclient.Client.Health].
func AskHealth(ctx context.Context, relay string, urls wire.URLPolicy) (RelayHealth, error) {
	client := relayclient.New(relayclient.Config{URLs: urls, Configured: []string{relay}})
	defer client.Close()
	return client.Health(ctx, relay)
}
