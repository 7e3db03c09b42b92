package store

import (
	"errors"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// ErrDamaged is in the chain of the error, storage_failed, that a row has in its
// member Damaged: what was written in it does not open. It was altered, copied
// there from another row, or sealed under another vault key.
var ErrDamaged = errors.New("does not open under the vault key")

// The tables with sealed bodies, by their names in the schema.
const (
	messageTable = "message"
	outboxTable  = "outbox"
	requestTable = "request"

	withheldTable = "withheld"
)

// bodyKeys seal what people wrote, by table, each under a subkey of its own of
// the vault key (agentlink-messages, At rest on your node). They are derived once for an
// open store.
type bodyKeys map[string]*suite.SealKey

func newBodyKeys(vaultKey *suite.Seed) (bodyKeys, error) {
	vault := vaultKey.Expose()
	defer clear(vault)
	keys := bodyKeys{}
	for _, table := range []string{messageTable, outboxTable, requestTable, withheldTable} {
		subkey := suite.Subkey(vault, "ace/store/"+table+"/1")
		key, err := suite.NewSealKey(subkey)
		clear(subkey)
		if err != nil {
			return nil, fault.Wrap(fault.StorageFailed, err)
		}
		keys[table] = key
	}
	return keys, nil
}

// sealBody seals what was written in a row. It opens in that row alone: of that
// table, with that peer and that message ID, "" where the table has none.
func (tx *Tx) sealBody(table, peer, messageID string, body []byte) []byte {
	return tx.store.bodies[table].Seal(body, wire.EncodePayload(table, peer, messageID))
}

// openBody opens what sealBody sealed, in its memory. The failure names the row
// and is that of the row, not of the query: others are still to be read.
func (tx *Tx) openBody(table, peer, messageID string, sealed []byte) (body []byte, damaged error) {
	body, err := tx.store.bodies[table].Open(sealed, wire.EncodePayload(table, peer, messageID))
	switch {
	case err == nil:
		return body, nil
	case messageID == "":
		return nil, fault.Wrapf(fault.StorageFailed, ErrDamaged, "%s row of %s", table, peer)
	}
	return nil, fault.Wrapf(fault.StorageFailed, ErrDamaged, "%s row %.80q of %s", table, messageID, peer)
}
