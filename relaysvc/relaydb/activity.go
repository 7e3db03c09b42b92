package relaydb

import "context"

// Totals counts the registered identities and the entries of all queues. It
// looks at each.
func (d *DB) Totals(ctx context.Context) (identities, entries int, err error) {
	_, err = d.read(ctx, "SELECT (SELECT count(*) FROM identities WHERE registered = 1), (SELECT count(*) FROM entries)", nil, &identities, &entries)
	return identities, entries, err
}
