package suite

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// keyBytes is the length of every AES-256-GCM key and HKDF output here.
const keyBytes = 32

var errOpen = errors.New("aead authentication failed")

// PacketKey derives the AES-256-GCM key of a packet from the shared secret and
// the packet header: HKDF-SHA256 with an empty salt and the header as info, 32
// bytes (03#encryption). The caller clears both secrets.
func PacketKey(sharedSecret, header []byte) []byte {
	return expand(sharedSecret, string(header))
}

// Subkey derives an independent 32-byte key for one purpose, named by label,
// from a stored key: HKDF-SHA256 with an empty salt and the label as info. It
// serves the local sealing of stored secrets and never meets the wire.
func Subkey(key []byte, label string) []byte {
	return expand(key, label)
}

func expand(secret []byte, info string) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, info, keyBytes)
	if err != nil {
		panic("ace: internal error: hkdf: " + err.Error())
	}
	return key
}

// Seal encrypts with AES-256-GCM under a 32-byte key and a random nonce and
// returns nonce[12] ‖ ciphertext ‖ tag[16] (03#encryption).
func Seal(key, plaintext, aad []byte) ([]byte, error) {
	var nonce [GCMNonceBytes]byte
	rand.Read(nonce[:])
	return SealWithNonce(key, nonce[:], plaintext, aad)
}

// SealWithNonce is Seal with the 12 bytes of the nonce given. It is for test
// vectors only: a nonce used twice under one key gives the key away.
func SealWithNonce(key, nonce, plaintext, aad []byte) ([]byte, error) {
	aead, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	if len(nonce) != GCMNonceBytes {
		return nil, fmt.Errorf("aead nonce has %d bytes, not %d", len(nonce), GCMNonceBytes)
	}
	sealed := make([]byte, GCMNonceBytes, GCMNonceBytes+len(plaintext)+GCMTagBytes)
	copy(sealed, nonce)
	return aead.Seal(sealed, nonce, plaintext, aad), nil
}

// Open reverses Seal. Every failure that depends on sealed or aad says the
// same: too short, altered, or of another key or aad.
func Open(key, sealed, aad []byte) ([]byte, error) {
	aead, err := newGCM(key)
	if err != nil {
		return nil, err
	}
	if len(sealed) < GCMNonceBytes+GCMTagBytes {
		return nil, errOpen
	}
	plaintext, err := aead.Open(nil, sealed[:GCMNonceBytes], sealed[GCMNonceBytes:], aad)
	if err != nil {
		return nil, errOpen
	}
	return plaintext, nil
}

// newGCM refuses the shorter keys that crypto/aes would take as AES-128 or -192.
func newGCM(key []byte) (cipher.AEAD, error) {
	if len(key) != keyBytes {
		return nil, fmt.Errorf("aead key has %d bytes, not %d", len(key), keyBytes)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
