package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// Accept accepts a held contact request: it pins the requester, admits it and
// replies with a permit (05#flow step 3). When only the reply fails, the contact
// is returned beside the error and accepting again sends it again. Codes:
// invalid_argument when no request is held, not_permitted for a blocked peer,
// those of 04#verification, and those of 07#client-rules.
func (e *Endpoint) Accept(ctx context.Context, from string) (Contact, error) {
	now, err := e.now()
	if err != nil {
		return Contact{}, err
	}
	if err := e.ensurePublished(ctx, now); err != nil {
		return Contact{}, err
	}
	row, err := e.node.AcceptRequest(ctx, from, now)
	if row.Peer == "" {
		return Contact{}, err
	}
	c, viewErr := e.viewContact(ctx, row)
	if err == nil {
		err = viewErr
	}
	return c, err
}

// Reject declines a held contact request and replies so. The request is gone
// also when the reply fails, which is the error then. Codes as Accept.
func (e *Endpoint) Reject(ctx context.Context, from string) error {
	now, err := e.now()
	if err != nil {
		return err
	}
	if err := e.ensurePublished(ctx, now); err != nil {
		return err
	}
	return e.node.RejectRequest(ctx, from, now)
}

// Connect sends a peer a contact request (05#flow step 1): through its relays
// with a permit held from it, else to the home of its card record, which has to
// be open. The result is pending, or admitted for a peer already admitted: then
// the request refreshes permits and the row stays. Codes: not_permitted (the
// peer is blocked here, or its card record is closed or missing),
// invalid_argument (the profile is not shared, or the note too long), those of
// Lookup, and those of 07#client-rules.
func (e *Endpoint) Connect(ctx context.Context, aceID, profileID, note string) (Contact, error) {
	now, err := e.now()
	if err != nil {
		return Contact{}, err
	}
	if _, err := e.node.CanSend(ctx, aceID, now); err != nil {
		return Contact{}, err
	}
	if !wire.IsACEID(aceID) || aceID == e.ACEID() {
		return Contact{}, fault.New(fault.InvalidArgument, "%.80q is not the ACE ID of another agent", aceID)
	}
	request, err := e.contactRequest(ctx, aceID, now)
	if err != nil {
		return Contact{}, err
	}
	request.Profile, request.Note = profileID, note
	if err := e.ensurePublished(ctx, now); err != nil {
		return Contact{}, err
	}
	row, err := e.node.SendRequest(ctx, request, now)
	if err != nil {
		return Contact{}, err
	}
	return e.viewContact(ctx, row)
}

// contactRequest looks a peer up and returns a request to it that says where it
// may go.
func (e *Endpoint) contactRequest(ctx context.Context, aceID string, now int64) (delivery.ContactRequest, error) {
	found, err := e.node.Lookup(ctx, aceID, now)
	if err != nil {
		return delivery.ContactRequest{}, err
	}
	home, err := e.openHome(ctx, found.Agent, now)
	return delivery.ContactRequest{To: aceID, Home: home}, err
}

// openHome returns the relay for a request without a permit, "" when a permit
// is held. Without one the card record is asked for, and has to be open.
func (e *Endpoint) openHome(ctx context.Context, agent *descriptor.PublishedAgent, now int64) (string, error) {
	withPermit, err := e.node.CanSend(ctx, agent.ACEID, now)
	if err != nil || withPermit {
		return "", err
	}
	card, err := e.lookupCard(ctx, agent, now)
	switch {
	case err != nil:
		return "", err
	case card == nil:
		return "", fault.New(fault.NotPermitted, "%s has no card record and so takes no contact requests", agent.ACEID)
	case card.Contact != admission.Open:
		return "", fault.New(fault.NotPermitted, "%s takes no contact requests: its card record is closed", agent.ACEID)
	}
	return card.Home, nil
}
