package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/wire"
)

// Entry is one entry of the inbox at a relay (07#inbox).
type Entry struct {
	StreamID string
	Packet   wire.Value
}

// Net is the network as delivery needs it. What it returns is unverified. Errors
// carry the codes of 07#client-rules.
type Net interface {
	// Lookup asks a relay, anonymously, for the PublishedAgent of an ACE ID.
	Lookup(ctx context.Context, relay, aceID string) (wire.Value, error)
	// Post hands a relay a packet, with a permit or nil, both canonical JSON.
	Post(ctx context.Context, relay string, packet, permit []byte) error
	// Inbox returns the next entries after a stream ID ("-": the start) in
	// stream order, at most MAX_INBOX_PAGE, none at the end.
	Inbox(ctx context.Context, since string, now int64) ([]Entry, error)
	// Ack deletes the entries up to and including a stream ID.
	Ack(ctx context.Context, through string, now int64) error
}
