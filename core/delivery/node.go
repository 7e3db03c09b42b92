// Package delivery sends and receives packets for one identity: the Outbox, the
// receive pipeline and receipts of chapter 06, with the admission and prekey
// rules that take effect on the way.
//
// A [Node] holds no state but its store, and in memory what its rows say and
// which relays failed lately. A sender calls [Node.Enqueue] and
// [Node.Attempt]; a receiver [Node.Pull], or [Node.ReceivePage] with the entries
// of a stream. Contacts begin with [Node.SendRequest] and are decided with
// [Node.AcceptRequest] and [Node.RejectRequest]. The network is reached through
// [Net] alone, and never inside a transaction of the store.
package delivery

import (
	"context"
	"sync/atomic"

	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/policy"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

// defaultCapacity is how many messages not yet handled a receiver takes in
// before it stops consuming its inbox.
const defaultCapacity = 100_000

// cachedLogs bounds the verified key event logs kept in memory, and what else is
// kept of as many peers.
const cachedLogs = 64

// Config says for whom a Node works and with what.
type Config struct {
	Identity *kel.Identity
	Store    *store.Store
	Net      Net
	Profiles *profile.Set
	Accept   map[string]string // profile ID -> digest: requests accepted without a decision (05#flow step 2)
	Home     string            // the identity's own relay, where peers are looked up too
	URLs     wire.URLPolicy
	Policy   policy.Policy
	Capacity int64 // messages not yet handled, 0: 100,000
}

// Node sends and receives for one identity. It is safe for concurrent use,
// except that one goroutine receives at a time.
type Node struct {
	id       *kel.Identity
	store    *store.Store
	net      Net
	profiles *profile.Set
	accept   map[string]string
	home     string
	verify   descriptor.Options
	seen     SeenStore
	policy   policy.Policy
	capacity int64

	// What rows say that were read before.
	logs    parsed[wire.Value]
	agents  parsed[*descriptor.PublishedAgent]
	permits parsed[*admission.Permit]
	checked *admission.PermitCache
	last    atomic.Pointer[known] // to the last chunk, nil while there is one

	detours detours
}

// New returns a node and starts the seen store of a new endpoint. Codes:
// storage_failed, lock_busy.
func New(ctx context.Context, c Config, now int64) (*Node, error) {
	n := &Node{
		id: c.Identity, store: c.Store, net: c.Net, profiles: c.Profiles, accept: c.Accept, home: c.Home,
		verify:   descriptor.Options{URLs: c.URLs, KELs: kel.NewCache(cachedLogs)},
		seen:     SeenStore{Capacity: minSeenCapacity},
		policy:   c.Policy,
		capacity: c.Capacity,
		checked:  admission.NewPermitCache(2 * cachedLogs),
	}
	if n.capacity == 0 {
		n.capacity = defaultCapacity
	}
	err := c.Store.Update(ctx, func(tx *store.Tx) error {
		if err := tx.Bind(c.Identity.ACEID()); err != nil {
			return err
		}
		return n.seen.Start(tx, now)
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// ownAgent returns the identity's own PublishedAgent, nil unless it is unexpired
// and carries the current log.
func (n *Node) ownAgent(tx *store.Tx, now int64) (*descriptor.PublishedAgent, error) {
	own, ok, err := tx.Own(store.OwnDescriptor)
	if err != nil || !ok {
		return nil, err
	}
	agent, err := descriptor.DecodeStored(own.Raw)
	if err != nil {
		return nil, err
	}
	if !agent.Usable(now, n.id.State()) {
		return nil, nil
	}
	return agent, nil
}

// needOwnAgent is ownAgent for packets that cannot go without one. Code:
// identity_unavailable.
func (n *Node) needOwnAgent(ctx context.Context, now int64) (agent *descriptor.PublishedAgent, err error) {
	err = n.store.View(ctx, func(tx *store.Tx) error {
		agent, err = n.ownAgent(tx, now)
		return err
	})
	if err == nil && agent == nil {
		err = fault.New(fault.IdentityUnavailable, "no unexpired descriptor of this identity: publish first")
	}
	return agent, err
}

// contactSetting returns the contact setting of the local card record. Without
// one the agent is closed (04#card-record).
func (n *Node) contactSetting(tx *store.Tx) (string, error) {
	own, ok, err := tx.Own(store.OwnCard)
	if err != nil || !ok {
		return descriptor.ContactClosed, err
	}
	card, err := descriptor.DecodeStoredCard(own.Raw)
	if err != nil {
		return "", err
	}
	return card.Contact, nil
}

// shares reports whether a peer that lists the given profiles has a profile of
// that ID in common with this endpoint: ID and digest are equal
// (08#installation-and-announcement).
func (n *Node) shares(profileID string, listed []descriptor.Profile) bool {
	own, ok := n.profiles.Profile(profileID)
	if !ok || profileID == profile.CoreID {
		return false
	}
	for _, p := range listed {
		if p.ID == profileID {
			return p.Digest == own.Digest
		}
	}
	return false
}
