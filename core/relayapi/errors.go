package relayapi

import (
	"maps"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// The codes of 07#errors that only a relay states. The others are those of
// 06#error-codes.
const (
	InvalidRegistration fault.Code = "invalid_registration"
	StaleSeq            fault.Code = "stale_seq"
	FutureSeq           fault.Code = "future_seq"
	NotFound            fault.Code = "not_found"
	Replay              fault.Code = "replay"
	IdentityConflict    fault.Code = "identity_conflict"
	HandleTaken         fault.Code = "handle_taken"
	StaleRevision       fault.Code = "stale_revision"
	LimitExceeded       fault.Code = "limit_exceeded"
	PayloadTooLarge     fault.Code = "payload_too_large"
	RateLimited         fault.Code = "rate_limited"
	RecipientInboxFull  fault.Code = "recipient_inbox_full"
	InternalError       fault.Code = "internal_error"
)

// statuses is the table of 07#errors, in its order.
var statuses = map[fault.Code]int{
	fault.InvalidArgument:      400,
	fault.InvalidPacket:        400,
	fault.UnsupportedVersion:   400,
	InvalidRegistration:        400,
	fault.InvalidKEL:           400,
	fault.StaleTimestamp:       400,
	fault.InvalidSignature:     401,
	fault.InvalidAuthorization: 401,
	StaleSeq:                   401,
	fault.StalePeerBinding:     401,
	fault.NotRegistered:        403,
	fault.NotPermitted:         403,
	fault.UnknownPeer:          404,
	NotFound:                   404,
	Replay:                     409,
	IdentityConflict:           409,
	FutureSeq:                  409,
	fault.KELConflict:          409,
	fault.StaleDescriptor:      409,
	HandleTaken:                409,
	StaleRevision:              409,
	LimitExceeded:              409,
	PayloadTooLarge:            413,
	RateLimited:                429,
	RecipientInboxFull:         429,
	InternalError:              500,
}

// Statuses returns a copy of the table of 07#errors: each code a relay may
// state and its HTTP status.
func Statuses() map[fault.Code]int { return maps.Clone(statuses) }

// HTTPStatus returns the HTTP status of code (07#errors), 500 for one that the
// table does not list.
func HTTPStatus(code fault.Code) int {
	if s, ok := statuses[code]; ok {
		return s
	}
	return statuses[InternalError]
}

// ErrorBody returns the body {"error": code, "message": message} of a refusal
// (07#errors), without message when it is empty. A code outside the table is an
// internal matter of the relay and is stated as internal_error.
func ErrorBody(code fault.Code, message string) []byte {
	if _, ok := statuses[code]; !ok {
		code = InternalError
	}
	members := []wire.Member{wire.M("error", wire.NewString(string(code)))}
	if message != "" {
		members = append(members, wire.M("message", wire.NewString(message)))
	}
	return wire.NewObject(members...).Canonical()
}

// ParseError returns the error member of a refusal's body and whether there is
// one: the body is an object of acceptable JSON and the member a string
// (07#client-rules). The text is the relay's: it may be anything.
func ParseError(body []byte) (string, bool) {
	v, err := wire.Parse(body, wire.MaxResponseDepth)
	if err != nil {
		return "", false
	}
	member, _ := v.Get("error")
	return member.AsString()
}
