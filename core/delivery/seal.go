package delivery

import (
	"context"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/packet"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// seal adds the offered peer prekey to the content, encrypts it to a prekey of
// the peer and signs it (06#outbox-sender step 2). Codes: invalid_body (too
// large), invalid_argument (the prekey cannot be encapsulated to),
// identity_unavailable, storage_failed, lock_busy.
func (n *Node) seal(ctx context.Context, to, messageID string, c packet.Content, prekey []byte, now int64) (*packet.Packet, error) {
	key, err := encapsulationKey(to, prekey)
	if err != nil {
		return nil, err
	}
	t := n.id.SigningTime(now)
	err = n.store.Update(ctx, func(tx *store.Tx) error {
		c.Prekey, err = (&knownPeer{}).offer(tx, to, t, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	plaintext, err := c.Canonical()
	if err != nil {
		return nil, err
	}
	return packet.Seal(n.id, to, messageID, t, plaintext, key)
}

func encapsulationKey(peer string, prekey []byte) (*suite.EncapsulationKey, error) {
	key, err := suite.ParseEncapsulationKey(prekey)
	return key, fault.Wrapf(fault.InvalidArgument, err, "prekey of %s", peer)
}

// post hands a packet to relays in order until one takes it, and returns that
// one (06#outbox-sender step 3). The failure reported is a transient one, if
// there is any: the same relay may take it later. The relay is then that of the
// failure.
func (n *Node) post(ctx context.Context, relays []string, p *packet.Packet, permit *admission.Permit) (asked string, err error) {
	var raw []byte
	if permit != nil {
		raw = permit.Raw()
	}
	for _, relay := range relays {
		failed := n.net.Post(ctx, relay, p.Raw(), raw)
		if failed == nil {
			return relay, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err == nil || isTransient(failed) && !isTransient(err) {
			asked, err = relay, failed
		}
	}
	return asked, err
}

// postCore posts a packet of the core profile, which is dated with the clock.
func (n *Node) postCore(ctx context.Context, to string, relays []string, p *packet.Packet, permit *admission.Permit) (relay string, err error) {
	relays = n.detours.order(to, relays, p.Timestamp)
	relay, err = n.post(ctx, relays, p, permit)
	if err != nil {
		return "", err
	}
	n.detours.took(to, relays, relay, p.Timestamp)
	return relay, nil
}

// coreContent is the content of a packet of the core profile.
func (n *Node) coreContent(messageType string, body wire.Value) packet.Content {
	message, ok := n.profiles.Type(messageType)
	if !ok {
		panic("ace: internal error: the core profile is not installed")
	}
	return packet.Content{Type: messageType, SchemaDigest: message.Digest, Body: body}
}
