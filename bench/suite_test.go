package bench

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/ace-toolkit/ace/core/suite"
)

// suiteKit holds one of each, with sizes as in a packet of a few kilobytes.
type suiteKit struct {
	seed    *suite.Seed
	signing *suite.SigningKey
	verify  *suite.VerifyKey
	pk      []byte
	msg     []byte
	sig     []byte

	decapsulation *suite.DecapsulationKey
	encapsulation *suite.EncapsulationKey
	prekey        []byte
	secret        []byte
	ciphertext    []byte
}

func newSuiteKit(b *testing.B) *suiteKit {
	b.Helper()
	k := &suiteKit{seed: suite.NewSeed(), msg: suite.RandomBytes(3600)}
	k.signing, k.decapsulation = suite.NewSigningKey(k.seed), suite.NewDecapsulationKey(k.seed)
	k.pk, k.prekey = k.signing.PublicKey(), k.decapsulation.PublicKey()

	var errs [4]error
	k.verify, errs[0] = suite.ParseVerifyKey(k.pk)
	k.sig, errs[1] = k.signing.Sign(k.msg, "packet")
	k.encapsulation, errs[2] = suite.ParseEncapsulationKey(k.prekey)
	if errs[2] == nil {
		k.secret, k.ciphertext, errs[3] = k.encapsulation.Encapsulate()
	}
	for _, err := range errs {
		if err != nil {
			b.Fatal(err)
		}
	}
	return k
}

func (k *suiteKit) mustVerify(b *testing.B, v *suite.VerifyKey) {
	if !v.Verify(k.msg, k.sig, "packet") {
		b.Fatal("signature does not verify")
	}
}

func BenchmarkMLDSA(b *testing.B) {
	k := newSuiteKit(b)
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.signing.Sign(k.msg, "packet"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sign from seed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := suite.NewSigningKey(k.seed).Sign(k.msg, "packet"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			k.mustVerify(b, k.verify)
		}
	})
	b.Run("parse and verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, err := suite.ParseVerifyKey(k.pk)
			if err != nil {
				b.Fatal(err)
			}
			k.mustVerify(b, v)
		}
	})
}

func BenchmarkXWing(b *testing.B) {
	k := newSuiteKit(b)
	encapsulate := func(b *testing.B, e *suite.EncapsulationKey) {
		if _, _, err := e.Encapsulate(); err != nil {
			b.Fatal(err)
		}
	}
	decapsulate := func(b *testing.B, d *suite.DecapsulationKey) {
		if _, err := d.Decapsulate(k.ciphertext); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("encapsulate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			encapsulate(b, k.encapsulation)
		}
	})
	b.Run("parse and encapsulate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e, err := suite.ParseEncapsulationKey(k.prekey)
			if err != nil {
				b.Fatal(err)
			}
			encapsulate(b, e)
		}
	})
	b.Run("decapsulate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decapsulate(b, k.decapsulation)
		}
	})
	b.Run("decapsulate from seed", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			decapsulate(b, suite.NewDecapsulationKey(k.seed))
		}
	})
}

func BenchmarkSymmetric(b *testing.B) {
	k := newSuiteKit(b)
	header, text := suite.RandomBytes(1400), suite.RandomBytes(16<<10)
	key := suite.PacketKey(k.secret, header)
	sealed, err := suite.Seal(key, text, header)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("hkdf", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			suite.PacketKey(k.secret, header)
		}
	})
	b.Run("seal 16 KB", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := suite.Seal(key, text, header); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open 16 KB", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			if _, err := suite.Open(key, sealed, header); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sha256 16 KB", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(text)))
		for b.Loop() {
			suite.Hex256(text)
		}
	})
}

// BenchmarkUpperState would show circl's AVX code slowing down the SSE code
// that runs after it (see core/suite/circl.go). The goal for "ratio", which is
// (op; sha256) ÷ (op + sha256), is at most 1.2.
func BenchmarkUpperState(b *testing.B) {
	k := newSuiteKit(b)
	body := suite.RandomBytes(9 << 10)
	hash := func() { sha256.Sum256(body) }
	for _, op := range []struct {
		name string
		run  func()
	}{
		{"verify", func() { k.verify.Verify(k.msg, k.sig, "packet") }},
		{"parse", func() { _, _ = suite.ParseVerifyKey(k.pk) }},
		{"sign", func() { _, _ = k.signing.Sign(k.msg, "packet") }},
		{"encapsulate", func() { _, _, _ = k.encapsulation.Encapsulate() }},
		{"decapsulate", func() { _, _ = k.decapsulation.Decapsulate(k.ciphertext) }},
	} {
		b.Run(op.name, func(b *testing.B) {
			b.ReportAllocs()
			var together, opAlone, hashAlone time.Duration
			for b.Loop() {
				// A few of each in turn: the machine's drift hits all three alike.
				together += timed(8, op.run, hash)
				opAlone += timed(8, op.run)
				hashAlone += timed(8, hash)
			}
			b.ReportMetric(float64(together)/float64(opAlone+hashAlone), "ratio")
		})
	}
}

// timed runs the calls in turn, n times over.
func timed(n int, calls ...func()) time.Duration {
	start := time.Now()
	for range n {
		for _, call := range calls {
			call()
		}
	}
	return time.Since(start)
}
