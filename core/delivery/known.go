package delivery

import (
	"github.com/ace-toolkit/ace/core/admission"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/prekey"
	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/core/suite"
)

// known is what the open transaction of a chunk has read or written, for the
// packets behind. Nobody else writes meanwhile, so it holds as long as the
// packets of the chunk themselves change nothing of it, and for one reading of
// the clock. It is known to the next chunk too when nothing was committed in
// between.
type known struct {
	version store.Version // of the store when the chunk had ended
	own     *kel.State    // this identity's log
	now     int64
	pruned  bool // the seeds whose time has ended at now are deleted
	peers   map[string]*knownPeer
	seen    *seenTx
}

// knownPeer is what is known of one peer, each member nil until it is read.
type knownPeer struct {
	peer   *peer
	issuer *prekey.Issuer // without seeds
	held   *prekey.Held
	permit **admission.Permit // of the peer, when no renewal is due to it
	key    **suite.EncapsulationKey
}

func newKnown(tx *store.Tx, s SeenStore) *known { return &known{seen: s.in(tx)} }

// takeKnown returns what is known in the transaction of a chunk.
func (n *Node) takeKnown(tx *store.Tx) (*known, error) {
	k := n.last.Swap(nil)
	version, err := tx.Version()
	if k == nil || err != nil || k.version != version || k.own != n.id.State() {
		k = newKnown(tx, n.seen)
		k.own = n.id.State()
	}
	k.seen.tx = tx
	return k, err
}

// at makes the known that of a reading of the clock.
func (k *known) at(now int64) {
	if k.now != now || k.peers == nil || len(k.peers) > cachedLogs {
		k.now, k.pruned, k.peers = now, false, map[string]*knownPeer{}
	}
}

// of returns what is known of a peer.
func (k *known) of(id string) *knownPeer {
	p := k.peers[id]
	if p == nil {
		p = &knownPeer{}
		k.peers[id] = p
	}
	return p
}

func (k *known) forget(id string) { delete(k.peers, id) }

// once returns what *known holds, or reads it.
func once[T any](known **T, read func() (T, error)) (T, error) {
	if *known != nil {
		return **known, nil
	}
	v, err := read()
	if err == nil {
		*known = &v
	}
	return v, err
}

// loadPeer returns what is held of the sender.
func (in *incoming) loadPeer(tx *store.Tx) (peer, error) {
	from := in.packet.From
	return once(&in.known.of(from).peer, func() (peer, error) { return in.n.loadPeer(tx, from, in.now) })
}

// deleteEndedSeeds deletes them once for a reading of the clock.
func (in *incoming) deleteEndedSeeds(tx *store.Tx) error {
	if in.known.pruned {
		return nil
	}
	in.known.pruned = true
	return deleteEndedSeeds(tx, in.now)
}

// applyIssuer is the issuer rule of 04#peer-prekeys for a packet that opened
// under a peer prekey.
func (in *incoming) applyIssuer(tx *store.Tx) error {
	p := in.known.of(in.packet.From)
	before, err := p.loadIssuer(tx, in.packet.From)
	if err != nil {
		return err
	}
	after, deleted := before.Opened(in.packet.Prekey, in.now)
	p.issuer = &after
	return saveIssuer(tx, before, after, deleted)
}

// recordHeld is the holder rule of 04#peer-prekeys for a packet that opened.
func (in *incoming) recordHeld(tx *store.Tx, c prekey.Carried) error {
	p := in.known.of(in.packet.From)
	held, err := once(&p.held, func() (prekey.Held, error) { return loadHeld(tx, in.packet.From) })
	if err != nil {
		return err
	}
	next, recorded := held.Record(c)
	if !recorded {
		return nil
	}
	p.held = &next
	return tx.SetHeldPrekey(in.packet.From, store.HeldPrekey{PublicKey: next.PublicKey, Timestamp: next.Timestamp, Pin: next.Pin})
}

// changesPeer reports whether processing the packet may have changed what is
// known of its sender, beside what the rules of peer prekeys change.
func (in *incoming) changesPeer() bool {
	return in.contact != nil || in.recovery != nil || in.receipt != nil && (in.permit != nil || in.receipt.Prekey != "") ||
		in.content != nil && in.content.Admission != nil
}

func (p *knownPeer) loadIssuer(tx *store.Tx, id string) (prekey.Issuer, error) {
	return once(&p.issuer, func() (prekey.Issuer, error) { return loadIssuer(tx, id) })
}

// offer returns the public key that the next packet to a peer, signed at t,
// carries. That packet is posted once tx has committed (04#peer-prekeys).
func (p *knownPeer) offer(tx *store.Tx, id string, t, now int64) (publicKey []byte, err error) {
	before, err := p.loadIssuer(tx, id)
	if err != nil {
		return nil, err
	}
	after, carried, deleted := before.Offer(now, t)
	if err := saveIssuer(tx, before, after, deleted); err != nil {
		return nil, err
	}
	if carried.Seed != nil { // generated, and kept by its row from here on
		carried.Seed.Destroy()
		after.Offered.Seed = nil
	}
	p.issuer = &after
	return carried.PublicKey, nil
}
