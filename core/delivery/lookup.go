package delivery

import (
	"context"
	"slices"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// Found is a peer whose descriptor was looked up.
type Found struct {
	Agent   *descriptor.PublishedAgent // usable now
	Pin     *kel.State
	Outcome kel.Outcome // what the lookup did to the pin
}

// Lookup fetches the descriptor of a peer from the relays it is known at and the
// home relay, in that order, verifies it under the pin, and pins it
// (04#caching). The first relay that serves a descriptor usable now decides.
// Codes: unknown_peer when every relay says so, a transient one when one could
// not be asked, else the failure of what was served.
func (n *Node) Lookup(ctx context.Context, id string, now int64) (Found, error) {
	p, relays, err := n.lookupRelays(ctx, id, now)
	if err != nil {
		return Found{}, err
	}
	failure := error(fault.New(fault.UnknownPeer, "no relay knows %s", id))
	for _, relay := range relays {
		found, err := n.lookupAt(ctx, relay, p, now)
		if err == nil {
			return found, nil
		}
		if ctx.Err() != nil {
			return Found{}, ctx.Err()
		}
		if weight(err) > weight(failure) {
			failure = err
		}
	}
	return Found{}, failure
}

// weight orders the failures of a lookup by what they say about the peer: a
// relay that could not be asked may know it.
func weight(err error) int {
	switch {
	case fault.CodeOf(err).Retryable():
		return 2
	case fault.CodeOf(err) != fault.UnknownPeer:
		return 1
	}
	return 0
}

// lookupRelays returns where to look a peer up: at the relays of its cached
// descriptor, stale or not, since a lookup is anonymous (04#caching), at the
// home of its card record, and at the own relay. For a descriptor of a
// superseded key those are all but the home: a thief of the key has signed the
// card record too.
func (n *Node) lookupRelays(ctx context.Context, id string, now int64) (p peer, relays []string, err error) {
	err = n.store.View(ctx, func(tx *store.Tx) error {
		if p, err = n.loadPeer(tx, id, now); err != nil {
			return err
		}
		if p.agent != nil {
			relays = append(relays, p.agent.Relays...)
			if p.pin == nil || p.agent.KELEnd() != p.pin.LastHash() {
				return nil
			}
		}
		card, ok, err := tx.Card(id)
		if err != nil || !ok || card.Raw == nil {
			return err
		}
		bundle, err := descriptor.DecodeStoredCard(card.Raw)
		if err == nil {
			relays = append(relays, bundle.Home)
		}
		return err
	})
	relays = append(relays, n.home)
	var distinct []string
	for _, relay := range relays {
		if !slices.Contains(distinct, relay) {
			distinct = append(distinct, relay)
		}
	}
	return p, distinct, err
}

func (n *Node) lookupAt(ctx context.Context, relay string, p peer, now int64) (Found, error) {
	published, err := n.net.Lookup(ctx, relay, p.id)
	if err != nil {
		return Found{}, err
	}
	return n.adoptFound(ctx, p, published, now)
}

// ImportAgent takes in a PublishedAgent that was shared out of band, as one that
// a relay served. Codes: invalid_argument for the own one, those of
// 04#verification, and stale_descriptor or stale_peer_binding for one that may
// not be used now.
func (n *Node) ImportAgent(ctx context.Context, published wire.Value, now int64) (Found, error) {
	id := descriptor.StatedID(published)
	if !wire.IsACEID(id) {
		return Found{}, fault.New(fault.InvalidAuthorization, "descriptor.aceId: %.80q is not an ACE ID", id)
	}
	if err := n.checkOther(id); err != nil {
		return Found{}, err
	}
	p, err := n.viewPeer(ctx, id, now)
	if err != nil {
		return Found{}, err
	}
	return n.adoptFound(ctx, p, published, now)
}

// adoptFound pins what was found of a peer, and returns the descriptor to use.
func (n *Node) adoptFound(ctx context.Context, p peer, published wire.Value, now int64) (Found, error) {
	var a adopted
	err := n.store.Update(ctx, func(tx *store.Tx) (err error) {
		a, err = n.adopt(tx, p.id, published, now)
		return err
	})
	if err != nil {
		return Found{}, n.noteConflict(ctx, p.id, err, now)
	}
	found := Found{Agent: a.agent, Pin: a.pin, Outcome: a.outcome}
	if a.refused != nil {
		// 04#caching: an older candidate leaves the cached one, if that is usable.
		found.Agent = p.agent
	}
	if !(peer{agent: found.Agent, pin: a.pin}).usable(now) {
		if a.refused != nil {
			return Found{}, a.refused
		}
		return Found{}, fault.New(fault.StalePeerBinding, "descriptor of %s ends before its pin", p.id)
	}
	return found, nil
}

// ensureAgent returns the peer with a descriptor that may be encrypted to,
// refreshing one that is missing, expired or stale. When that fails, the failure
// is reported: there is no fallback to a stale descriptor (04#caching).
func (n *Node) ensureAgent(ctx context.Context, p peer, now int64) (peer, error) {
	if p.usable(now) {
		return p, nil
	}
	return n.refreshed(ctx, p, now)
}

func (n *Node) refreshed(ctx context.Context, p peer, now int64) (peer, error) {
	found, err := n.Lookup(ctx, p.id, now)
	if err != nil {
		return p, err
	}
	p.agent, p.pin = found.Agent, found.Pin
	return p, nil
}

// PinnedLog returns the log that is pinned for a peer, nil when none is
// (01#pinning). Code: storage_failed.
func (n *Node) PinnedLog(ctx context.Context, id string, now int64) (pin *kel.State, err error) {
	err = n.store.View(ctx, func(tx *store.Tx) error {
		pin, err = n.loadPin(tx, id, now)
		return err
	})
	return pin, err
}
