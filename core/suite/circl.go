package suite

import (
	"github.com/cloudflare/circl/kem/xwing"
	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
)

// This file is the only one that touches circl, and each function in it
// defers clearUpper first.
//
// circl's AVX2 assembly (Keccak, the NTTs) returns without VZEROUPPER. The
// upper halves of the vector registers then stay in use on that thread, and on
// some processors every SSE instruction pays for it: Go's SHA-256 with the SHA
// extensions ran 85 times slower after one Verify, until other code happened
// to clear the registers. TestUpperStateIsClear looks at the registers,
// BenchmarkUpperState in bench at the cost.

type (
	mldsaPublic  = mldsa65.PublicKey
	mldsaPrivate = mldsa65.PrivateKey
	xwingPublic  = xwing.PublicKey
	xwingPrivate = xwing.PrivateKey
)

func mldsaFromSeed(seed *[SeedBytes]byte) (*mldsaPublic, *mldsaPrivate) {
	defer clearUpper()
	return mldsa65.NewKeyFromSeed(seed)
}

func mldsaUnpack(pk *[PublicKeyBytes]byte) *mldsaPublic {
	defer clearUpper()
	k := new(mldsaPublic)
	k.Unpack(pk)
	return k
}

func mldsaPack(k *mldsaPublic) []byte {
	defer clearUpper()
	return k.Bytes()
}

func mldsaVerify(k *mldsaPublic, msg, context, sig []byte) bool {
	defer clearUpper()
	return mldsa65.Verify(k, msg, context, sig)
}

// mldsaSign signs, hedged or with zeros for randomness. SignTo is the only
// call of circl that hedges: PrivateKey.Sign and the generic Scheme are
// deterministic, and the former drops the context.
func mldsaSign(k *mldsaPrivate, msg, context []byte, hedged bool) ([]byte, error) {
	defer clearUpper()
	sig := make([]byte, SignatureBytes)
	if err := mldsa65.SignTo(k, msg, context, hedged, sig); err != nil {
		return nil, err
	}
	return sig, nil
}

func xwingFromSeed(seed *[SeedBytes]byte) (*xwingPrivate, []byte) {
	defer clearUpper()
	sk, pk := xwing.DeriveKeyPair(seed[:])
	packed := make([]byte, PrekeyBytes)
	pk.Pack(packed)
	return sk, packed
}

func xwingUnpack(pk *[PrekeyBytes]byte) (*xwingPublic, error) {
	defer clearUpper()
	k := new(xwingPublic)
	if err := k.Unpack(pk[:]); err != nil {
		return nil, err
	}
	return k, nil
}

func xwingEncapsulate(k *xwingPublic, eseed *[eseedBytes]byte) (sharedSecret, ciphertext []byte) {
	defer clearUpper()
	sharedSecret = make([]byte, SharedSecretBytes)
	ciphertext = make([]byte, KEMCiphertextBytes)
	k.EncapsulateTo(ciphertext, sharedSecret, eseed[:])
	return sharedSecret, ciphertext
}

func xwingDecapsulate(k *xwingPrivate, ciphertext *[KEMCiphertextBytes]byte) (sharedSecret []byte) {
	defer clearUpper()
	sharedSecret = make([]byte, SharedSecretBytes)
	k.DecapsulateTo(sharedSecret, ciphertext[:])
	return sharedSecret
}
