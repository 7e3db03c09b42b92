package admission

import (
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// MaxInvitationBytes bounds an invitation as JSON text: a PublishedAgent and a
// permit, which has less than 8 KiB.
const MaxInvitationBytes = wire.MaxPublishedAgentBytes + 8192

// Invitation is the closed object {agent, permit} (05#invitations). It is a
// bearer credential and travels only over a private channel. Neither member is
// verified: the invitee does that under its pin of the inviter.
type Invitation struct {
	Agent  wire.Value // the inviter's PublishedAgent
	Permit *Permit    // issued by the inviter to one peer
}

// DecodeInvitation reads an invitation. Code: invalid_authorization.
func DecodeInvitation(text []byte) (*Invitation, error) {
	if len(text) > MaxInvitationBytes {
		return nil, fault.New(fault.InvalidAuthorization, "invitation: %d bytes, more than %d", len(text), MaxInvitationBytes)
	}
	// Each protocol object has the bound; the two are one level down.
	v, err := wire.Parse(text, wire.MaxJSONDepth+1)
	if err != nil {
		return nil, fault.Wrapf(fault.InvalidAuthorization, err, "invitation")
	}
	r := wire.NewReader(v, "invitation")
	i := &Invitation{Agent: r.Value("agent")}
	permit := r.Value("permit")
	if i.Agent.Kind() != wire.Object || !i.Agent.WithinDepth(wire.MaxJSONDepth) {
		r.FailMember("agent", "not an object of at most %d levels", wire.MaxJSONDepth)
	}
	if err := r.Close(); err != nil {
		return nil, fault.Wrap(fault.InvalidAuthorization, err)
	}
	i.Permit, err = DecodePermit(permit)
	return i, fault.Wrapf(fault.InvalidAuthorization, err, "invitation")
}

// Inviter returns the ACE ID that the agent states, to find its pin by.
func (i *Invitation) Inviter() string { return descriptor.StatedID(i.Agent) }

// NewInvitation returns the invitation of an agent with a permit it issued.
func NewInvitation(agent *descriptor.PublishedAgent, permit *Permit) *Invitation {
	return &Invitation{Agent: agent.Value(), Permit: permit}
}

// Text returns the invitation as canonical JSON.
func (i *Invitation) Text() []byte {
	return wire.NewObject(wire.M("agent", i.Agent), wire.M("permit", i.Permit.Value())).Canonical()
}
