package relaydb

import "context"

// A stored document counts while its identity is registered and not suspended,
// and its KEL is the registered one.

// Descriptor returns the PublishedAgent of an identity that is unexpired at
// now. Refusal: Unknown.
func (d *DB) Descriptor(ctx context.Context, aceID string, now int64) ([]byte, error) {
	return d.document(ctx, `
SELECT d.agent FROM identities i JOIN descriptors d ON d.identity = i.id
WHERE i.ace_id = ? AND i.registered = 1 AND i.suspended = 0 AND d.kel_end = i.kel_end AND d.agent IS NOT NULL AND d.expires_at > ?`,
		aceID, now)
}

// Card returns the CardBundle of an identity. Refusal: Unknown.
func (d *DB) Card(ctx context.Context, aceID string) ([]byte, error) {
	return d.document(ctx, `
SELECT c.bundle FROM identities i JOIN cards c ON c.identity = i.id
WHERE i.ace_id = ? AND i.registered = 1 AND i.suspended = 0 AND c.kel_end = i.kel_end AND c.bundle IS NOT NULL`, aceID)
}

// Handle returns the CardBundle of the identity to which the handle is bound,
// when its home is the given relay. Refusal: Unknown.
func (d *DB) Handle(ctx context.Context, handle, home string) ([]byte, error) {
	return d.document(ctx, `
SELECT c.bundle FROM handles h JOIN identities i ON i.id = h.identity JOIN cards c ON c.identity = i.id
WHERE h.handle = ? AND i.registered = 1 AND i.suspended = 0 AND c.kel_end = i.kel_end AND c.bundle IS NOT NULL AND c.home = ?`,
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
