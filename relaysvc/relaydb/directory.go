package relaydb

import (
	"context"
	"database/sql"
)

// Listing selects directory entries.
type Listing struct {
	After   string // ACE ID after which to start, "" for the first
	Tag     string // exact card tag, "" for any
	Profile string // exact ID of a profile of the descriptor, "" for any
	Limit   int64  // the most entries that are wanted
	// Expired is the most entries to pass over because their descriptor has
	// expired since the last sweep.
	Expired int64
	Now     int64
}

const selectDirectory = `
SELECT l.ace_id, CASE WHEN d.expires_at > ? THEN c.bundle END
FROM directory l CROSS JOIN descriptors d ON d.identity = l.identity CROSS JOIN cards c ON c.identity = l.identity
WHERE l.tag = ? AND l.profile = ? AND l.ace_id > ? ORDER BY l.ace_id LIMIT ?`

// Directory calls yield with the ACE ID and CardBundle of every listed
// identity that l selects, in order of ACE ID, until it answers false or there
// are Limit and one more.
//
// It reads an entry for each that it yields, whatever the filters, and those
// whose descriptor has expired since the last sweep. When these are more than
// Expired it refuses with Behind: the next sweep removes them.
func (d *DB) Directory(ctx context.Context, l Listing, yield func(aceID string, bundle []byte) bool) error {
	read, want := int64(0), l.Limit+1
	most := want + l.Expired
	err := d.each(ctx, selectDirectory, []any{l.Now, l.Tag, l.Profile, l.After, most}, func(rows *sql.Rows) (bool, error) {
		read++
		var aceID string
		var bundle []byte
		if err := rows.Scan(&aceID, &bundle); err != nil || bundle == nil {
			return err == nil, err
		}
		want--
		return yield(aceID, bundle) && want > 0, nil
	})
	if err == nil && read == most && want > 0 {
		err = Behind
	}
	return err
}

// relist makes the directory agree with what is stored of an identity.
func (t *tx) relist(id int64) error {
	if _, err := t.exec(`
DELETE FROM directory WHERE identity = ?
  AND (tag, profile) NOT IN (SELECT tag, profile FROM listings WHERE identity = ?)`, id, id); err != nil {
		return err
	}
	_, err := t.exec(`
INSERT INTO directory (tag, profile, ace_id, identity)
SELECT tag, profile, ace_id, identity FROM listings WHERE identity = ? ON CONFLICT DO NOTHING`, id)
	return err
}

// SetHome tells the store the relay's public URL: the directory lists the card
// records with this home. A store that was another relay's makes it anew.
func (d *DB) SetHome(ctx context.Context, home string) error {
	return d.write(ctx, func(t *tx) error {
		if n, err := t.exec("UPDATE relay SET home = ? WHERE home <> ?", home, home); err != nil || n == 0 {
			return err
		}
		if _, err := t.exec("DELETE FROM directory"); err != nil {
			return err
		}
		_, err := t.exec("INSERT INTO directory (tag, profile, ace_id, identity) SELECT tag, profile, ace_id, identity FROM listings")
		return err
	})
}
