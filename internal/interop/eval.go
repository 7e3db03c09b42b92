package interop

import (
	"errors"
	"fmt"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// errCannotEvaluate marks input that an evaluator does not know: an unknown
// kind, operation or member. It is never an answer that a test accepts.
var errCannotEvaluate = errors.New("cannot_evaluate")

// errInvalid is the rejection of the bare encodings, for which the
// specification names no code.
const errInvalid fault.Code = "invalid"

// args reads the members of one input. Like [wire.Reader] its errors are
// sticky; a member that is missing, of the wrong type or never asked for makes
// the whole input one that cannot be evaluated.
type args struct {
	r *wire.Reader
}

// evaluator answers one kind of input: the facts it states, or the error with
// the protocol's code.
type evaluator func(a *args, now int64) (wire.Value, error)

// evaluators lists the kinds of input, named as the files of vectors are.
func evaluators() map[string]evaluator {
	return map[string]evaluator{
		"canonical-json": evalCanonicalJSON,
		"base64":         evalBase64,
		"identifiers":    evalIdentifiers,

		"packet-decode":   evalPacketDecode,
		"packet-open":     evalPacketOpen,
		"private-content": evalPrivateContent,

		"permit":  evalPermit,
		"contact": evalContact,
		"receipt": evalReceipt,

		"published-agent": evalPublishedAgent,
		"card-bundle":     evalCardBundle,
		"delegation":      evalDelegation,
		"kel":             evalKEL,
		"kel-reconcile":   evalKELReconcile,
		"mldsa":           evalMLDSA,
		"payload":         evalPayload,
		"relay-auth":      evalRelayAuth,
		"registration":    evalRegistration,
		"xwing":           evalXWing,
	}
}

// Evaluate answers one input of the given kind. A now in the input wins over
// the one given; either may be any JSON number.
func Evaluate(kind string, input, now wire.Value) wire.Value {
	facts, err := evaluate(kind, input, now)
	if err != nil {
		return wire.NewObject(wire.M("error", wire.NewString(errorCode(err))))
	}
	return facts.With("ok", wire.NewBool(true))
}

func evaluate(kind string, input, now wire.Value) (wire.Value, error) {
	eval, ok := evaluators()[kind]
	if !ok {
		return wire.Value{}, fmt.Errorf("%w: kind %q", errCannotEvaluate, kind)
	}
	a := &args{r: wire.NewReader(input, "input")}
	if v, ok := a.r.Optional("now"); ok {
		now = v
	}
	if now.Kind() != wire.Number {
		return wire.Value{}, fmt.Errorf("%w: now is no number", errCannotEvaluate)
	}
	t, ok := now.AsInt()
	if !ok {
		t = -1 // an invalid clock, which every evaluator has to refuse itself
	}
	return eval(a, t)
}

func errorCode(err error) string {
	if errors.Is(err, errCannotEvaluate) {
		return errCannotEvaluate.Error()
	}
	if c := fault.CodeOf(err); c != "" {
		return string(c)
	}
	return errCannotEvaluate.Error()
}

// close reports whether the input was read whole and nothing was wrong with it.
func (a *args) close() error {
	if err := a.r.Close(); err != nil {
		return fmt.Errorf("%w: %v", errCannotEvaluate, err)
	}
	return nil
}

// hex reads a member as hexadecimal bytes.
func (a *args) hex(name string) []byte {
	return decodeHexMember(a.r, name)
}

// object reads the protocol object of the input: the named member, or the JSON
// text given as raw or rawBase64. A text that does not parse is an error with
// the given code.
func (a *args) object(name string, code fault.Code) (wire.Value, error) {
	raw, ok, err := a.raw()
	if err != nil || !ok {
		return a.r.Value(name), err
	}
	v, err := wire.Parse(raw, wire.MaxJSONDepth)
	return v, fault.Wrap(code, err)
}

// raw returns the text of an input that is given as text.
func (a *args) raw() ([]byte, bool, error) {
	if v, ok := a.r.Optional("raw"); ok {
		s, isString := v.AsString()
		if !isString {
			return nil, false, fmt.Errorf("%w: raw is no string", errCannotEvaluate)
		}
		return []byte(s), true, nil
	}
	if v, ok := a.r.Optional("rawBase64"); ok {
		s, _ := v.AsString()
		b, err := wire.DecodeBase64(s)
		if err != nil {
			return nil, false, fmt.Errorf("%w: rawBase64: %v", errCannotEvaluate, err)
		}
		return b, true, nil
	}
	return nil, false, nil
}

// facts builds an answer from pairs.
func facts(members ...wire.Member) wire.Value { return wire.NewObject(members...) }

func str(key, value string) wire.Member      { return wire.M(key, wire.NewString(value)) }
func num(key string, n int64) wire.Member    { return wire.M(key, wire.NewInt(n)) }
func boolean(key string, b bool) wire.Member { return wire.M(key, wire.NewBool(b)) }
