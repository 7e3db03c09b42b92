package core

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/wire"
)

const (
	minPrefix     = 12 // hex digits of an ACE ID that stand for a known peer
	maxNameLength = 64 // bytes of a petname
)

// Peer is what a lookup verified.
type Peer struct {
	ACEID      string
	Descriptor *descriptor.PublishedAgent
	Card       *descriptor.CardBundle // nil when the peer has none
	PinOutcome string                 // adopted, extended, recovered or unchanged
}

// Resolve turns what a person typed into an ACE ID: an ACE ID, @name@host, a
// petname, or at least 12 hex digits with which the ID of one known peer begins.
// A handle is looked up at its relay and pinned (04#card-record). Codes:
// invalid_argument (malformed or ambiguous), unknown_peer,
// invalid_authorization, stale_descriptor, and those of 07#client-rules.
func (e *Endpoint) Resolve(ctx context.Context, peer string) (string, error) {
	switch {
	case wire.IsACEID(peer):
		return peer, nil
	case strings.Contains(peer, "@"):
		return e.resolveHandle(ctx, peer)
	}
	var named string
	var known []string
	err := e.store.View(ctx, func(tx *store.Tx) (err error) {
		if named, err = tx.PeerNamed(peer); err != nil || named != "" {
			return err
		}
		known, err = e.knownPeers(tx, peer)
		return err
	})
	switch {
	case err != nil:
		return "", err
	case named != "":
		return named, nil
	case len(known) > 1:
		return "", fault.New(fault.InvalidArgument, "%q stands for %d known peers: write more digits", peer, len(known))
	case len(known) == 0:
		return "", fault.New(fault.UnknownPeer, "no peer is known as %.80q", peer)
	}
	return known[0], nil
}

// knownPeers returns the known peers whose ACE ID begins with the given digits.
func (e *Endpoint) knownPeers(tx *store.Tx, prefix string) (known []string, err error) {
	digits := strings.TrimPrefix(prefix, wire.ACEID(""))
	if len(digits) < minPrefix {
		return nil, nil
	}
	pinned, err := tx.Pinned()
	if err != nil {
		return nil, err
	}
	requests, err := tx.RequestHeads(0)
	if err != nil {
		return nil, err
	}
	for _, r := range requests {
		pinned = append(pinned, r.Peer)
	}
	for _, id := range pinned {
		if strings.HasPrefix(id, wire.ACEID(digits)) && !slices.Contains(known, id) {
			known = append(known, id)
		}
	}
	return known, nil
}

func (e *Endpoint) resolveHandle(ctx context.Context, typed string) (string, error) {
	now, err := e.now()
	if err != nil {
		return "", err
	}
	address, err := descriptor.ParseHandleAddress(typed, e.urls)
	if err != nil {
		return "", err
	}
	served, err := e.client.Handle(ctx, address.Home, address.Name)
	if err != nil {
		return "", err
	}
	bundle, err := e.node.AdoptResolved(ctx, address, served, now)
	if err != nil {
		return "", err
	}
	return bundle.ACEID, nil
}

// Lookup fetches the descriptor of an ACE ID at the relays it is known at and at
// the home relay, verifies and pins it, and then its card record, at the relays
// of the descriptor (04#caching, 04#card-record). Codes: unknown_peer, those of
// 04#verification and 04#card-record, and those of 07#client-rules.
func (e *Endpoint) Lookup(ctx context.Context, aceID string) (*Peer, error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	if !wire.IsACEID(aceID) {
		return nil, fault.New(fault.InvalidArgument, "%.80q is not an ACE ID", aceID)
	}
	found, err := e.node.Lookup(ctx, aceID, now)
	if err != nil {
		return nil, err
	}
	card, err := e.lookupCard(ctx, found.Agent, now)
	if err != nil {
		return nil, err
	}
	return &Peer{ACEID: aceID, Descriptor: found.Agent, Card: card, PinOutcome: string(found.Outcome)}, nil
}

// ImportAgent takes in a peer's PublishedAgent {kel, descriptor} that came over
// another way than a relay, at most 1 MiB of JSON: it is verified and pinned as
// what a lookup finds, and asks no relay (04#caching). The peer's card stays
// unknown. Codes: invalid_argument for the own one, and those of
// 04#verification.
func (e *Endpoint) ImportAgent(ctx context.Context, text []byte) (*Peer, error) {
	now, err := e.now()
	if err != nil {
		return nil, err
	}
	if len(text) > wire.MaxPublishedAgentBytes {
		return nil, fault.New(fault.InvalidAuthorization, "a published agent has at most %d bytes", wire.MaxPublishedAgentBytes)
	}
	published, err := wire.Parse(text, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidAuthorization, err)
	}
	found, err := e.node.ImportAgent(ctx, published, now)
	if err != nil {
		return nil, err
	}
	return &Peer{ACEID: found.Agent.ACEID, Descriptor: found.Agent, PinOutcome: string(found.Outcome)}, nil
}

// lookupCard asks the relays of a descriptor in order until one serves the card
// record of its identity (04#card-record), nil when none does.
func (e *Endpoint) lookupCard(ctx context.Context, agent *descriptor.PublishedAgent, now int64) (*descriptor.CardBundle, error) {
	var failure error
	for _, relay := range agent.Relays {
		served, err := e.client.Card(ctx, relay, agent.ACEID)
		if err == nil {
			var bundle *descriptor.CardBundle
			if bundle, err = e.node.AdoptCard(ctx, agent.ACEID, served, now); err == nil {
				return bundle, nil
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if failure == nil && !errors.Is(err, fault.UnknownPeer) {
			failure = err
		}
	}
	return nil, failure
}

// SetName gives a peer a local petname, "" taking it away. Codes:
// invalid_argument for a name that could be taken for something else, or that
// another peer has.
func (e *Endpoint) SetName(ctx context.Context, aceID, name string) error {
	if !wire.IsACEID(aceID) {
		return fault.New(fault.InvalidArgument, "%.80q is not an ACE ID", aceID)
	}
	if name != "" && !isPetname(name) {
		return fault.New(fault.InvalidArgument, "petname %.80q: up to %d characters, no blank, control character, @ or : and not %d hex digits",
			name, maxNameLength, minPrefix)
	}
	return e.store.Update(ctx, func(tx *store.Tx) error {
		holder, err := tx.PeerNamed(name)
		if err != nil {
			return err
		}
		if name != "" && holder != "" && holder != aceID {
			return fault.New(fault.InvalidArgument, "petname %q is that of %s", name, holder)
		}
		return tx.SetName(aceID, name)
	})
}

func isPetname(s string) bool {
	if len(s) > maxNameLength || wire.HasControl(s) || strings.ContainsAny(s, "@: ") {
		return false
	}
	return len(s) < minPrefix || strings.Trim(s, "0123456789abcdef") != ""
}
