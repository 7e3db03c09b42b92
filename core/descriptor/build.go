package descriptor

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Fields of a descriptor to build (04#fields).
type Fields struct {
	ExpiresAt int64
	Relays    []string
	Prekey    []byte // X-Wing public key, 1216 bytes
	Profiles  []Profile
	Ext       wire.Value // null: none
}

// Build signs a descriptor, issued at the greatest of now, the time of the last
// KEL event and previousIssuedAt+1; previousIssuedAt is that of the descriptor
// before it, -1 for none (04#verification). What it returns passes [Verify] at
// now; of the options it reads URLs alone.
//
// Codes: invalid_argument (the clock, or fields that no verifier accepts),
// identity_unavailable.
func Build(id *kel.Identity, f Fields, now, previousIssuedAt int64, o Options) (*PublishedAgent, error) {
	t, err := issueTime(id, now, previousIssuedAt)
	if err != nil {
		return nil, err
	}
	v, err := sign(id, kel.ActionAgentDescriptor, "descriptor", f.claims(id.ACEID(), t), t)
	if err != nil {
		return nil, err
	}
	a, err := shapeAt(v, now, o.URLs)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	a.state, a.end = id.State(), id.State().LastHash()
	return a, nil
}

func (f Fields) claims(aceID string, issuedAt int64) wire.Value {
	profiles := make([]wire.Value, len(f.Profiles))
	for i, p := range f.Profiles {
		profiles[i] = wire.NewObject(wire.M("id", wire.NewString(p.ID)), wire.M("digest", wire.NewString(p.Digest)))
	}
	claims := wire.NewObject(
		wire.M("aceId", wire.NewString(aceID)),
		wire.M("issuedAt", wire.NewInt(issuedAt)),
		wire.M("expiresAt", wire.NewInt(f.ExpiresAt)),
		wire.M("relays", stringValues(f.Relays)),
		wire.M("prekey", wire.NewObject(
			wire.M("id", wire.NewString(suite.Hex256(f.Prekey))),
			wire.M("publicKey", wire.NewString(wire.EncodeBase64(f.Prekey))),
		)),
		wire.M("profiles", wire.NewArray(profiles...)),
	)
	if f.Ext.Kind() != wire.Null {
		claims = claims.With("ext", f.Ext)
	}
	return claims
}
