package store

import "github.com/ace-toolkit/ace/core/fault"

// DocumentKind names a document that this identity signs and publishes.
type DocumentKind string

// The published documents.
const (
	OwnDescriptor DocumentKind = "descriptor"
	OwnCard       DocumentKind = "card"
)

// Document is an own document as last signed.
type Document struct {
	IssuedAt int64
	Raw      []byte // canonical JSON
	Relay    string // the relay that confirmed it, "" before
}

// Own returns a document of this identity and whether there is one.
func (tx *Tx) Own(kind DocumentKind) (Document, bool, error) {
	var d Document
	ok, err := tx.get("SELECT issued_at, raw, relay FROM own WHERE kind = ?", []any{string(kind)}, &d.IssuedAt, &d.Raw, &d.Relay)
	return d, ok, err
}

// SetOwn keeps a document of this identity.
func (tx *Tx) SetOwn(kind DocumentKind, d Document) error {
	return tx.run("INSERT OR REPLACE INTO own VALUES (?, ?, ?, ?)", string(kind), d.IssuedAt, d.Raw, d.Relay)
}

// Registration is the last registration at a relay (07#registration).
type Registration struct {
	Timestamp int64
	KELEnd    string // hash of the last event registered
}

// Registration returns the last registration at a relay.
func (tx *Tx) Registration(relay string) (Registration, bool, error) {
	var r Registration
	ok, err := tx.get("SELECT timestamp, kel_end FROM registration WHERE relay = ?", []any{relay}, &r.Timestamp, &r.KELEnd)
	return r, ok, err
}

// SetRegistration records a registration at a relay.
func (tx *Tx) SetRegistration(relay string, r Registration) error {
	return tx.run("INSERT OR REPLACE INTO registration VALUES (?, ?, ?)", relay, r.Timestamp, r.KELEnd)
}

// Bind makes the store that of one identity, once. Code: storage_failed when it
// is that of another.
func (tx *Tx) Bind(aceID string) error {
	var bound string
	ok, err := tx.get("SELECT value FROM note WHERE name = 'identity'", nil, &bound)
	switch {
	case err != nil:
		return err
	case !ok:
		return tx.run("INSERT INTO note VALUES ('identity', ?)", aceID)
	case bound != aceID:
		return fault.New(fault.StorageFailed, "store belongs to %s, not to %s", bound, aceID)
	}
	return nil
}

// Withdrawn reports whether the owner has taken the identity from its relay for
// as long as it is not published again (07#registration).
func (tx *Tx) Withdrawn() (bool, error) {
	value, err := tx.note("withdrawn")
	return value != "", err
}

// SetWithdrawn keeps that the owner has, or has not, taken the identity from its
// relay.
func (tx *Tx) SetWithdrawn(withdrawn bool) error {
	if !withdrawn {
		return tx.run("DELETE FROM note WHERE name = 'withdrawn'")
	}
	return tx.setNote("withdrawn", "yes")
}

// InboxCursor returns the stream ID through which the inbox at a relay was
// processed when somebody noted it last, "" for none.
func (tx *Tx) InboxCursor(relay string) (string, error) { return tx.note("inbox " + relay) }

// SetInboxCursor notes the stream ID of the last entry processed at a relay.
func (tx *Tx) SetInboxCursor(relay, streamID string) error {
	return tx.setNote("inbox "+relay, streamID)
}

// note returns a named text, "" when it is not there.
func (tx *Tx) note(name string) (text string, err error) {
	_, err = tx.get("SELECT value FROM note WHERE name = ?", []any{name}, &text)
	return text, err
}

func (tx *Tx) setNote(name, text string) error {
	return tx.run("INSERT OR REPLACE INTO note VALUES (?, ?)", name, text)
}

// counter returns a named integer and whether it is there.
func (tx *Tx) counter(name string) (int64, bool, error) {
	var n int64
	ok, err := tx.get("SELECT value FROM counter WHERE name = ?", []any{name}, &n)
	return n, ok, err
}

func (tx *Tx) setCounter(name string, n int64) error {
	return tx.run("INSERT OR REPLACE INTO counter VALUES (?, ?)", name, n)
}
