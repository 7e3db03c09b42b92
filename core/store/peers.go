package store

// Pin is the verified key event log of a peer (01#pinning).
type Pin struct {
	KEL       []byte // canonical JSON
	FetchedAt int64
}

// Pin returns the pin of a peer and whether there is one.
func (tx *Tx) Pin(peer string) (Pin, bool, error) {
	var p Pin
	ok, err := tx.get("SELECT kel, fetched_at FROM pin WHERE peer = ?", []any{peer}, &p.KEL, &p.FetchedAt)
	return p, ok, err
}

// SetPin pins a log.
func (tx *Tx) SetPin(peer string, p Pin) error {
	return tx.run("INSERT INTO pin VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET kel = excluded.kel, fetched_at = excluded.fetched_at",
		peer, p.KEL, p.FetchedAt)
}

// Pinned returns the ACE IDs of all pinned peers, sorted.
func (tx *Tx) Pinned() ([]string, error) {
	return rows(tx, text, "SELECT peer FROM pin ORDER BY peer")
}

// PinRefreshed returns when a packet last made the pin of peer be refreshed,
// and false when none did.
func (tx *Tx) PinRefreshed(peer string) (int64, bool, error) {
	var at int64
	ok, err := tx.get("SELECT at FROM pin_refresh WHERE peer = ?", []any{peer}, &at)
	return at, ok, err
}

// SetPinRefreshed records that a packet made the pin of peer be refreshed.
func (tx *Tx) SetPinRefreshed(peer string, at int64) error {
	return tx.run("INSERT INTO pin_refresh VALUES (?, ?) ON CONFLICT DO UPDATE SET at = excluded.at", peer, at)
}

// Descriptor returns the cached PublishedAgent of a peer as canonical JSON, nil
// when there is none.
func (tx *Tx) Descriptor(peer string) ([]byte, error) {
	var raw []byte
	_, err := tx.get("SELECT raw FROM descriptor WHERE peer = ?", []any{peer}, &raw)
	return raw, err
}

// SetDescriptor caches a PublishedAgent.
func (tx *Tx) SetDescriptor(peer string, raw []byte) error {
	return tx.run("INSERT INTO descriptor VALUES (?, ?) ON CONFLICT DO UPDATE SET raw = excluded.raw", peer, raw)
}

// Card is the newest verified CardBundle of an identity (04#card-record).
type Card struct {
	IssuedAt     int64
	ClaimsDigest string
	Raw          []byte // canonical JSON, nil where the horizon alone is kept
}

// Card returns the card kept of a peer and whether there is one.
func (tx *Tx) Card(peer string) (Card, bool, error) {
	var c Card
	ok, err := tx.get("SELECT issued_at, claims_digest, raw FROM card WHERE peer = ?", []any{peer}, &c.IssuedAt, &c.ClaimsDigest, &c.Raw)
	return c, ok, err
}

// SetCard keeps a card unless one with a later issuedAt is kept.
func (tx *Tx) SetCard(peer string, c Card) error {
	return tx.run(`INSERT INTO card VALUES (?, ?, ?, COALESCE(?, x'')) ON CONFLICT DO UPDATE
		SET issued_at = excluded.issued_at, claims_digest = excluded.claims_digest, raw = excluded.raw
		WHERE excluded.issued_at >= card.issued_at`, peer, c.IssuedAt, c.ClaimsDigest, c.Raw)
}

// HandlePin returns the ACE ID pinned for a handle at a home, "" when none is.
func (tx *Tx) HandlePin(home, handle string) (string, error) {
	var peer string
	_, err := tx.get("SELECT peer FROM handle_pin WHERE home = ? AND handle = ?", []any{home, handle}, &peer)
	return peer, err
}

// PinnedHandle returns the handle pinned for a peer at a home, "" when none is.
func (tx *Tx) PinnedHandle(peer, home string) (string, error) {
	var handle string
	_, err := tx.get("SELECT handle FROM handle_pin WHERE peer = ? AND home = ?", []any{peer, home}, &handle)
	return handle, err
}

// SetHandlePin pins (home, handle) to a peer, unless it is pinned already.
func (tx *Tx) SetHandlePin(home, handle, peer string) error {
	return tx.run("INSERT INTO handle_pin VALUES (?, ?, ?) ON CONFLICT DO NOTHING", home, handle, peer)
}

// Name returns the petname of a peer, "" when it has none.
func (tx *Tx) Name(peer string) (string, error) {
	var name string
	_, err := tx.get("SELECT name FROM petname WHERE peer = ?", []any{peer}, &name)
	return name, err
}

// Names returns the petnames of all named peers by ACE ID.
func (tx *Tx) Names() (map[string]string, error) {
	pairs, err := rows(tx, func(r scanner) (p [2]string, err error) { return p, r.Scan(&p[0], &p[1]) },
		"SELECT peer, name FROM petname")
	names := make(map[string]string, len(pairs))
	for _, p := range pairs {
		names[p[0]] = p[1]
	}
	return names, err
}

// PeerNamed returns the ACE ID with the given petname, "" when there is none.
func (tx *Tx) PeerNamed(name string) (string, error) {
	var peer string
	_, err := tx.get("SELECT peer FROM petname WHERE name = ?", []any{name}, &peer)
	return peer, err
}

// SetName gives a peer the petname, in place of the one it has; "" only takes
// that away.
func (tx *Tx) SetName(peer, name string) error {
	if err := tx.run("DELETE FROM petname WHERE peer = ?", peer); err != nil || name == "" {
		return err
	}
	return tx.run("INSERT INTO petname VALUES (?, ?)", name, peer)
}

func text(r scanner) (s string, err error) { return s, r.Scan(&s) }
