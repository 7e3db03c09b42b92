package suite_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/sha3"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
)

// plainXWing is 03#x-wing written out with the standard library alone, the
// second opinion on the implementation in use.
type plainXWing struct {
	m  *mlkem.DecapsulationKey768
	x  *ecdh.PrivateKey
	pk []byte
}

func newPlainXWing(t testing.TB, seed []byte) *plainXWing {
	t.Helper()
	expanded := sha3.SumSHAKE256(seed, 96)
	m, err := mlkem.NewDecapsulationKey768(expanded[:64])
	if err != nil {
		t.Fatal(err)
	}
	x, err := ecdh.X25519().NewPrivateKey(expanded[64:])
	if err != nil {
		t.Fatal(err)
	}
	return &plainXWing{m: m, x: x, pk: append(m.EncapsulationKey().Bytes(), x.PublicKey().Bytes()...)}
}

// encapsulate to pk. The standard library takes no ML-KEM randomness.
func plainEncapsulate(t testing.TB, pk []byte) (ss, ct []byte) {
	t.Helper()
	m, err := mlkem.NewEncapsulationKey768(pk[:1184])
	if err != nil {
		t.Fatal(err)
	}
	x, err := ecdh.X25519().NewPublicKey(pk[1184:])
	if err != nil {
		t.Fatal(err)
	}
	ephemeral, err := ecdh.X25519().NewPrivateKey(suite.RandomBytes(32))
	if err != nil {
		t.Fatal(err)
	}
	ssX, err := ephemeral.ECDH(x)
	if err != nil {
		t.Fatal(err)
	}
	ssM, ctM := m.Encapsulate()
	ctX := ephemeral.PublicKey().Bytes()
	return plainCombine(ssM, ssX, ctX, pk[1184:]), append(ctM, ctX...)
}

func (p *plainXWing) decapsulate(t testing.TB, ct []byte) []byte {
	t.Helper()
	ssM, err := p.m.Decapsulate(ct[:1088])
	if err != nil {
		t.Fatal(err)
	}
	ctX, err := ecdh.X25519().NewPublicKey(ct[1088:])
	if err != nil {
		t.Fatal(err)
	}
	ssX, err := p.x.ECDH(ctX)
	if err != nil {
		t.Fatal(err)
	}
	return plainCombine(ssM, ssX, ct[1088:], p.pk[1184:])
}

func plainCombine(ssM, ssX, ctX, pkX []byte) []byte {
	label := []byte{0x5c, 0x2e, 0x2f, 0x2f, 0x5e, 0x5c}
	sum := sha3.Sum256(bytes.Join([][]byte{ssM, ssX, ctX, pkX, label}, nil))
	return sum[:]
}

func TestXWingAgainstStandardLibrary(t *testing.T) {
	source := rand.NewChaCha8([32]byte{0x5c})
	for i := range 60 {
		b := make([]byte, suite.SeedBytes)
		source.Read(b)
		seed, err := suite.SeedFromBytes(b)
		if err != nil {
			t.Fatal(err)
		}
		ours, plain := suite.NewDecapsulationKey(seed), newPlainXWing(t, b)
		if !bytes.Equal(ours.PublicKey(), plain.pk) {
			t.Fatalf("seed %d: public keys differ", i)
		}

		public, err := suite.ParseEncapsulationKey(plain.pk)
		if err != nil {
			t.Fatal(err)
		}
		ss, ct, err := public.Encapsulate()
		if err != nil {
			t.Fatal(err)
		}
		if got := plain.decapsulate(t, ct); !bytes.Equal(got, ss) {
			t.Errorf("seed %d: the standard library decapsulates another secret", i)
		}

		ss, ct = plainEncapsulate(t, ours.PublicKey())
		sameSecret(t, ours, ct, ss)

		// Implicit rejection gives both the same wrong secret.
		ct[i*18] ^= 1 << (i % 8)
		sameSecret(t, ours, ct, plain.decapsulate(t, ct))
	}
}

func sameSecret(t *testing.T, k *suite.DecapsulationKey, ct, want []byte) {
	t.Helper()
	got, err := k.Decapsulate(ct)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("secrets differ: %x, want %x", got, want)
	}
}

func TestEncapsulateIsRandom(t *testing.T) {
	k, err := suite.ParseEncapsulationKey(suite.NewDecapsulationKey(suite.NewSeed()).PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	ss1, ct1, err1 := k.Encapsulate()
	ss2, ct2, err2 := k.Encapsulate()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if bytes.Equal(ss1, ss2) || bytes.Equal(ct1[:1088], ct2[:1088]) || bytes.Equal(ct1[1088:], ct2[1088:]) {
		t.Error("two encapsulations share a part")
	}
}

func TestXWingLengths(t *testing.T) {
	private := suite.NewDecapsulationKey(suite.NewSeed())
	public, err := suite.ParseEncapsulationKey(private.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 32, 1088, 1119, 1121, 1184, 1215, 1217, 4096} {
		if _, err := suite.ParseEncapsulationKey(make([]byte, n)); err == nil {
			t.Errorf("a public key of %d bytes is accepted", n)
		}
		if _, err := private.Decapsulate(make([]byte, n)); err == nil {
			t.Errorf("a ciphertext of %d bytes is accepted", n)
		}
	}
	for _, n := range []int{0, 1, 32, 63, 65, 96} {
		if _, _, err := public.EncapsulateDeterministic(make([]byte, n)); err == nil {
			t.Errorf("%d bytes of randomness are accepted", n)
		}
	}
	if _, _, err := public.EncapsulateDeterministic(nil); err == nil {
		t.Error("absent randomness is accepted")
	}
}

// TestMLKEMModulusCheck sets one coefficient of the ML-KEM half, 12 bits each,
// to a value outside the field of q = 3329.
func TestMLKEMModulusCheck(t *testing.T) {
	good := suite.NewDecapsulationKey(suite.NewSeed()).PublicKey()
	for _, at := range []int{0, 1, 255, 256, 500, 767} {
		for _, value := range []uint16{3328, 3329, 3330, 4095} {
			t.Run(fmt.Sprintf("coefficient %d is %d", at, value), func(t *testing.T) {
				pk := bytes.Clone(good)
				setCoefficient(pk, at, value)
				_, err := suite.ParseEncapsulationKey(pk)
				if ok := value < 3329; (err == nil) != ok {
					t.Errorf("error is %v", err)
				}
			})
		}
	}
}

func setCoefficient(pk []byte, at int, value uint16) {
	pair := pk[at/2*3:]
	bits := uint32(pair[0]) | uint32(pair[1])<<8 | uint32(pair[2])<<16
	shift := at % 2 * 12
	bits = bits&^(0xfff<<shift) | uint32(value)<<shift
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], bits)
	copy(pair, b[:3])
}

// TestAllZeroShares pins what 03#x-wing leaves open: the X25519 in use has no
// check for an all-zero result, so both operations succeed with the formula.
func TestAllZeroShares(t *testing.T) {
	private := suite.NewDecapsulationKey(suite.NewSeed())
	pk := private.PublicKey()
	clear(pk[1184:])
	public, err := suite.ParseEncapsulationKey(pk)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := public.Encapsulate(); err != nil {
		t.Errorf("encapsulate: %v", err)
	}
	ct := make([]byte, suite.KEMCiphertextBytes)
	if _, err := private.Decapsulate(ct); err != nil {
		t.Errorf("decapsulate: %v", err)
	}
}

func TestDestroyedDecapsulationKey(t *testing.T) {
	k := suite.NewDecapsulationKey(suite.NewSeed())
	pk := k.PublicKey()
	k.Destroy()
	k.Destroy()
	if _, err := k.Decapsulate(make([]byte, suite.KEMCiphertextBytes)); err == nil {
		t.Error("a destroyed key decapsulates")
	}
	if !bytes.Equal(k.PublicKey(), pk) {
		t.Error("the public key is gone")
	}
}

// FuzzXWing feeds the two decoders of remote bytes: no input panics, and a
// public key that is accepted is one that the standard library accepts too.
func FuzzXWing(f *testing.F) {
	private := suite.NewDecapsulationKey(suite.NewSeed())
	f.Add(private.PublicKey())
	f.Add(make([]byte, suite.KEMCiphertextBytes))
	f.Add(bytes.Repeat([]byte{0xff}, suite.PrekeyBytes))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := private.Decapsulate(b); (err == nil) != (len(b) == suite.KEMCiphertextBytes) {
			t.Errorf("ciphertext of %d bytes: %v", len(b), err)
		}
		k, err := suite.ParseEncapsulationKey(b)
		if len(b) != suite.PrekeyBytes {
			if err == nil {
				t.Errorf("public key of %d bytes is accepted", len(b))
			}
			return
		}
		if _, plain := mlkem.NewEncapsulationKey768(b[:1184]); (plain == nil) != (err == nil) {
			t.Fatalf("public key: %v, the standard library says %v", err, plain)
		}
		if err == nil {
			if _, _, err := k.Encapsulate(); err != nil {
				t.Error(err)
			}
		}
	})
}
