package fault

// Code is an error code of 06#error-codes, of a relay (07#errors) or of a
// profile rule. A Code is itself an error, so that it can be the target of
// errors.Is.
type Code string

// Error returns the code's text.
func (c Code) Error() string { return string(c) }

// Category says whether repeating an operation can help (06#error-codes).
type Category string

// The categories of 06#error-codes.
const (
	Permanent Category = "permanent"
	Transient Category = "transient"
	Local     Category = "local"
)

// The permanent codes of 06#error-codes.
const (
	InvalidArgument      Code = "invalid_argument"
	InvalidPacket        Code = "invalid_packet"
	UnsupportedVersion   Code = "unsupported_version"
	WrongRecipient       Code = "wrong_recipient"
	InvalidSignature     Code = "invalid_signature"
	InvalidAuthorization Code = "invalid_authorization"
	StaleTimestamp       Code = "stale_timestamp"
	StalePeerBinding     Code = "stale_peer_binding"
	DecryptionFailed     Code = "decryption_failed"
	UnknownPrekey        Code = "unknown_prekey"
	UnsupportedSchema    Code = "unsupported_schema"
	InvalidBody          Code = "invalid_body"
	ReplayHorizon        Code = "replay_horizon"
	InvalidKEL           Code = "invalid_kel"
	KELConflict          Code = "kel_conflict"
	UnknownPeer          Code = "unknown_peer"
	NotRegistered        Code = "not_registered"
	NotPermitted         Code = "not_permitted"
	RelayRejected        Code = "relay_rejected"
	BlockedAddress       Code = "blocked_address"
	DeliveryRejected     Code = "delivery_rejected"
	Expired              Code = "expired"
	StaleDescriptor      Code = "stale_descriptor"
)

// The transient codes of 06#error-codes.
const (
	RelayUnavailable   Code = "relay_unavailable"
	RelayProtocolError Code = "relay_protocol_error"
	FetchFailed        Code = "fetch_failed"
)

// The local codes of 06#error-codes.
const (
	StorageFailed       Code = "storage_failed"
	IdentityUnavailable Code = "identity_unavailable"
	LockBusy            Code = "lock_busy"
	ReceiverCapacity    Code = "receiver_capacity"
	ThreadBusy          Code = "thread_busy"
)

// Category returns the category of c. Codes that 06#error-codes does not list
// are those of profile rules and of relays, which are permanent.
func (c Code) Category() Category {
	switch c {
	case RelayUnavailable, RelayProtocolError, FetchFailed:
		return Transient
	case StorageFailed, IdentityUnavailable, LockBusy, ReceiverCapacity, ThreadBusy:
		return Local
	}
	return Permanent
}

// Retryable reports whether the operation may succeed when repeated:
// transient and local failures are retryable, permanent ones are not
// (06#error-codes).
func (c Code) Retryable() bool { return c.Category() != Permanent }
