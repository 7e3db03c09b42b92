package delegation

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/wire"
)

// MessageType is the type of the message that hands a credential over.
const MessageType = "ace:delegation:1"

// Rule is the profile rule of the message ace:delegation:1
// (delegation#message-acedelegation1).
type Rule struct{}

// Types lists the one message type.
func (Rule) Types() []string { return []string{MessageType} }

// Check judges the credential of a message. Codes: invalid_argument (the clock),
// invalid_body.
func (Rule) Check(s profile.State, e profile.Event, body wire.Value) error {
	return check(body, e.Direction, e.From, e.To, s.Now, func(c *Credential) error {
		return s.VerifySender(Action, c.Signature, c.IssuedAt, c.claims())
	})
}

// Commit changes no state: the application stores the credential and publishes
// it.
func (Rule) Commit(profile.State, profile.Event, wire.Value) error { return nil }

// CheckMessage is the check step of the message ace:delegation:1, whose body
// {credential} matches its schema (delegation#message-acedelegation1). sender
// is the pinned log of from; it is read on receive alone.
//
// Codes: invalid_argument (the clock), invalid_body.
func CheckMessage(body wire.Value, d profile.Direction, from, to string, sender *kel.State, now int64) error {
	return check(body, d, from, to, now, func(c *Credential) error { return c.Verify(sender, now) })
}

// check judges a message. verify checks the signature of its credential, on
// receive.
func check(body wire.Value, d profile.Direction, from, to string, now int64, verify func(*Credential) error) error {
	if err := wire.CheckTime(now); err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	c, err := readCredential(body, from, to, now)
	if err == nil && d == profile.Receive {
		err = verify(c)
	}
	return fault.Wrap(fault.InvalidBody, err)
}

// readCredential reads the credential of a message and checks all but its
// signature.
func readCredential(body wire.Value, from, to string, now int64) (*Credential, error) {
	r := wire.NewReader(body, "body")
	v := r.Value("credential")
	if err := r.Close(); err != nil {
		return nil, err
	}
	c, err := Decode(v, now)
	switch {
	case err != nil:
		return nil, err
	case now >= c.ExpiresAt:
		return nil, fault.New(fault.InvalidBody, "credential.expiresAt: passed at %d", now)
	case c.Issuer != from:
		return nil, fault.New(fault.InvalidBody, "credential.issuer: not the sender")
	case c.Subject != to:
		return nil, fault.New(fault.InvalidBody, "credential.subject: not the recipient")
	}
	return c, nil
}
