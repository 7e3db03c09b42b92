// Package suite is the one cryptographic suite of ACE v1: ML-DSA-65
// signatures, the X-Wing KEM, HKDF-SHA256, AES-256-GCM and SHA-256, with the
// secret [Seed] from which every private key derives.
//
// It knows sizes and algorithms, not meanings: what is signed or sealed, and
// which code a failure has, is the caller's. Errors are therefore plain. The
// package keeps no state, and its randomness is crypto/rand alone.
//
// Start at [Seed], then [SigningKey] and [VerifyKey] for 02#signatures, and
// [EncapsulationKey], [DecapsulationKey], [PacketKey], [Seal] and [Open] for
// 03#encryption. Expanded keys may be shared between goroutines; Destroy may
// run only when nobody else uses the key.
package suite

// Sizes in bytes, from the scheme table of 02#signatures and from 03#x-wing.
const (
	SeedBytes      = 32   // private key of either scheme
	PublicKeyBytes = 1952 // ML-DSA-65 public key
	SignatureBytes = 3309 // ML-DSA-65 signature

	PrekeyBytes        = 1216 // X-Wing public key: pk_M[1184] ‖ pk_X[32]
	KEMCiphertextBytes = 1120 // X-Wing ciphertext: ct_M[1088] ‖ ct_X[32]
	SharedSecretBytes  = 32   // X-Wing shared secret, and every symmetric key

	GCMNonceBytes = 12
	GCMTagBytes   = 16
)
