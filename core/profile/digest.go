package profile

import (
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// messageDigest binds a schema to its message type (08#digests).
func messageDigest(messageType string, schema wire.Value) string {
	return suite.Hex256(wire.NewObject(
		wire.M("type", wire.NewString(messageType)),
		wire.M("schema", schema),
	).Canonical())
}
