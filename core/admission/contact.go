package admission

import (
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// Contact kinds (05#contact-requests).
const (
	Request  = "request"
	Accepted = "accepted"
	Rejected = "rejected"
)

// Contact is the body of an ace:contact:1 (05#contact-requests).
//
// A receiver checks it in this order, the first failure deciding:
// [DecodeContact], [Contact.VerifySource], the packet's signature under the
// state of that source, then [Contact.VerifyPermit], which starts with the
// member rules (interop#open-packet---from-agent-f---packet-p---out-r---now-n
// step 7).
type Contact struct {
	Kind, Profile, Note string
	Source              wire.Value // a PublishedAgent
	Permit              wire.Value // null when absent
}

// DecodeContact reads a body that matches the schema of its type. Code:
// invalid_body.
func DecodeContact(body wire.Value) (*Contact, error) {
	r := wire.NewReader(body, "body")
	c := &Contact{
		Kind:    r.Matching("kind", "contact kind", isKind),
		Profile: r.String("profile"),
		Note:    r.String("note"),
		Source:  r.Value("source"),
	}
	if r.Has("permit") {
		if c.Permit = r.Value("permit"); c.Permit.Kind() != wire.Object {
			r.FailMember("permit", "is %s, not an object", c.Permit.Kind())
		}
	}
	if err := r.Close(); err != nil {
		return nil, fault.Wrap(fault.InvalidBody, err)
	}
	return c, nil
}

func isKind(s string) bool { return s == Request || s == Accepted || s == Rejected }

// VerifySource verifies the source as a PublishedAgent naming from
// (04#verification), against the pin in o when there is one. Codes:
// invalid_argument (clock), invalid_authorization with the cause's own code
// below it.
func (c *Contact) VerifySource(from string, now int64, o descriptor.Options) (*descriptor.PublishedAgent, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	source, err := descriptor.VerifyValue(c.Source, now, o)
	if err != nil {
		return nil, fault.Wrapf(fault.InvalidAuthorization, err, "body.source")
	}
	if source.ACEID != from {
		return nil, fault.New(fault.InvalidAuthorization, "body.source: names %s, not the sender", source.ACEID)
	}
	return source, nil
}

// CheckMembers checks the member rules that no schema states: the grammar of
// the profile, the bytes of the note and that exactly a rejection has no permit
// (05#contact-requests). Code: invalid_body.
func (c *Contact) CheckMembers() error {
	hasPermit := c.Permit.Kind() != wire.Null
	switch {
	case !wire.IsNamespacedID(c.Profile):
		return fault.New(fault.InvalidBody, "body.profile: not a profile ID")
	case len(c.Note) > wire.MaxNoteBytes:
		return fault.New(fault.InvalidBody, "body.note: %d bytes, more than %d", len(c.Note), wire.MaxNoteBytes)
	case hasPermit && c.Kind == Rejected:
		return fault.New(fault.InvalidBody, "body.permit: not allowed with kind %q", c.Kind)
	case !hasPermit && c.Kind != Rejected:
		return fault.New(fault.InvalidBody, "body.permit: missing with kind %q", c.Kind)
	}
	return nil
}

// VerifyPermit checks the member rules and verifies the reply permit as issued
// by from, whose state is given, to to. The permit is nil for a rejection.
// Codes: invalid_body, invalid_argument (clock), invalid_authorization,
// stale_peer_binding.
func (c *Contact) VerifyPermit(state *kel.State, from, to string, now int64) (*Permit, error) {
	if err := c.CheckMembers(); err != nil || c.Kind == Rejected {
		return nil, err
	}
	return VerifyPermit(c.Permit, state, from, to, now)
}

// Body returns the body of a contact packet. The permit is nil for a rejection.
func Body(kind, profile, note string, source *descriptor.PublishedAgent, permit *Permit) wire.Value {
	members := []wire.Member{
		wire.M("kind", wire.NewString(kind)),
		wire.M("profile", wire.NewString(profile)),
		wire.M("note", wire.NewString(note)),
		wire.M("source", source.Value()),
	}
	if permit != nil {
		members = append(members, wire.M("permit", permit.Value()))
	}
	return wire.NewObject(members...)
}
