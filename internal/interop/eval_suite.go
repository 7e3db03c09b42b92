package interop

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// evalMLDSA derives an ML-DSA-65 key, signs without randomness or verifies a
// signature (02#signatures).
func evalMLDSA(a *args, _ int64) (wire.Value, error) {
	switch op := a.r.String("op"); op {
	case "keygen":
		seed, err := a.seed("seed")
		if err != nil {
			return wire.Value{}, err
		}
		return facts(base64("publicKey", suite.NewSigningKey(seed).PublicKey())), nil
	case "sign":
		return evalMLDSASign(a)
	case "verify":
		return evalMLDSAVerify(a)
	default:
		return wire.Value{}, fmt.Errorf("%w: op %q", errCannotEvaluate, op)
	}
}

// evalMLDSASign signs with the randomness given, which has to be zeros: the
// product signs hedged, so that no signature of its own can be foretold, and
// has no way to be given other randomness.
func evalMLDSASign(a *args) (wire.Value, error) {
	message, context, rnd := a.hex("message"), a.r.String("context"), a.hex("rnd")
	seed, err := a.seed("seed")
	if err != nil {
		return wire.Value{}, err
	}
	if !bytes.Equal(rnd, make([]byte, 32)) {
		return wire.Value{}, fmt.Errorf("%w: randomness that is not 32 zero bytes", errCannotEvaluate)
	}
	sig, err := suite.NewSigningKey(seed).SignDeterministic(message, context)
	if err != nil {
		return wire.Value{}, fault.Wrap(fault.InvalidArgument, err)
	}
	return facts(base64("signature", sig)), nil
}

func evalMLDSAVerify(a *args) (wire.Value, error) {
	pk, sig := a.base64("publicKey"), a.base64("signature")
	message, context := a.hex("message"), a.r.String("context")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	key, err := suite.ParseVerifyKey(pk)
	if err != nil {
		return wire.Value{}, fault.Wrap(fault.InvalidSignature, err)
	}
	if !key.Verify(message, sig, context) {
		return wire.Value{}, fault.New(fault.InvalidSignature, "signature does not verify")
	}
	return facts(), nil
}

// evalXWing derives an X-Wing key, encapsulates with given randomness or
// decapsulates (03#x-wing).
func evalXWing(a *args, _ int64) (wire.Value, error) {
	switch op := a.r.String("op"); op {
	case "keygen":
		seed, err := a.seed("seed")
		if err != nil {
			return wire.Value{}, err
		}
		pk := suite.NewDecapsulationKey(seed).PublicKey()
		return facts(base64("publicKey", pk), str("id", suite.Hex256(pk))), nil
	case "encapsulate":
		return evalEncapsulate(a)
	case "decapsulate":
		return evalDecapsulate(a)
	default:
		return wire.Value{}, fmt.Errorf("%w: op %q", errCannotEvaluate, op)
	}
}

func evalEncapsulate(a *args) (wire.Value, error) {
	pk, eseed := a.base64("publicKey"), a.hex("eseed")
	if err := a.close(); err != nil {
		return wire.Value{}, err
	}
	key, err := suite.ParseEncapsulationKey(pk)
	if err != nil {
		return wire.Value{}, fault.Wrap(fault.InvalidArgument, err)
	}
	secret, ciphertext, err := key.EncapsulateDeterministic(eseed)
	if err != nil {
		return wire.Value{}, fault.Wrap(fault.InvalidArgument, err)
	}
	return facts(base64("ciphertext", ciphertext), str("sharedSecret", hex.EncodeToString(secret))), nil
}

func evalDecapsulate(a *args) (wire.Value, error) {
	ciphertext := a.base64("ciphertext")
	seed, err := a.seed("seed")
	if err != nil {
		return wire.Value{}, err
	}
	secret, err := suite.NewDecapsulationKey(seed).Decapsulate(ciphertext)
	if err != nil {
		return wire.Value{}, fault.Wrap(fault.DecryptionFailed, err)
	}
	return facts(str("sharedSecret", hex.EncodeToString(secret))), nil
}

// seed reads the named member as a private key, after which the input has to
// have been read whole.
func (a *args) seed(name string) (*suite.Seed, error) {
	b := a.hex(name)
	if err := a.close(); err != nil {
		return nil, err
	}
	seed, err := suite.SeedFromBytes(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v", errCannotEvaluate, name, err)
	}
	return seed, nil
}

// base64 reads a member as canonical Base64.
func (a *args) base64(name string) []byte { return a.r.Base64(name, 0, math.MaxInt32/2) }

func base64(key string, b []byte) wire.Member { return str(key, wire.EncodeBase64(b)) }
