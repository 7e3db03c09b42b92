package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/fault"
)

func newContactCmd(a *app) *cobra.Command {
	return a.group(&cobra.Command{Use: "contact", Short: "Decide who may write to you"},
		newContactRequestsCmd(a), newContactAcceptCmd(a), newContactRejectCmd(a), newContactListCmd(a), newContactShowCmd(a), newContactNameCmd(a),
		newContactBlockCmd(a), newContactUnblockCmd(a), newContactForgetCmd(a), newContactInviteCmd(a), newContactImportCmd(a))
}

func newContactRequestsCmd(a *app) *cobra.Command {
	var failEmpty bool
	c := &cobra.Command{
		Use:   "requests [--fail-empty]",
		Short: "List the contact requests that wait for your decision",
		Long:  "List the contact requests that wait for your decision. A note is what the\nrequester wrote; nobody has checked it.",
	}
	c.Flags().BoolVar(&failEmpty, "fail-empty", false, "exit with 3 when there is none")
	return a.leaf(c, 0, 0, []any{requestList{}}, func(ctx context.Context, _ []string) error { return runContactRequests(ctx, a, failEmpty) })
}

func newContactAcceptCmd(a *app) *cobra.Command {
	var name string
	c := &cobra.Command{Use: "accept PEER [--name NAME]", Short: "Accept a contact request", ValidArgsFunction: a.complete(1, peerValues)}
	c.Flags().StringVar(&name, "name", "", "a `NAME` of your own for the peer")
	return a.leaf(c, 1, 1, []any{contactAnswer{}}, func(ctx context.Context, args []string) error {
		return runContactAccept(ctx, a, args[0], name)
	})
}

func newContactRejectCmd(a *app) *cobra.Command {
	c := &cobra.Command{Use: "reject PEER", Short: "Reject a contact request", ValidArgsFunction: a.complete(1, peerValues)}
	return a.leaf(c, 1, 1, []any{rejectedAnswer{}}, func(ctx context.Context, args []string) error {
		return runContactReject(ctx, a, args[0])
	})
}

func newContactListCmd(a *app) *cobra.Command {
	var state string
	c := &cobra.Command{Use: "list [--state STATE]", Short: "List the peers with whom there is a contact"}
	c.Flags().StringVar(&state, "state", "", "only contacts in this `STATE`: pending, admitted or blocked")
	return a.leaf(c, 0, 0, []any{contactList{}}, func(ctx context.Context, _ []string) error { return runContactList(ctx, a, state) })
}

// requestAnswer is one contact request that waits.
type requestAnswer struct {
	From       string `json:"from"`
	Profile    string `json:"profile"`
	ReceivedAt int64  `json:"received_at"`
	ExpiresAt  int64  `json:"expires_at"`
	// Damaged says that the stored request does not open; the profile and the note
	// are empty then.
	Damaged   bool          `json:"damaged"`
	Untrusted noteUntrusted `json:"untrusted"`
}

type noteUntrusted struct {
	Note string `json:"note"`
}

func newRequestAnswer(r core.ContactRequest) requestAnswer {
	return requestAnswer{r.From, r.Profile, r.ReceivedAt, r.ExpiresAt, r.Damaged, noteUntrusted{r.Note}}
}

// note is what the requester wrote, fit to print.
func (r requestAnswer) note(p *page) string {
	if r.Damaged {
		return damaged
	}
	return p.quote(r.Untrusted.Note)
}

type requestList []requestAnswer

func (r requestList) text(p *page) {
	p.head("FROM", "PROFILE", "RECEIVED", "EXPIRES", "NOTE (unverified)")
	for _, q := range r {
		p.row(p.id(q.From), clean(q.Profile, false), p.time(q.ReceivedAt), p.time(q.ExpiresAt), q.note(p))
	}
}

func runContactRequests(ctx context.Context, a *app, failEmpty bool) error {
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	requests, err := s.Requests(ctx)
	if err != nil {
		return err
	}
	answer := requestList{}
	for _, r := range requests {
		answer = append(answer, newRequestAnswer(r))
	}
	return a.printList(answer, len(answer), failEmpty)
}

// contactAnswer is one row of the admission table. The permits are those that
// let each side send to the other; null is none.
type contactAnswer struct {
	ACEID                 string  `json:"ace_id"`
	PeerName              *string `json:"peer_name"`
	State                 string  `json:"state"`
	Profile               *string `json:"profile"`
	SinceAt               *int64  `json:"since_at"`
	ExpiresAt             *int64  `json:"expires_at"`
	HeldPermitExpiresAt   *int64  `json:"held_permit_expires_at"`
	IssuedPermitExpiresAt *int64  `json:"issued_permit_expires_at"`
}

func newContactAnswer(c core.Contact) contactAnswer {
	if c.State == "" {
		c.State = stateRejected
	}
	return contactAnswer{
		ACEID: c.ACEID, PeerName: orNull(c.Name), State: c.State, Profile: orNull(c.Profile),
		SinceAt: timeOrNull(c.Since), ExpiresAt: timeOrNull(c.ExpiresAt),
		HeldPermitExpiresAt: timeOrNull(c.HeldPermit), IssuedPermitExpiresAt: timeOrNull(c.IssuedPermit),
	}
}

func (r contactAnswer) text(p *page) {
	p.line("%s: %s", p.peer(r.ACEID, r.PeerName), r.State)
	if r.State == statePending {
		p.line("the request waits until the peer decides; ace pull fetches the answer")
	}
}

// news tells what a peer has answered.
func (r contactAnswer) news(p *page) string {
	peer := p.peer(r.ACEID, r.PeerName)
	switch {
	case r.State == stateRejected:
		return peer + " declined the contact request"
	case r.HeldPermitExpiresAt != nil:
		return peer + " has admitted you: the permit to send ends " + p.time(*r.HeldPermitExpiresAt)
	}
	return peer + " is " + r.State
}

const (
	statePending  = "pending"  // one side has asked
	stateAdmitted = "admitted" // each may send to the other
	stateBlocked  = "blocked"  // one side takes nothing from the other
	stateRejected = "rejected" // the other has declined, and the table forgot it
)

type contactList []contactAnswer

func (r contactList) text(p *page) {
	p.head("PEER", "NAME", "STATE", "PROFILE", "MAY SEND UNTIL", "MAY RECEIVE UNTIL")
	for _, c := range r {
		p.row(p.id(c.ACEID), orDash(c.PeerName), c.State, clean(orDash(c.Profile), false), p.timeOr(c.HeldPermitExpiresAt), p.timeOr(c.IssuedPermitExpiresAt))
	}
}

func runContactList(ctx context.Context, a *app, state string) error {
	switch state {
	case "", statePending, stateAdmitted, stateBlocked:
	default:
		return usagef("--state is pending, admitted or blocked, not %q", state)
	}
	s, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	contacts, err := s.Contacts(ctx)
	if err != nil {
		return err
	}
	answer := contactList{}
	for _, c := range contacts {
		if state == "" || c.State == state {
			answer = append(answer, newContactAnswer(c))
		}
	}
	return a.print(answer)
}

func runContactAccept(ctx context.Context, a *app, typed, name string) error {
	return a.withPeer(ctx, a.open, (*session).requester, typed, func(ctx context.Context, s *session, from string) error {
		if name != "" { // first: a name that cannot be is no acceptance
			if err := s.nameRequester(ctx, from, name); err != nil {
				return err
			}
		}
		c, err := s.Accept(ctx, from)
		if errors.Is(err, fault.InvalidArgument) {
			c, err = s.accepted(ctx, from, err)
		}
		if err != nil {
			return err
		}
		return a.print(newContactAnswer(c))
	})
}

// accepted returns the contact of a peer that was admitted before, so that
// accepting twice is accepting once, and else that no request waits.
func (s *session) accepted(ctx context.Context, from string, none error) (core.Contact, error) {
	contacts, err := s.Contacts(ctx)
	if err != nil {
		return core.Contact{}, err
	}
	for _, c := range contacts {
		if c.ACEID == from && c.State == stateAdmitted {
			return c, nil
		}
	}
	return core.Contact{}, noRequest(none)
}

// noRequest says where requests are to be found to who decides about one that is
// not held.
func noRequest(err error) error {
	if !errors.Is(err, fault.InvalidArgument) {
		return err
	}
	return hintf(err, "ace pull fetches requests, and ace contact requests lists those that wait")
}

// nameRequester names somebody whose request waits, and nobody else.
func (s *session) nameRequester(ctx context.Context, from, name string) error {
	requests, err := s.Requests(ctx)
	if err != nil || !slices.ContainsFunc(requests, func(r core.ContactRequest) bool { return r.From == from }) {
		return err
	}
	return s.SetName(ctx, from, name)
}

// requester turns what a person typed into the ACE ID of somebody whose
// request waits: nobody has pinned that one yet, so the start of the ID is
// compared with the requests first.
func (s *session) requester(ctx context.Context, typed string) (string, error) {
	requests, err := s.Requests(ctx)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, r := range requests {
		ids = append(ids, r.From)
	}
	id, err := completeID(typed, ids)
	if errors.Is(err, errNoPrefix) {
		return s.peer(ctx, typed)
	}
	return id, err
}

// rejectedAnswer is the answer of ace contact reject.
type rejectedAnswer struct {
	ACEID string `json:"ace_id"`
	State string `json:"state"`
}

func (r rejectedAnswer) text(p *page) { p.line("%s: request rejected", p.id(r.ACEID)) }

func runContactReject(ctx context.Context, a *app, typed string) error {
	return a.withPeer(ctx, a.open, (*session).requester, typed, func(ctx context.Context, s *session, from string) error {
		if err := s.Reject(ctx, from); err != nil {
			return noRequest(err)
		}
		return a.print(rejectedAnswer{from, stateRejected})
	})
}
