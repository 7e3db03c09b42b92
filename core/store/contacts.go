package store

// Contact is one row of the admission table (05#05--admission).
type Contact struct {
	Peer      string
	State     string
	Profile   string // "" when none is recorded
	Since     int64
	ExpiresAt int64 // 0: stays
}

const contactColumns = "peer, state, profile, since, expires_at"

func scanContact(r scanner) (c Contact, err error) {
	return c, r.Scan(&c.Peer, &c.State, &c.Profile, &c.Since, &c.ExpiresAt)
}

// Contact returns the row of a peer and whether there is one at now: an
// expired row is none.
func (tx *Tx) Contact(peer string, now int64) (Contact, bool, error) {
	var c Contact
	ok, err := tx.get("SELECT "+contactColumns+" FROM contact WHERE peer = ? AND (expires_at = 0 OR expires_at > ?)",
		[]any{peer, now}, &c.Peer, &c.State, &c.Profile, &c.Since, &c.ExpiresAt)
	return c, ok, err
}

// Contacts returns the rows that have not expired at now, oldest first.
func (tx *Tx) Contacts(now int64) ([]Contact, error) {
	return rows(tx, scanContact, "SELECT "+contactColumns+" FROM contact WHERE expires_at = 0 OR expires_at > ? ORDER BY since, peer", now)
}

// SetContact writes a row, in place of any the peer has.
func (tx *Tx) SetContact(c Contact) error {
	return tx.run(`INSERT OR REPLACE INTO contact (`+contactColumns+`, permit_under)
		VALUES (?, ?, ?, ?, ?, coalesce((SELECT delegation FROM permit WHERE peer = ? AND direction = 'issued'), ''))`,
		c.Peer, c.State, c.Profile, c.Since, c.ExpiresAt, c.Peer)
}

// Two ranges of the index: a comparison with <> would read all of it.
const selectDueContacts = "SELECT " + contactColumns + " FROM contact WHERE state = 'admitted' AND permit_under < ? UNION ALL SELECT " +
	contactColumns + " FROM contact WHERE state = 'admitted' AND permit_under > ? ORDER BY since, peer"

// ContactsDueAPermit returns the rows in state "admitted" whose peer's newest
// issued permit was not signed under the given delegation, oldest first.
func (tx *Tx) ContactsDueAPermit(delegation string) ([]Contact, error) {
	return rows(tx, scanContact, selectDueContacts, delegation, delegation)
}

// ContactDueAPermit reports whether a peer is one of [Tx.ContactsDueAPermit].
func (tx *Tx) ContactDueAPermit(peer, delegation string) (due bool, err error) {
	return tx.get("SELECT 1 FROM contact WHERE peer = ? AND state = 'admitted' AND permit_under <> ?", []any{peer, delegation}, new(int))
}

// DeleteContact removes the row of a peer.
func (tx *Tx) DeleteContact(peer string) error {
	return tx.run("DELETE FROM contact WHERE peer = ?", peer)
}

// Request is a held contact request (05#flow).
type Request struct {
	Peer       string
	Body       []byte // canonical JSON of the ace:contact:1 body, nil when it is damaged
	ReceivedAt int64
	Damaged    error // storage_failed with [ErrDamaged] for a body that does not open, else nil
}

func (q *Request) fields() []any { return []any{&q.Peer, &q.Body, &q.ReceivedAt} }

func (tx *Tx) scanRequest(r scanner) (q Request, err error) {
	err = r.Scan(q.fields()...)
	q.Body, q.Damaged = tx.openBody(requestTable, q.Peer, "", q.Body)
	return q, err
}

// Requests returns the requests received after the given time, oldest first.
func (tx *Tx) Requests(after int64) ([]Request, error) {
	return rows(tx, tx.scanRequest, "SELECT peer, sealed, received_at FROM request WHERE received_at > ? ORDER BY received_at, seq", after)
}

// RequestHeads is [Tx.Requests] without the bodies.
func (tx *Tx) RequestHeads(after int64) ([]Request, error) {
	return rows(tx, func(r scanner) (q Request, err error) { return q, r.Scan(&q.Peer, &q.ReceivedAt) },
		"SELECT peer, received_at FROM request WHERE received_at > ? ORDER BY received_at, seq", after)
}

// Request returns the request of a peer received after the given time.
func (tx *Tx) Request(peer string, after int64) (Request, bool, error) {
	var q Request
	ok, err := tx.get("SELECT peer, sealed, received_at FROM request WHERE peer = ? AND received_at > ?", []any{peer, after}, q.fields()...)
	if ok {
		q.Body, q.Damaged = tx.openBody(requestTable, q.Peer, "", q.Body)
	}
	return q, ok, err
}

// AddRequest holds a request, in place of the sender's earlier one.
func (tx *Tx) AddRequest(q Request) error {
	if err := tx.DeleteRequest(q.Peer); err != nil {
		return err
	}
	return tx.run("INSERT INTO request (peer, sealed, received_at) VALUES (?, ?, ?)", q.Peer, tx.sealBody(requestTable, q.Peer, "", q.Body), q.ReceivedAt)
}

// DeleteRequest removes the request of a peer.
func (tx *Tx) DeleteRequest(peer string) error {
	return tx.run("DELETE FROM request WHERE peer = ?", peer)
}

// PermitDirection says who issued a permit.
type PermitDirection string

// The directions of a permit.
const (
	PermitIssued PermitDirection = "issued" // by this identity to the peer
	PermitHeld   PermitDirection = "held"   // by the peer to this identity
)

// Permit is a delivery permit as it is kept (05#delivery-permits).
type Permit struct {
	Raw                 []byte // canonical JSON
	IssuedAt, ExpiresAt int64
	Delegation          string // that signed it, of an issued one
}

const permitColumns = "raw, issued_at, expires_at, delegation"

func (p *Permit) fields() []any { return []any{&p.Raw, &p.IssuedAt, &p.ExpiresAt, &p.Delegation} }

// Permit returns the permit kept for a peer and whether there is one.
func (tx *Tx) Permit(peer string, d PermitDirection) (Permit, bool, error) {
	var p Permit
	ok, err := tx.get("SELECT "+permitColumns+" FROM permit WHERE peer = ? AND direction = ?", []any{peer, string(d)}, p.fields()...)
	return p, ok, err
}

// SetPermit keeps a permit in place of the peer's earlier one.
func (tx *Tx) SetPermit(peer string, d PermitDirection, p Permit) error {
	err := tx.run("INSERT OR REPLACE INTO permit (peer, direction, "+permitColumns+") VALUES (?, ?, ?, ?, ?, ?)",
		peer, string(d), p.Raw, p.IssuedAt, p.ExpiresAt, p.Delegation)
	if err != nil || d != PermitIssued {
		return err
	}
	return tx.run("UPDATE contact SET permit_under = ? WHERE peer = ?", p.Delegation, peer)
}

// DeletePermits forgets the permits issued to and held from a peer.
func (tx *Tx) DeletePermits(peer string) error {
	if err := tx.run("UPDATE contact SET permit_under = '' WHERE peer = ?", peer); err != nil {
		return err
	}
	return tx.run("DELETE FROM permit WHERE peer = ?", peer)
}

// PeerPermit is a permit with the peer it is kept for.
type PeerPermit struct {
	Peer      string
	Direction PermitDirection
	Permit
}

// Permits returns all permits kept, by peer.
func (tx *Tx) Permits() ([]PeerPermit, error) {
	return rows(tx, func(r scanner) (p PeerPermit, err error) {
		return p, r.Scan(append([]any{&p.Peer, &p.Direction}, p.fields()...)...)
	}, "SELECT peer, direction, "+permitColumns+" FROM permit ORDER BY peer, direction")
}

// CountPermits returns how many kept permits were issued at since or later and
// have not expired at now.
func (tx *Tx) CountPermits(d PermitDirection, since, now int64) (int, error) {
	var n int
	_, err := tx.get("SELECT COUNT(*) FROM permit WHERE direction = ? AND issued_at >= ? AND expires_at > ?",
		[]any{string(d), since, now}, &n)
	return n, err
}
