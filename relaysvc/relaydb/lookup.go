package relaydb

import (
	"context"
	"database/sql"
)

// A stored document counts while its identity is registered and its KEL is the
// registered one.

// Descriptor returns the PublishedAgent of an identity that is unexpired at
// now. Refusal: Unknown.
func (d *DB) Descriptor(ctx context.Context, aceID string, now int64) ([]byte, error) {
	return d.document(ctx, `
SELECT d.agent FROM identities i JOIN descriptors d ON d.identity = i.id
WHERE i.ace_id = ? AND i.registered = 1 AND d.kel_end = i.kel_end AND d.agent IS NOT NULL AND d.expires_at > ?`,
		aceID, now)
}

// Card returns the CardBundle of an identity. Refusal: Unknown.
func (d *DB) Card(ctx context.Context, aceID string) ([]byte, error) {
	return d.document(ctx, `
SELECT c.bundle FROM identities i JOIN cards c ON c.identity = i.id
WHERE i.ace_id = ? AND i.registered = 1 AND c.kel_end = i.kel_end AND c.bundle IS NOT NULL`, aceID)
}

// Handle returns the CardBundle of the identity to which the handle is bound,
// when its home is the given relay. Refusal: Unknown.
func (d *DB) Handle(ctx context.Context, handle, home string) ([]byte, error) {
	return d.document(ctx, `
SELECT c.bundle FROM handles h JOIN identities i ON i.id = h.identity JOIN cards c ON c.identity = i.id
WHERE h.handle = ? AND i.registered = 1 AND c.kel_end = i.kel_end AND c.bundle IS NOT NULL AND c.home = ?`,
		handle, home)
}

func (d *DB) document(ctx context.Context, query string, args ...any) ([]byte, error) {
	var raw []byte
	ok, err := d.read(ctx, query, args, &raw)
	if err == nil && !ok {
		err = Unknown
	}
	return raw, err
}

// Listing selects directory entries.
type Listing struct {
	After   string // ACE ID after which to start, "" for the first
	Home    string // the relay's public URL
	Tag     string // exact card tag, "" for any
	Profile string // exact ID of a profile of the descriptor, "" for any
	Now     int64
}

const (
	listedCards  = "FROM cards c "
	listedByTag  = "FROM card_tags t JOIN cards c ON c.identity = t.identity "
	listedCommon = `
JOIN identities i ON i.id = c.identity JOIN descriptors d ON d.identity = i.id
WHERE i.registered = 1 AND c.kel_end = i.kel_end AND c.bundle IS NOT NULL AND c.home = ?
  AND d.kel_end = i.kel_end AND d.agent IS NOT NULL AND d.expires_at > ?
  AND (? = '' OR EXISTS (SELECT 1 FROM descriptor_profiles p WHERE p.identity = i.id AND p.profile = ?)) `
)

func directoryQuery(tag string) string {
	from, position, filter := listedCards, "c.listing", ""
	if tag != "" {
		from, position, filter = listedByTag, "t.listing", "AND t.tag = ? "
	}
	return "SELECT " + position + ", c.bundle " + from + listedCommon + filter +
		"AND " + position + " > ? ORDER BY " + position
}

// Directory calls yield with the ACE ID and CardBundle of every listed
// identity that l selects, in order of ACE ID, until it answers false.
func (d *DB) Directory(ctx context.Context, l Listing, yield func(aceID string, bundle []byte) bool) error {
	args := []any{l.Home, l.Now, l.Profile, l.Profile}
	if l.Tag != "" {
		args = append(args, l.Tag)
	}
	return d.each(ctx, directoryQuery(l.Tag), append(args, l.After), func(rows *sql.Rows) (bool, error) {
		var aceID string
		var bundle []byte
		if err := rows.Scan(&aceID, &bundle); err != nil {
			return false, err
		}
		return yield(aceID, bundle), nil
	})
}
