package relaydb

import "context"

// Descriptor is a verified PublishedAgent to store.
type Descriptor struct {
	ACEID     string
	KELEnd    string
	IssuedAt  int64
	Claims    string // hex SHA-256 of the canonical claims
	ExpiresAt int64
	Profiles  []string // IDs of the profiles it lists
	Raw       []byte   // canonical JSON
	Budget    int64    // bytes that may be stored for the network it registered from; 0 for any number
}

// CheckPublisher refuses with NotRegistered or OtherKEL unless the identity is
// registered with a KEL that ends in kelEnd.
func (d *DB) CheckPublisher(ctx context.Context, aceID, kelEnd string) error {
	i, err := d.Identity(ctx, aceID)
	switch {
	case err != nil:
		return err
	case !i.Registered:
		return NotRegistered
	case i.KELEnd != kelEnd:
		return OtherKEL
	}
	return nil
}

// PublishDescriptor stores p in place of an older one. Refusals:
// NotRegistered, OtherKEL, NotNewer, OverBudget.
func (d *DB) PublishDescriptor(ctx context.Context, p Descriptor) error {
	return d.write(ctx, func(t *tx) error {
		id, err := t.registered(p.ACEID, p.KELEnd)
		if err != nil {
			return err
		}
		if err := t.newer("descriptors", id, p.KELEnd, p.IssuedAt, p.Claims); err != nil {
			return err
		}
		if err := t.replace(id, "SELECT coalesce(length(agent), 0) FROM descriptors WHERE identity = ?", len(p.Raw), p.Budget); err != nil {
			return err
		}
		return t.storeDescriptor(id, p)
	})
}

func (t *tx) storeDescriptor(id int64, p Descriptor) error {
	if _, err := t.exec(`
INSERT INTO descriptors (identity, kel_end, issued_at, claims, expires_at, agent) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET kel_end = excluded.kel_end, issued_at = excluded.issued_at, claims = excluded.claims,
       expires_at = excluded.expires_at, agent = excluded.agent`,
		id, p.KELEnd, p.IssuedAt, p.Claims, p.ExpiresAt, p.Raw); err != nil {
		return err
	}
	if _, err := t.exec("DELETE FROM descriptor_profiles WHERE identity = ?", id); err != nil {
		return err
	}
	for _, profile := range p.Profiles {
		if _, err := t.exec("INSERT INTO descriptor_profiles (identity, profile) VALUES (?, ?)", id, profile); err != nil {
			return err
		}
	}
	return t.relist(id)
}

// replace charges an identity for a document of size bytes in place of the one
// whose size the query finds. Refusal: OverBudget.
func (t *tx) replace(id int64, query string, size int, budget int64) error {
	var before int64
	if _, err := t.row(query, []any{id}, &before); err != nil {
		return err
	}
	return t.charge(id, int64(size)-before, budget)
}

// newer refuses a document that is older than the stored one of the same KEL,
// or as old with other claims. One of an earlier KEL bounds nothing.
func (t *tx) newer(table string, id int64, kelEnd string, issuedAt int64, claims string) error {
	var storedAt int64
	var storedClaims string
	ok, err := t.row("SELECT issued_at, claims FROM "+table+" WHERE identity = ? AND kel_end = ?",
		[]any{id, kelEnd}, &storedAt, &storedClaims)
	if err != nil || !ok {
		return err
	}
	if issuedAt < storedAt || issuedAt == storedAt && claims != storedClaims {
		return NotNewer
	}
	return nil
}

// Card is a verified CardBundle to store.
type Card struct {
	ACEID    string
	KELEnd   string
	IssuedAt int64
	Claims   string // hex SHA-256 of the canonical claims
	Home     string
	Handle   string // "" for none
	Skeleton string // of the handle
	Open     bool   // contact is open
	Listed   bool
	Tags     []string
	Raw      []byte // canonical JSON
	Network  string // client network of the request
	Budget   int64  // bytes that may be stored for the network it registered from; 0 for any number
}

// Bindings is what the store knows about the handle that a card names.
type Bindings struct {
	Held   string // the handle bound to the card's identity, "" for none
	Taken  bool   // a handle with the same skeleton is bound or reserved
	Claims int    // handles that the client network bound since the given time
	Oldest int64  // when the first of these was bound
}

// PublishCard stores c in place of an older one, and binds its handle when
// decide says so. Claims of the client network are counted after since.
// Refusals: NotRegistered, OtherKEL, NotNewer, the error of decide, which is
// called in the transaction, perhaps twice, and has to be a pure function, and
// OverBudget.
func (d *DB) PublishCard(ctx context.Context, c Card, since, now int64, decide func(Bindings) (bind bool, err error)) error {
	return d.write(ctx, func(t *tx) error {
		id, err := t.registered(c.ACEID, c.KELEnd)
		if err != nil {
			return err
		}
		if err := t.newer("cards", id, c.KELEnd, c.IssuedAt, c.Claims); err != nil {
			return err
		}
		b, err := t.bindings(id, c, since)
		if err != nil {
			return err
		}
		bind, err := decide(b)
		if err != nil {
			return err
		}
		if err := t.replace(id, "SELECT coalesce(length(bundle), 0) FROM cards WHERE identity = ?", len(c.Raw), c.Budget); err != nil {
			return err
		}
		if bind {
			if _, err := t.exec("INSERT INTO handles (handle, skeleton, identity, network, bound_at) VALUES (?, ?, ?, ?, ?)",
				c.Handle, c.Skeleton, id, c.Network, now); err != nil {
				return err
			}
		}
		return t.storeCard(id, c)
	})
}

func (t *tx) bindings(id int64, c Card, since int64) (Bindings, error) {
	var b Bindings
	if _, err := t.row("SELECT handle FROM handles WHERE identity = ?", []any{id}, &b.Held); err != nil {
		return b, err
	}
	if _, err := t.row(`
SELECT EXISTS (SELECT 1 FROM handles WHERE skeleton = ?) OR EXISTS (SELECT 1 FROM reserved_handles WHERE skeleton = ?)`,
		[]any{c.Skeleton, c.Skeleton}, &b.Taken); err != nil {
		return b, err
	}
	_, err := t.row("SELECT count(*), coalesce(min(bound_at), 0) FROM handles WHERE network = ? AND bound_at > ?",
		[]any{c.Network, since}, &b.Claims, &b.Oldest)
	return b, err
}

func (t *tx) storeCard(id int64, c Card) error {
	if _, err := t.exec(`
INSERT INTO cards (identity, kel_end, issued_at, claims, home, open, listed, bundle) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET kel_end = excluded.kel_end, issued_at = excluded.issued_at, claims = excluded.claims,
       home = excluded.home, open = excluded.open, listed = excluded.listed, bundle = excluded.bundle`,
		id, c.KELEnd, c.IssuedAt, c.Claims, c.Home, c.Open, c.Listed, c.Raw); err != nil {
		return err
	}
	if _, err := t.exec("DELETE FROM card_tags WHERE identity = ?", id); err != nil {
		return err
	}
	for _, tag := range c.Tags {
		if _, err := t.exec("INSERT INTO card_tags (identity, tag) VALUES (?, ?)", id, tag); err != nil {
			return err
		}
	}
	return t.relist(id)
}
