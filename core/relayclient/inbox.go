package relayclient

import (
	"context"
	"net/http"
	"net/url"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// Inbox returns up to limit entries after since, "-" being the start, in stream
// order (07#inbox). A short page is not the end: continue after the last entry
// until a page is empty. Codes: invalid_argument, not_registered,
// identity_unavailable, and those of 07#client-rules.
func (c *Client) Inbox(ctx context.Context, relay, since string, limit, now int64) ([]relayapi.Entry, error) {
	query := url.Values{"since": {since}, "limit": {wire.Decimal(limit)}}
	if _, _, err := relayapi.ParseInbox(query); err != nil {
		return nil, err
	}
	body, err := c.exchange(ctx, relay, request{
		method: http.MethodGet, path: "/v1/inbox?" + query.Encode(), limit: wire.MaxPageBytes,
		action: kel.ActionInbox, payload: relayapi.InboxPayload(since, limit),
	}, now)
	if err != nil {
		return nil, err
	}
	entries, err := relayapi.ParseInboxPage(body, since)
	if err == nil && int64(len(entries)) > limit {
		return nil, fault.New(fault.RelayProtocolError, "response has %d entries, more than %d", len(entries), limit)
	}
	return entries, err
}

// Ack deletes the entries up to and including through (07#inbox). The caller
// acknowledges as 06#receive-pipeline states.
func (c *Client) Ack(ctx context.Context, relay, through string, now int64) error {
	query := url.Values{"through": {through}}
	if _, err := relayapi.ParseAck(query); err != nil {
		return err
	}
	return c.command(ctx, relay, request{
		method: http.MethodPost, path: "/v1/inbox/ack?" + query.Encode(),
		action: kel.ActionInboxAck, payload: relayapi.AckPayload(through),
	}, now)
}
