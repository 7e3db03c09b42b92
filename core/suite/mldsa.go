package suite

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// maxContextBytes is the limit of FIPS 204 on a context string.
const maxContextBytes = 255

var (
	errContextLength = errors.New("signing context is longer than 255 bytes")
	errKeyDestroyed  = errors.New("private key is destroyed")
)

// VerifyKey is an expanded ML-DSA-65 public key. It takes 41 KB and about as
// long to make as one verification, so it is worth keeping in a bounded cache.
type VerifyKey struct {
	key *mldsaPublic
}

// ParseVerifyKey expands a public key of exactly 1952 bytes (02#signatures).
// Every string of that length is a key, so only the length can be wrong.
func ParseVerifyKey(pk []byte) (*VerifyKey, error) {
	if len(pk) != PublicKeyBytes {
		return nil, fmt.Errorf("ml-dsa-65 public key has %d bytes, not %d", len(pk), PublicKeyBytes)
	}
	return &VerifyKey{key: mldsaUnpack((*[PublicKeyBytes]byte)(pk))}, nil
}

// Bytes returns the 1952 bytes of the key.
func (k *VerifyKey) Bytes() []byte { return mldsaPack(k.key) }

// Verify reports whether sig is a pure ML-DSA signature of msg by this key
// under context, the action name of 02#signatures. A signature of any length
// but 3309 bytes and a context over 255 bytes are false. HashML-DSA signatures
// are false as well: their message has another domain byte.
func (k *VerifyKey) Verify(msg, sig []byte, context string) bool {
	if len(sig) != SignatureBytes || len(context) > maxContextBytes {
		return false
	}
	return mldsaVerify(k.key, msg, []byte(context), sig)
}

// SigningKey is an expanded ML-DSA-65 private key, 66 KB. It prints as
// "[signing key]".
type SigningKey struct {
	key    hidden[mldsaPrivate]
	public []byte
}

// NewSigningKey expands seed, which it does not keep: the caller destroys it.
// The seed must hold a key.
func NewSigningKey(seed *Seed) *SigningKey {
	pk, sk := mldsaFromSeed(seed.key())
	return &SigningKey{key: hide(sk), public: mldsaPack(pk)}
}

// PublicKey returns the 1952 bytes of the public key, also after Destroy.
func (k *SigningKey) PublicKey() []byte { return append([]byte(nil), k.public...) }

// Sign returns the hedged, pure ML-DSA signature of msg under context, 3309
// bytes (02#signatures). It fails for a context over 255 bytes and for a
// destroyed key.
func (k *SigningKey) Sign(msg []byte, context string) ([]byte, error) {
	return k.sign(msg, context, true)
}

// SignDeterministic is Sign with 32 zero bytes for the randomness, the other
// variant of FIPS 204. It is for test vectors only: 02#signatures asks for
// hedged signatures.
func (k *SigningKey) SignDeterministic(msg []byte, context string) ([]byte, error) {
	return k.sign(msg, context, false)
}

func (k *SigningKey) sign(msg []byte, context string, hedged bool) ([]byte, error) {
	if k.key == nil {
		return nil, errKeyDestroyed
	}
	if len(context) > maxContextBytes {
		return nil, errContextLength
	}
	return mldsaSign(k.key(), msg, []byte(context), hedged)
}

// Destroy clears the expanded key. Copies that the runtime or circl left on
// a stack are out of reach.
func (k *SigningKey) Destroy() {
	if k.key == nil {
		return
	}
	*k.key() = mldsaPrivate{}
	k.key = nil
}

// Format prints "[signing key]" for every verb.
func (k *SigningKey) Format(f fmt.State, _ rune) { io.WriteString(f, "[signing key]") }

// LogValue logs "[signing key]".
func (k *SigningKey) LogValue() slog.Value { return slog.StringValue("[signing key]") }
