package prekey

// Offer is a peer prekey that packets to its peer have carried.
type Offer struct {
	Key
	Carried int64 // greatest timestamp of a packet that carried it as the offered key
}

// Issuer is what this agent keeps about the keys it offers to one peer: at most
// the offered and the in-use key, nil when there is none (04#peer-prekeys). Two
// equal values (==) hold the same keys with the same times.
//
// After a packet opened under the offered key there is none until the next
// packet to the peer is made, which generates it.
type Issuer struct {
	Peer    string // ACE ID the keys are offered to
	Offered *Offer
	InUse   *Offer
}

// Offer returns the key that the next packet to the peer carries, generated if
// none is offered, and records that a packet signed with the given timestamp
// carries it. The result has to be stored before that packet is posted. Deleted
// are the keys whose time has ended at now.
func (i Issuer) Offer(now, timestamp int64) (next Issuer, carried Key, deleted []Key) {
	next, deleted = i.Prune(now)
	switch {
	case next.Offered == nil:
		next.Offered = &Offer{Key: Generate(), Carried: timestamp}
	case next.Offered.Carried < timestamp:
		next.Offered = &Offer{Key: next.Offered.Key, Carried: timestamp}
	}
	return next, next.Offered.Key, deleted
}

// Opened records that a packet from the peer opened under the key with the
// given ID: the offered key becomes the in-use key and the one in use until
// then is deleted. Any other key changes nothing (04#peer-prekeys). Deleted are
// also the keys whose time has ended at now. The result has to be stored before
// the packet is acknowledged.
func (i Issuer) Opened(id string, now int64) (next Issuer, deleted []Key) {
	next, deleted = i.Prune(now)
	if next.Offered == nil || next.Offered.ID != id {
		return next, deleted
	}
	if next.InUse != nil {
		deleted = append(deleted, next.InUse.Key)
	}
	next.Offered, next.InUse = nil, next.Offered
	return next, deleted
}

// Prune deletes the keys last carried OFFLINE_WINDOW_SECONDS ago or longer.
func (i Issuer) Prune(now int64) (next Issuer, deleted []Key) {
	next = i
	for _, slot := range []**Offer{&next.Offered, &next.InUse} {
		if *slot != nil && ended((*slot).Carried, now) {
			deleted = append(deleted, (*slot).Key)
			*slot = nil
		}
	}
	return next, deleted
}

// Find returns the key with the given ID that may open a packet of from at now.
// A key opens only packets of the peer it was offered to (04#peer-prekeys).
func (i Issuer) Find(id, from string, now int64) (Key, bool) {
	if from != i.Peer {
		return Key{}, false
	}
	for _, o := range []*Offer{i.Offered, i.InUse} {
		if o != nil && o.ID == id && !ended(o.Carried, now) {
			return o.Key, true
		}
	}
	return Key{}, false
}
