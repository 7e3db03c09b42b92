package relayclient

import (
	"context"
	"net/http"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// Block tells relay to refuse, or no longer to refuse, packets of a peer. The
// revision has to exceed that of the last one for the peer (07#blocks).
func (c *Client) Block(ctx context.Context, relay string, b relayapi.Block, now int64) error {
	return c.command(ctx, relay, request{
		method: http.MethodPost, path: "/v1/blocks", body: b.Body(),
		action: kel.ActionBlock, payload: relayapi.BlockPayload(b.Peer, b.Blocked, b.Revision),
	}, now)
}

// SetWake registers where relay sends a wake when the queue has entries,
// replacing an earlier registration. A relay without wake hints answers
// relay_rejected with the remote code not_found (07#wake-hints).
func (c *Client) SetWake(ctx context.Context, relay string, w relayapi.Wake, now int64) error {
	return c.command(ctx, relay, request{
		method: http.MethodPut, path: "/v1/wake", body: w.Body(),
		action: kel.ActionWake, payload: relayapi.WakePayload(w.Gateway, w.Token),
	}, now)
}

// DeleteWake removes the wake registration (07#wake-hints).
func (c *Client) DeleteWake(ctx context.Context, relay string, now int64) error {
	return c.command(ctx, relay, request{
		method: http.MethodDelete, path: "/v1/wake",
		action: kel.ActionWake, payload: relayapi.WakeDeletePayload(),
	}, now)
}
