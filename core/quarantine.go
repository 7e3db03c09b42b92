package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/store"
)

// Quarantined is an inbox entry that was given up after MAX_FETCH_ATTEMPTS
// fetches (06#receive-pipeline). It is acknowledged at the relay, so this is the
// only copy.
type Quarantined struct {
	ID       int64
	StreamID string
	Packet   []byte // canonical JSON, untrusted and still encrypted
	Code     string // of the last failure
	At       int64
	// What the packet states, "" and 0 when it does not decode.
	MessageID, From string
	Timestamp       int64
}

// Quarantine returns the entries that were given up, oldest first. The newest
// 100 are kept.
func (e *Endpoint) Quarantine(ctx context.Context) (list []Quarantined, err error) {
	var kept []store.Quarantined
	err = e.store.View(ctx, func(tx *store.Tx) error {
		kept, err = tx.Quarantine()
		return err
	})
	for _, k := range kept {
		q := Quarantined{ID: k.ID, StreamID: k.StreamID, Packet: k.Packet, Code: k.Code, At: k.At}
		if p, err := packet.Decode(k.Packet); err == nil {
			q.MessageID, q.From, q.Timestamp = p.MessageID, p.From, p.Timestamp
		}
		list = append(list, q)
	}
	return list, err
}

// DropQuarantined removes an entry that was given up, for good. Code:
// invalid_argument for an unknown one.
func (e *Endpoint) DropQuarantined(ctx context.Context, id int64) error {
	now, err := e.now()
	if err != nil {
		return err
	}
	return e.store.Update(ctx, func(tx *store.Tx) error {
		found, err := tx.DropQuarantined(id)
		if err == nil && !found {
			err = fault.New(fault.InvalidArgument, "nothing in quarantine has the number %d", id)
		}
		if err != nil {
			return err
		}
		return tx.AddAudit(store.Audit{At: now, Event: audit.QuarantineDropped, Count: 1})
	})
}

// Withheld is a message that the policy keeps from its reader. Its sender is
// known, and has its receipt.
type Withheld struct {
	Number int64 // in quarantine
	Message
}

// Withheld returns the messages that the policy has set aside, oldest first. Of more
// than 10,000 the oldest one goes of whom most are from.
func (e *Endpoint) Withheld(ctx context.Context) (list []Withheld, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		list = nil
		kept, err := tx.WithheldMessages()
		if err != nil {
			return err
		}
		for _, w := range kept {
			one, err := withheldOf(tx, w)
			if err != nil {
				return err
			}
			list = append(list, one)
		}
		return nil
	})
	return list, err
}

// Release puts a message that was set aside into the inbox. Code:
// invalid_argument when none has the number.
func (e *Endpoint) Release(ctx context.Context, number int64) (m Message, err error) {
	now, err := e.now()
	if err != nil {
		return m, err
	}
	released, err := e.node.Release(ctx, number, now)
	if err != nil {
		return m, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		one, err := withheldOf(tx, released)
		m = one.Message
		return err
	})
	return m, err
}

// DropWithheld removes a message that was set aside, for good. Code:
// invalid_argument when none has the number.
func (e *Endpoint) DropWithheld(ctx context.Context, number int64) error {
	now, err := e.now()
	if err != nil {
		return err
	}
	return e.store.Update(ctx, func(tx *store.Tx) error {
		w, found, err := tx.WithheldMessage(number)
		if err == nil && !found {
			err = fault.New(fault.InvalidArgument, "no message in quarantine has the number %d", number)
		}
		if err != nil {
			return err
		}
		if _, err := tx.DropWithheld(number); err != nil {
			return err
		}
		return tx.AddAudit(store.Audit{At: now, Event: audit.QuarantineDropped, Peer: w.Peer, MessageID: w.MessageID, Count: 1})
	})
}

func withheldOf(tx *store.Tx, w store.Withheld) (Withheld, error) {
	name, err := tx.Name(w.Peer)
	if err != nil {
		return Withheld{}, err
	}
	m, err := messageOf(w.Message, name)
	return Withheld{w.Number, m}, err
}
