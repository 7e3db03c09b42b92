package relayclient

import (
	"context"
	"net/http"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/core/wire"
)

// Post hands relay a packet, with the permit of its recipient or nil for none,
// both as canonical JSON (07#send). Success means queued, never delivered. Codes:
// invalid_argument, not_permitted, and those of 07#client-rules.
func (c *Client) Post(ctx context.Context, relay string, packet, permit []byte) error {
	body := relayapi.SendBody(packet, permit)
	if len(body) > wire.MaxSendBodyBytes {
		return fault.New(fault.InvalidArgument, "packet and permit have %d bytes, more than %d", len(body), wire.MaxSendBodyBytes)
	}
	return c.command(ctx, relay, request{method: http.MethodPost, path: "/v1/send", body: body}, 0)
}
