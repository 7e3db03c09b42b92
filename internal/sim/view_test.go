package sim

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ace-toolkit/ace/core/audit"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// view is a store as it is between two steps.
type view struct {
	outbox     []store.OutboxEntry
	messages   []store.Message
	contacts   map[string]store.Contact // by peer, as all that follow
	pins       map[string]*kel.State
	held       map[string]store.Permit
	issued     map[string]store.Permit
	prekeys    map[string][]store.Prekey // "": the published ones
	requests   []store.Request
	seen       map[received]store.Seen
	horizon    int64
	horizons   map[string]int64
	audits     []store.Audit
	quarantine []store.Quarantined
	threads    map[threadKey]bargain
	heldKey    map[string]string // ID of the prekey held, by peer
	blocks     map[string]store.Block
	handlings  map[received]store.Handling
	withheld   []store.Withheld
}

// refused are the rows about packets that were not taken in.
var refused = store.AuditFilter{Events: []audit.Event{audit.MessageDropped, audit.MessageRejected}}

func (v *view) entry(id string) *store.OutboxEntry {
	for i := range v.outbox {
		if v.outbox[i].MessageID == id {
			return &v.outbox[i]
		}
	}
	return nil
}

// message reports whether a message of a peer was taken in.
func (v *view) message(peer, id string) bool {
	return slices.ContainsFunc(v.messages, func(m store.Message) bool { return m.Peer == peer && m.MessageID == id })
}

// isWithheld reports whether a message of a peer is set aside.
func (v *view) isWithheld(peer, id string) bool {
	return slices.ContainsFunc(v.withheld, func(m store.Withheld) bool { return m.Peer == peer && m.MessageID == id })
}

func (h *host) load() *view {
	v := &view{
		contacts: map[string]store.Contact{}, pins: map[string]*kel.State{}, held: map[string]store.Permit{}, issued: map[string]store.Permit{},
		prekeys: map[string][]store.Prekey{}, seen: map[received]store.Seen{}, horizons: map[string]int64{},
		threads: map[threadKey]bargain{}, heldKey: map[string]string{}, blocks: map[string]store.Block{}, handlings: map[received]store.Handling{},
	}
	h.read(func(tx *store.Tx) error {
		var failures []error
		note := func(err error) { failures = append(failures, err) }
		var err error
		v.outbox, err = tx.OutboxEntries()
		note(err)
		v.messages, err = tx.Messages(store.MessageFilter{})
		note(err)
		v.requests, err = tx.Requests(0)
		note(err)
		v.horizon, _, err = tx.SeenHorizon()
		note(err)
		v.audits, err = tx.Audits(refused)
		note(err)
		v.quarantine, err = tx.Quarantine()
		note(err)
		contacts, err := tx.Contacts(h.clock())
		note(err)
		for _, c := range contacts {
			v.contacts[c.Peer] = c
		}
		handlings, err := tx.Handlings()
		note(err)
		for _, x := range handlings {
			v.handlings[received{x.Peer, x.MessageID}] = x
		}
		v.withheld, err = tx.WithheldMessages()
		note(err)
		seen, err := tx.SeenEntries()
		note(err)
		for _, s := range seen {
			v.seen[received{s.Peer, s.MessageID}] = s
		}
		horizons, err := tx.SenderHorizons(-1)
		note(err)
		for _, s := range horizons {
			v.horizons[s.Peer] = s.Horizon
		}
		note(v.loadThreads(tx))
		v.prekeys[""], err = tx.Prekeys("")
		note(err)
		for _, other := range h.w.hosts {
			note(h.loadPeer(tx, v, other.id.ACEID()))
		}
		for _, err := range failures {
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, kept := range v.prekeys {
		for _, k := range kept {
			h.keys[k.ID] = true
			k.Seed.Destroy()
		}
	}
	return v
}

func (h *host) loadPeer(tx *store.Tx, v *view, peer string) (err error) {
	if peer == h.id.ACEID() {
		return nil
	}
	if v.pins[peer], err = h.pinned(tx, peer); err != nil {
		return err
	}
	if v.held[peer], _, err = tx.Permit(peer, store.PermitHeld); err != nil {
		return err
	}
	if v.issued[peer], _, err = tx.Permit(peer, store.PermitIssued); err != nil {
		return err
	}
	held, ok, err := tx.HeldPrekey(peer)
	if err != nil {
		return err
	}
	if ok {
		v.heldKey[peer] = suite.Hex256(held.PublicKey)
	}
	block, ok, err := tx.Block(peer)
	if err != nil {
		return err
	}
	if ok {
		v.blocks[peer] = block
	}
	v.prekeys[peer], err = tx.Prekeys(peer)
	return err
}

func (v *view) loadThreads(tx *store.Tx) error {
	list, err := tx.Threads(profile.CommerceID, "")
	if err != nil {
		return err
	}
	for _, t := range list {
		entries, err := tx.ThreadEntries(profile.CommerceID, t.Peer, t.ThreadID, 0)
		if err != nil {
			return err
		}
		slices.Reverse(entries)
		v.threads[threadKey{t.Peer, t.ThreadID}] = bargain{state: t.State, opener: t.Opener, entries: entries}
	}
	return nil
}

// pinned returns the pinned log of a peer, nil without a pin.
func (h *host) pinned(tx *store.Tx, peer string) (*kel.State, error) {
	pin, ok, err := tx.Pin(peer)
	if err != nil || !ok {
		return nil, err
	}
	log, err := wire.Parse(pin.KEL, wire.MaxJSONDepth)
	if err != nil {
		return nil, err
	}
	return h.w.kels.Verify(log, max(h.clock(), pin.FetchedAt))
}

// read looks at the store as it is on disk.
func (h *host) read(f func(*store.Tx) error) {
	// In a transaction that could write, but is undone: the onlooker gets by with
	// one connection then, and to open one is the most of its work.
	undone := errors.New("seen")
	err := h.files.Update(h.w.ctx, func(tx *store.Tx) error { return cmp.Or(f(tx), undone) })
	if err != undone {
		h.w.violate("a store can be read", "06#deduplication", "%s: %v", h.name, err)
	}
}

// pinOf returns the log that a host has pinned of a peer, nil without one.
func (w *world) pinOf(h *host, peer string) (state *kel.State) {
	h.read(func(tx *store.Tx) (err error) {
		state, err = h.pinned(tx, peer)
		return err
	})
	return state
}
