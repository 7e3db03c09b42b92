package relayapi

import (
	"strings"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// Skeleton returns the skeleton of a handle: without hyphens, 0 read as o and 1
// as l (07#descriptors-and-cards).
func Skeleton(handle string) string {
	return strings.NewReplacer("-", "", "0", "o", "1", "l").Replace(handle)
}

// Claim is a verified card record and what the relay knows about the handle it
// names. The relay fills it from its tables in the transaction that stores the
// record.
type Claim struct {
	Relay  string // the relay's public URL
	Home   string // the record's home
	Handle string // the record's handle, "" for none

	Held     string // the handle bound here to the record's identity, "" for none
	Taken    bool   // a handle with the same skeleton is bound here or reserved
	InWindow int    // bindings by this client network in the last 86400 seconds
}

// ClaimOutcome says what storing the record does to the bindings.
type ClaimOutcome string

// The outcomes of an accepted record.
const (
	Bound  ClaimOutcome = "bound"  // the handle is newly bound to the identity
	Stored ClaimOutcome = "stored" // nothing is bound
)

// Decide applies the handle rules of 07#descriptors-and-cards in their order.
// Codes: invalid_authorization (a handle at a home with a path),
// invalid_argument, handle_taken, rate_limited.
func (c Claim) Decide() (ClaimOutcome, error) {
	switch {
	case c.Handle != "" && wire.RelayHasPath(c.Home):
		return "", fault.New(fault.InvalidAuthorization, "card.handle: a home with a path binds no handle")
	case c.Home != c.Relay:
		return Stored, nil
	case c.Held != "" && c.Handle != c.Held:
		return "", fault.New(fault.InvalidArgument, "card.handle: not the handle bound to this identity")
	case c.Held != "" || c.Handle == "":
		return Stored, nil
	case c.Taken:
		return "", fault.New(HandleTaken, "card.handle: bound to another identity, reserved, or too similar to one that is")
	case c.InWindow >= wire.HandleClaimsPerNetworkPerDay:
		return "", fault.New(RateLimited, "card.handle: this network has bound %d handles today", c.InWindow)
	}
	return Bound, nil
}
