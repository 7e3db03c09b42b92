package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Contact is one row of the admission table.
type Contact struct {
	ACEID        string
	Name         string // petname
	State        string // pending, admitted or blocked; "" when a reply removed the row
	Profile      string
	Since        int64
	ExpiresAt    int64 // of a pending entry, else 0
	HeldPermit   int64 // expiry of the newest permit held from the peer, 0 none
	IssuedPermit int64 // expiry of the newest permit issued to it, 0 none
}

// ContactRequest is a request that waits for a decision.
type ContactRequest struct {
	From       string
	Profile    string
	Note       string // untrusted
	ReceivedAt int64
	ExpiresAt  int64
	Damaged    bool // the stored request does not open: Profile and Note are ""
}

// Contacts returns the admission table, oldest rows first.
func (e *Endpoint) Contacts(ctx context.Context) (list []Contact, err error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		rows, err := tx.Contacts(now)
		if err != nil {
			return err
		}
		for _, row := range rows {
			c, err := contactOf(tx, row)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return nil
	})
	return list, err
}

func contactOf(tx *store.Tx, row store.Contact) (Contact, error) {
	c := Contact{ACEID: row.Peer, State: row.State, Profile: row.Profile, Since: row.Since, ExpiresAt: row.ExpiresAt}
	var err error
	if c.Name, err = tx.Name(row.Peer); err != nil {
		return c, err
	}
	held, _, err := tx.Permit(row.Peer, store.PermitHeld)
	if err != nil {
		return c, err
	}
	issued, _, err := tx.Permit(row.Peer, store.PermitIssued)
	c.HeldPermit, c.IssuedPermit = held.ExpiresAt, issued.ExpiresAt
	return c, err
}

func (e *Endpoint) viewContact(ctx context.Context, row store.Contact) (c Contact, err error) {
	err = e.store.View(ctx, func(tx *store.Tx) error {
		c, err = contactOf(tx, row)
		return err
	})
	return c, err
}

// Requests returns the held contact requests, oldest first. One that does not open
// is listed as damaged: nothing can be decided about it, and it goes when it
// expires, or when the peer is forgotten or asks again.
func (e *Endpoint) Requests(ctx context.Context) (list []ContactRequest, err error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	err = e.store.View(ctx, func(tx *store.Tx) error {
		held, err := tx.Requests(now - wire.ContactRequestTTLSeconds)
		if err != nil {
			return err
		}
		for _, q := range held {
			r, err := requestOf(q)
			if err != nil {
				return err
			}
			list = append(list, r)
		}
		return nil
	})
	return list, err
}

func requestOf(q store.Request) (ContactRequest, error) {
	r := ContactRequest{From: q.Peer, ReceivedAt: q.ReceivedAt, ExpiresAt: q.ReceivedAt + wire.ContactRequestTTLSeconds, Damaged: q.Damaged != nil}
	if r.Damaged {
		return r, nil
	}
	c, err := delivery.DecodeRequest(q)
	if err == nil {
		r.Profile, r.Note = c.Profile, c.Note
	}
	return r, err
}
