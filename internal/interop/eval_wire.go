package interop

import (
	"encoding/hex"
	"fmt"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// evalCanonicalJSON parses a text and states its canonical form
// (02#canonical-json) or its value as a wire integer (02#wire-integers).
func evalCanonicalJSON(a *args, _ int64) (wire.Value, error) {
	raw, ok, err := a.raw()
	if err != nil || !ok {
		return wire.Value{}, fmt.Errorf("%w: no raw text", errCannotEvaluate)
	}
	as := optionalString(a.r, "as")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	v, err := wire.Parse(raw, wire.MaxJSONDepth)
	if err != nil {
		return wire.Value{}, fault.Wrap(errInvalid, err)
	}
	switch as {
	case "":
		canonical := v.Canonical()
		return facts(str("canonical", string(canonical)), str("sha256", suite.Hex256(canonical))), nil
	case "wireInteger":
		n, ok := v.AsInt()
		if !ok {
			return wire.Value{}, fault.New(errInvalid, "not a wire integer")
		}
		return facts(str("decimal", wire.Decimal(n))), nil
	}
	return wire.Value{}, fmt.Errorf("%w: as %q", errCannotEvaluate, as)
}

// evalBase64 encodes or decodes canonical Base64 (02#base64).
func evalBase64(a *args, _ int64) (wire.Value, error) {
	switch op := a.r.String("op"); op {
	case "encode":
		b := a.hex("hex")
		return facts(str("text", wire.EncodeBase64(b))), a.close()
	case "decode":
		text := a.r.String("text")
		if err := a.close(); err != nil {
			return wire.Value{}, err
		}
		b, err := wire.DecodeBase64(text)
		return facts(str("hex", hex.EncodeToString(b))), fault.Wrap(errInvalid, err)
	default:
		return wire.Value{}, fmt.Errorf("%w: op %q", errCannotEvaluate, op)
	}
}

// grammars are the grammars of 02#identifiers, by the name the vectors use.
func grammars() map[string]func(string) bool {
	return map[string]func(string) bool{
		"aceId":             wire.IsACEID,
		"messageId":         wire.IsMessageID,
		"hexDigest":         wire.IsHexDigest,
		"namespacedId":      wire.IsNamespacedID,
		"threadId":          wire.IsThreadID,
		"handle":            wire.IsHandle,
		"caip10":            wire.IsCAIP10,
		"caip19":            wire.IsCAIP19,
		"streamId":          wire.IsStreamID,
		"outcomeCode":       wire.IsOutcomeCode,
		"httpsUrl":          wire.IsHTTPSURL,
		"relayUrlCanonical": func(s string) bool { return wire.CheckRelayURL(s, wire.Production) == nil },
	}
}

// evalIdentifiers judges one identifier (02#identifiers), normalizes a relay
// URL (02#relay-urls) or compares two stream IDs.
func evalIdentifiers(a *args, _ int64) (wire.Value, error) {
	kind := a.r.String("kind")
	if kind == "streamIdCompare" {
		return evalStreamIDCompare(a)
	}
	value := a.r.Value("value")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	s, isString := value.AsString()
	if kind == "relayUrlNormalize" {
		normalized, err := wire.NormalizeRelayURL(s)
		return facts(str("normalized", normalized)), fault.Wrap(fault.InvalidArgument, err)
	}
	is, ok := grammars()[kind]
	if !ok {
		return wire.Value{}, fmt.Errorf("%w: kind %q", errCannotEvaluate, kind)
	}
	if !isString || !is(s) {
		return wire.Value{}, fault.New(errInvalid, "not a %s", kind)
	}
	return facts(), nil
}

func evalStreamIDCompare(a *args) (wire.Value, error) {
	x, y := a.r.String("a"), a.r.String("b")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	if !wire.IsStreamID(x) || !wire.IsStreamID(y) {
		return wire.Value{}, fault.New(fault.InvalidArgument, "not a stream ID")
	}
	return facts(num("order", int64(wire.CompareStreamIDs(x, y)))), nil
}

func optionalString(r *wire.Reader, name string) string {
	v, ok := r.Optional(name)
	if !ok {
		return ""
	}
	s, isString := v.AsString()
	if !isString {
		r.FailMember(name, "not a string")
	}
	return s
}

func decodeHexMember(r *wire.Reader, name string) []byte {
	b, err := hex.DecodeString(r.String(name))
	if err != nil {
		r.FailMember(name, "not hexadecimal")
	}
	return b
}
