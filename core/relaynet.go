package core

import (
	"context"

	"github.com/ace-toolkit/ace/core/delivery"
	"github.com/ace-toolkit/ace/core/relayclient"
	"github.com/ace-toolkit/ace/core/wire"
)

// relayNet is delivery's network over HTTP, with the home relay's inbox.
type relayNet struct {
	client *relayclient.Client
	home   string
}

func (n *relayNet) Lookup(ctx context.Context, relay, aceID string) (wire.Value, error) {
	return n.client.Descriptor(ctx, relay, aceID)
}

func (n *relayNet) Post(ctx context.Context, relay string, packet, permit []byte) error {
	return n.client.Post(ctx, relay, packet, permit)
}

func (n *relayNet) Inbox(ctx context.Context, since string, now int64) ([]delivery.Entry, error) {
	page, err := n.client.Inbox(ctx, n.home, since, wire.MaxInboxPage, now)
	entries := make([]delivery.Entry, len(page))
	for i, e := range page {
		entries[i] = delivery.Entry(e)
	}
	return entries, err
}

func (n *relayNet) Ack(ctx context.Context, through string, now int64) error {
	return n.client.Ack(ctx, n.home, through, now)
}
