package interop

import (
	"fmt"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/delegation"
	"github.com/ace-toolkit/ace/core/wire"
)

// evalDelegation verifies a credential (delegation#verifying-a-credential) or
// checks a message that hands one over (delegation#message-acedelegation1).
func evalDelegation(a *args, now int64) (wire.Value, error) {
	switch op := a.r.String("op"); op {
	case "credential":
		return evalCredential(a, now)
	case "message":
		return evalDelegationMessage(a, now)
	default:
		return wire.Value{}, fmt.Errorf("%w: op %q", errCannotEvaluate, op)
	}
}

func evalCredential(a *args, now int64) (wire.Value, error) {
	credential, log := a.r.Value("credential"), a.r.Value("issuerKel")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	issuer, err := kel.Verify(log, now)
	if err != nil {
		return wire.Value{}, err
	}
	c, err := delegation.Decode(credential, now)
	if err != nil {
		return wire.Value{}, err
	}
	if err := c.Verify(issuer, now); err != nil {
		return wire.Value{}, err
	}
	return facts(str("issuer", c.Issuer), str("subject", c.Subject)), nil
}

func evalDelegationMessage(a *args, now int64) (wire.Value, error) {
	direction := profile.Direction(a.r.String("direction"))
	from, to := a.r.String("from"), a.r.String("to")
	body := a.r.Value("body")
	log, hasLog := a.r.Optional("senderKel")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	if direction != profile.Send && (direction != profile.Receive || !hasLog) {
		return wire.Value{}, fmt.Errorf("%w: direction %q", errCannotEvaluate, direction)
	}
	var sender *kel.State
	if hasLog {
		var err error
		if sender, err = kel.Verify(log, now); err != nil {
			return wire.Value{}, err
		}
	}
	if err := delegation.CheckMessage(body, direction, from, to, sender, now); err != nil {
		return wire.Value{}, err
	}
	return facts(str("issuer", from), str("subject", to)), nil
}
