package core

import (
	"context"
	"time"

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

// ackTimeout bounds an acknowledgement: it is all that keeps a caller that was
// told to stop.
const ackTimeout = 5 * time.Second

// Ack also goes out when ctx has ended: what it acknowledges is processed, and
// would come again as a duplicate otherwise.
func (n *relayNet) Ack(ctx context.Context, through string, now int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), ackTimeout)
	defer cancel()
	return n.client.Ack(ctx, n.home, through, now)
}
