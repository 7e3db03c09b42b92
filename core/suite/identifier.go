package suite

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// nonceBytes gives the 64 hex characters of a relay request nonce.
const nonceBytes = 32

// Hex256 returns SHA-256(b) as 64 lowercase hex characters, the hex digest of
// 02#identifiers.
func Hex256(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// NewMessageID returns a random message ID: a lowercase UUID v4
// (02#identifiers).
func NewMessageID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6] = b[6]&0x0f | 0x40 // version 4
	b[8] = b[8]&0x3f | 0x80 // variant of RFC 9562

	var id [36]byte
	at := 0
	for _, group := range [][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
		if at > 0 {
			id[at] = '-'
			at++
		}
		at += hex.Encode(id[at:], group)
	}
	return string(id[:])
}

// NewNonce returns 32 random bytes as 64 lowercase hex characters, the nonce
// of an authenticated relay request (07#authentication).
func NewNonce() string {
	return hex.EncodeToString(RandomBytes(nonceBytes))
}

// RandomBytes returns n bytes from crypto/rand, which never fails.
func RandomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}
