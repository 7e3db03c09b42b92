package relayclient

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// Lookups are anonymous: a relay does not learn who asks (04#caching).

// Descriptor looks up the PublishedAgent of an ACE ID, which the caller
// verifies. Codes: invalid_argument, unknown_peer, and those of
// 07#client-rules.
func (c *Client) Descriptor(ctx context.Context, relay, aceID string) (wire.Value, error) {
	return c.lookup(ctx, relay, "/v1/descriptor/", aceID, wire.IsACEID)
}

// Card looks up the CardBundle of an ACE ID, which the caller verifies. Codes
// as Descriptor.
func (c *Client) Card(ctx context.Context, relay, aceID string) (wire.Value, error) {
	return c.lookup(ctx, relay, "/v1/card/", aceID, wire.IsACEID)
}

// Handle looks up the CardBundle of the identity a handle is bound to. The
// caller verifies it and checks home and handle (04#card-record). Codes as
// Descriptor.
func (c *Client) Handle(ctx context.Context, relay, name string) (wire.Value, error) {
	return c.lookup(ctx, relay, "/v1/handles/", name, wire.IsHandle)
}

func (c *Client) lookup(ctx context.Context, relay, path, name string, is func(string) bool) (wire.Value, error) {
	if !is(name) {
		return wire.Value{}, fault.New(fault.InvalidArgument, "lookup: %.80q is malformed", name)
	}
	body, err := c.exchange(ctx, relay, request{method: http.MethodGet, path: path + name, limit: maxLookupBody}, 0)
	if err != nil {
		return wire.Value{}, err
	}
	return relayapi.ParseLookup(body)
}

// Directory returns one page of the public directory, starting after d.Cursor
// ("" for the first page). A Limit of 0 is the relay's default. The caller
// verifies each CardBundle (07#descriptors-and-cards).
func (c *Client) Directory(ctx context.Context, relay string, d relayapi.Directory) (relayapi.DirectoryPage, error) {
	query := url.Values{}
	for name, value := range map[string]string{"tag": d.Tag, "profile": d.Profile, "cursor": d.Cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if d.Limit != 0 {
		query.Set("limit", wire.Decimal(d.Limit))
	}
	path := "/v1/cards"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	body, err := c.exchange(ctx, relay, request{method: http.MethodGet, path: path, limit: wire.MaxPageBytes}, 0)
	if err != nil {
		return relayapi.DirectoryPage{}, err
	}
	return relayapi.ParseDirectoryPage(body)
}
