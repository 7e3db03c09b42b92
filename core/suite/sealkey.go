package suite

import (
	"crypto/cipher"
	"crypto/rand"
)

// SealKey is an AES-256-GCM key that is expanded once and used for many rows. It
// serves the local sealing of what is stored and never meets the wire. It is
// safe for concurrent use and does not print. Nonces are random, so one key is
// good for 2^32 seals.
type SealKey struct {
	aead hidden[cipher.AEAD]
}

// NewSealKey expands a 32-byte key, which the caller still owns and clears.
func NewSealKey(key []byte) (*SealKey, error) {
	aead, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	return &SealKey{aead: hide(&aead)}, nil
}

// Seal returns nonce[12] ‖ ciphertext ‖ tag[16], as [Seal] does.
func (k *SealKey) Seal(plaintext, aad []byte) []byte {
	sealed := make([]byte, GCMNonceBytes, GCMNonceBytes+len(plaintext)+GCMTagBytes)
	rand.Read(sealed)
	return (*k.aead()).Seal(sealed, sealed, plaintext, aad)
}

// Open reverses Seal in the memory of sealed, part of which it returns. After a
// failure, which is the same whatever its cause, sealed holds nothing of use.
func (k *SealKey) Open(sealed, aad []byte) ([]byte, error) {
	if len(sealed) < GCMNonceBytes+GCMTagBytes {
		return nil, errOpen
	}
	ciphertext := sealed[GCMNonceBytes:]
	plaintext, err := (*k.aead()).Open(ciphertext[:0], sealed[:GCMNonceBytes], ciphertext, aad)
	if err != nil {
		return nil, errOpen
	}
	return plaintext, nil
}
