package descriptor

import (
	"errors"
	"fmt"

	"github.com/ace-toolkit/ace/core/wire"
)

// maxRegistrationDepth bounds the nesting of a registration file.
const maxRegistrationDepth = 32

// ClaimsACE reports whether a registration file, the JSON that the tokenURI of
// an agent in an ERC-8004 registry leads to, names aceID among its services: the
// half of an erc8004 claim that the agent's owner on the chain makes
// (04#card-record). Which file that is, only the chain says; reading it is the
// caller's. The error, for text that is no JSON object, is plain.
func ClaimsACE(registration []byte, aceID string) (bool, error) {
	file, err := wire.Parse(registration, maxRegistrationDepth)
	if err != nil {
		return false, fmt.Errorf("registration file: %w", err)
	}
	if file.Kind() != wire.Object {
		return false, errors.New("registration file: is no object")
	}
	services, _ := file.Get("services")
	for _, service := range services.Items() {
		if memberIs(service, "name", "ACE") && memberIs(service, "endpoint", aceID) {
			return true, nil
		}
	}
	return false, nil
}

func memberIs(v wire.Value, name, want string) bool {
	member, _ := v.Get(name)
	s, ok := member.AsString()
	return ok && s == want
}
