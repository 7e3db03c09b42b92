package profile

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/ace-toolkit/ace/core/wire"
)

// digest is the one digest algorithm of 08#digests, over canonical JSON.
func digest(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// messageDigest binds a schema to its message type (08#digests).
func messageDigest(messageType string, schema wire.Value) string {
	return digest(wire.NewObject(
		wire.M("type", wire.NewString(messageType)),
		wire.M("schema", schema),
	).Canonical())
}
