package relayapi

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// Registration is a verified RegistrationRequest (07#registration).
type Registration struct {
	ACEID     string
	Timestamp int64
	MDigest   string     // hex SHA-256 of the signed message M
	State     *kel.State // of the log it carries
	Raw       []byte     // canonical JSON of the request
}

// Options of a verifier. The zero value is that of production.
type Options struct {
	URLs wire.URLPolicy // Development also accepts http with a loopback host
	KELs *kel.Cache     // nil: verify every log
}

// VerifyRegistrationBytes is VerifyRegistration of a JSON text, which has to
// parse within MAX_JSON_DEPTH (invalid_registration).
func VerifyRegistrationBytes(data []byte, audience string, now int64, o Options) (*Registration, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	v, err := wire.Parse(data, wire.MaxJSONDepth)
	if err != nil {
		return nil, fault.Wrap(InvalidRegistration, err)
	}
	return VerifyRegistration(v, audience, now, o)
}

// VerifyRegistration runs steps 1 to 5 of 07#registration at the relay whose
// audience is given. Step 6 is [Registration.Against].
//
// Codes: invalid_argument (clock), invalid_registration, invalid_signature,
// stale_timestamp, invalid_kel, stale_peer_binding, invalid_authorization.
func VerifyRegistration(v wire.Value, audience string, now int64, o Options) (*Registration, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	// 07#registration step 1
	c, err := decodeRegistration(v, o.URLs)
	if err != nil {
		return nil, fault.Wrap(InvalidRegistration, err)
	}
	// 07#registration steps 2 and 3
	if c.audience != audience {
		return nil, fault.New(fault.InvalidSignature, "registration.audience: not this relay")
	}
	if !fresh(c.timestamp, now) {
		return nil, errNotFresh(c.timestamp)
	}
	// 07#registration step 4
	state, err := o.KELs.Verify(c.log, now)
	if err != nil {
		return nil, err
	}
	if !state.Usable(now) {
		return nil, fault.New(fault.InvalidKEL, "registration.kel: not usable now")
	}
	if state.ACEID() != c.aceID {
		return nil, fault.New(InvalidRegistration, "registration.aceId: not that of the kel")
	}
	// 07#registration step 5
	delegated := state.Delegated()
	if c.signature.Seq != delegated.Seq {
		return nil, fault.New(fault.InvalidSignature, "registration.signature.seq: the signing delegation is %d", delegated.Seq)
	}
	payload := registrationPayload(state, audience)
	err = state.VerifySignature(kel.ActionRegisterRequest, c.signature, c.timestamp, now, payload, fault.InvalidAuthorization)
	if err != nil {
		return nil, err
	}
	return newRegistration(state, c.timestamp, payload, c.raw), nil
}

// candidate is a request of the right shape.
type candidate struct {
	aceID, audience string
	log             wire.Value
	timestamp       int64
	signature       wire.Signature
	raw             []byte
}

// decodeRegistration checks the shape. A kel of the wrong shape is the log's
// own failure, invalid_kel.
func decodeRegistration(v wire.Value, urls wire.URLPolicy) (candidate, error) {
	r := wire.NewReader(v, "registration")
	c := candidate{
		aceID:     r.ACEID("aceId"),
		log:       r.Value("kel"),
		timestamp: r.Int("timestamp"),
		audience:  r.String("audience"),
		signature: r.Signature("signature"),
	}
	if err := wire.CheckRelayURL(c.audience, urls); err != nil {
		r.FailMember("audience", "%v", err)
	}
	if !v.WithinDepth(wire.MaxJSONDepth) {
		r.Fail("nested deeper than %d", wire.MaxJSONDepth)
	}
	if err := r.Close(); err != nil {
		return candidate{}, err
	}
	if c.raw = v.Canonical(); len(c.raw) > wire.MaxPublishedAgentBytes {
		r.Fail("%d bytes, more than %d", len(c.raw), wire.MaxPublishedAgentBytes)
	}
	return c, r.Err()
}

// registrationPayload is encodePayload(lastHashHex, audience).
func registrationPayload(state *kel.State, audience string) []byte {
	return wire.EncodePayload(state.LastHash(), audience)
}

func newRegistration(state *kel.State, timestamp int64, payload, raw []byte) *Registration {
	m := kel.Message(state.ACEID(), timestamp, wire.Decimal(state.Delegated().Seq), payload)
	return &Registration{ACEID: state.ACEID(), Timestamp: timestamp, MDigest: suite.Hex256(m), State: state, Raw: raw}
}

// BuildRegistration signs a request of id for the relay named by audience, at
// the identity's signing time; Raw is the body of POST /v1/register. Codes:
// invalid_argument (clock), identity_unavailable.
func BuildRegistration(id *kel.Identity, audience string, now int64) (*Registration, error) {
	if err := wire.CheckTime(now); err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, err)
	}
	state, t := id.State(), id.SigningTime(now)
	payload := registrationPayload(state, audience)
	sig, err := id.Sign(kel.ActionRegisterRequest, t, payload)
	if err != nil {
		return nil, err
	}
	raw := wire.NewObject(
		wire.M("aceId", wire.NewString(id.ACEID())),
		wire.M("kel", state.Value()),
		wire.M("timestamp", wire.NewInt(t)),
		wire.M("audience", wire.NewString(audience)),
		wire.M("signature", sig.Object()),
	).Canonical()
	return newRegistration(state, t, payload, raw), nil
}
