package suite

import (
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
)

// eseedBytes is the randomness of one encapsulation: the ML-KEM message, then
// the X25519 ephemeral secret.
const eseedBytes = 64

// No function here looks for X25519 values of small order or an all-zero
// shared value: 03#x-wing forbids such checks, and circl's X25519 has none.

// EncapsulationKey is an expanded X-Wing public key: a prekey to send to.
type EncapsulationKey struct {
	key    *xwingPublic
	public []byte
}

// ParseEncapsulationKey expands a public key of exactly 1216 bytes
// (03#x-wing). It fails for another length and for an ML-KEM half with a
// coefficient outside the field (the encapsulation key check of FIPS 203).
func ParseEncapsulationKey(pk []byte) (*EncapsulationKey, error) {
	if len(pk) != PrekeyBytes {
		return nil, fmt.Errorf("x-wing public key has %d bytes, not %d", len(pk), PrekeyBytes)
	}
	k, err := xwingUnpack((*[PrekeyBytes]byte)(pk))
	if err != nil {
		return nil, fmt.Errorf("x-wing public key: %w", err)
	}
	return &EncapsulationKey{key: k, public: append([]byte(nil), pk...)}, nil
}

// PublicKey returns the 1216 bytes the key was parsed from.
func (k *EncapsulationKey) PublicKey() []byte { return append([]byte(nil), k.public...) }

// Encapsulate returns a fresh 32-byte shared secret and the 1120-byte
// ciphertext that carries it (03#x-wing). The caller clears the secret.
//
// The error is always nil with the X25519 in use; it stands for one that
// refuses an all-zero result, where 03#x-wing says the operation fails.
func (k *EncapsulationKey) Encapsulate() (sharedSecret, ciphertext []byte, err error) {
	var eseed [eseedBytes]byte
	defer clear(eseed[:])
	rand.Read(eseed[:])
	sharedSecret, ciphertext = xwingEncapsulate(k.key, &eseed)
	return sharedSecret, ciphertext, nil
}

// EncapsulateDeterministic is Encapsulate with its 64 random bytes given.
// 03#encryption allows it in test vectors only.
func (k *EncapsulationKey) EncapsulateDeterministic(eseed []byte) (sharedSecret, ciphertext []byte, err error) {
	if len(eseed) != eseedBytes {
		return nil, nil, fmt.Errorf("encapsulation randomness has %d bytes, not %d", len(eseed), eseedBytes)
	}
	sharedSecret, ciphertext = xwingEncapsulate(k.key, (*[eseedBytes]byte)(eseed))
	return sharedSecret, ciphertext, nil
}

// DecapsulationKey is an expanded X-Wing private key. It prints as
// "[decapsulation key]".
type DecapsulationKey struct {
	key    hidden[xwingPrivate]
	public []byte
}

// NewDecapsulationKey expands seed (03#x-wing), which it does not keep: the
// caller destroys it. The seed must hold a key.
func NewDecapsulationKey(seed *Seed) *DecapsulationKey {
	sk, pk := xwingFromSeed(seed.key())
	return &DecapsulationKey{key: hide(sk), public: pk}
}

// PublicKey returns the 1216 bytes of the public key, also after Destroy.
func (k *DecapsulationKey) PublicKey() []byte { return append([]byte(nil), k.public...) }

// Decapsulate returns the 32-byte shared secret of a ciphertext of exactly
// 1120 bytes (03#x-wing), which the caller clears. A ciphertext that was not
// made for this key gives another secret, not an error: ML-KEM rejects
// implicitly, and the AEAD finds out.
func (k *DecapsulationKey) Decapsulate(ciphertext []byte) (sharedSecret []byte, err error) {
	if k.key == nil {
		return nil, errKeyDestroyed
	}
	if len(ciphertext) != KEMCiphertextBytes {
		return nil, fmt.Errorf("x-wing ciphertext has %d bytes, not %d", len(ciphertext), KEMCiphertextBytes)
	}
	return xwingDecapsulate(k.key(), (*[KEMCiphertextBytes]byte)(ciphertext)), nil
}

// Destroy clears the seed, the X25519 secret and the ML-KEM rejection secret.
// The expanded ML-KEM vector lies behind a pointer of circl's and is left to
// the collector; alone, it opens no ciphertext.
func (k *DecapsulationKey) Destroy() {
	if k.key == nil {
		return
	}
	*k.key() = xwingPrivate{}
	k.key = nil
}

// Format prints "[decapsulation key]" for every verb.
func (k *DecapsulationKey) Format(f fmt.State, _ rune) { io.WriteString(f, "[decapsulation key]") }

// LogValue logs "[decapsulation key]".
func (k *DecapsulationKey) LogValue() slog.Value { return slog.StringValue("[decapsulation key]") }
