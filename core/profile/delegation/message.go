package delegation

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/wire"
)

// Direction of a message, as a profile rule sees it (08#profile-rules).
type Direction string

// The two directions.
const (
	Send    Direction = "send"
	Receive Direction = "receive"
)

// CheckMessage is the check step of the message ace:delegation:1, whose body
// {credential} matches its schema (delegation#message-acedelegation1). sender
// is the pinned log of from; it is read on receive alone. The commit step
// changes no state.
//
// Codes: invalid_argument (the clock), invalid_body.
func CheckMessage(body wire.Value, d Direction, from, to string, sender *kel.State, now int64) error {
	if err := wire.CheckTime(now); err != nil {
		return fault.Wrap(fault.InvalidArgument, err)
	}
	return fault.Wrap(fault.InvalidBody, checkMessage(body, d, from, to, sender, now))
}

func checkMessage(body wire.Value, d Direction, from, to string, sender *kel.State, now int64) error {
	r := wire.NewReader(body, "body")
	v := r.Value("credential")
	if err := r.Close(); err != nil {
		return err
	}
	c, err := Decode(v, now)
	switch {
	case err != nil:
		return err
	case now >= c.ExpiresAt:
		return fault.New(fault.InvalidBody, "credential.expiresAt: passed at %d", now)
	case c.Issuer != from:
		return fault.New(fault.InvalidBody, "credential.issuer: not the sender")
	case c.Subject != to:
		return fault.New(fault.InvalidBody, "credential.subject: not the recipient")
	case d == Send:
		return nil
	}
	return c.Verify(sender, now)
}
