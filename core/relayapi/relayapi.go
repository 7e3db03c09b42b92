// Package relayapi is what both ends of the relay's HTTP binding share (07):
// the authentication of requests, their arguments, registrations, the shapes of
// responses, the table of errors, and the address and handle rules.
//
// It is pure: no socket, no clock, no storage. A relay starts at [ParseHeaders],
// [VerifyRegistration] and [DecodeSend], a client at [SignHeaders] and
// [BuildRegistration]. Headers and query parameters are plain maps, to which
// http.Header and url.Values can be assigned.
package relayapi

// The media types of 07: JSON everywhere but on the stream of 07#listen.
const (
	MediaJSON   = "application/json"
	MediaStream = "text/event-stream"
)

// Dash is the value of since that means "from the start" (07#inbox).
const Dash = "-"
