package relayclient

import (
	"context"
	"net/http"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
)

// Register registers the identity at relay, or refreshes its registration
// (07#registration). Codes: identity_unavailable, and those of 07#client-rules.
func (c *Client) Register(ctx context.Context, relay string, now int64) (relayapi.Status, error) {
	if c.id == nil {
		return "", fault.New(fault.IdentityUnavailable, "a registration needs an identity")
	}
	r, err := relayapi.BuildRegistration(c.id, relay, now)
	if err != nil {
		return "", err
	}
	body, err := c.exchange(ctx, relay, request{method: http.MethodPost, path: "/v1/register", body: r.Raw, limit: maxShortBody}, now)
	if err != nil {
		return "", err
	}
	return relayapi.ParseOKStatus(body)
}

// Unregister removes the identity's registration, queue, descriptor, card
// record and blocks at relay (07#registration).
func (c *Client) Unregister(ctx context.Context, relay string, now int64) error {
	return c.command(ctx, relay, request{
		method: http.MethodPost, path: "/v1/unregister",
		action: kel.ActionUnregister, payload: relayapi.UnregisterPayload(),
	}, now)
}

// PutDescriptor publishes a PublishedAgent, given as its canonical JSON
// (07#descriptors-and-cards).
func (c *Client) PutDescriptor(ctx context.Context, relay string, agent []byte) error {
	return c.command(ctx, relay, request{method: http.MethodPost, path: "/v1/descriptor", body: agent}, 0)
}

// PutCard publishes a CardBundle, given as its canonical JSON
// (07#descriptors-and-cards).
func (c *Client) PutCard(ctx context.Context, relay string, bundle []byte) error {
	return c.command(ctx, relay, request{method: http.MethodPost, path: "/v1/card", body: bundle}, 0)
}
