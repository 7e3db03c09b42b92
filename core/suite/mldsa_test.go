package suite_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
)

func newSigner(t testing.TB) (*suite.SigningKey, *suite.VerifyKey) {
	t.Helper()
	private := suite.NewSigningKey(suite.NewSeed())
	public, err := suite.ParseVerifyKey(private.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

func sign(t testing.TB, k *suite.SigningKey, msg []byte, context string) []byte {
	t.Helper()
	sig, err := k.Sign(msg, context)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

func TestSignIsHedged(t *testing.T) {
	private, public := newSigner(t)
	msg := []byte("a message")
	a, b := sign(t, private, msg, "packet"), sign(t, private, msg, "packet")
	if bytes.Equal(a, b) {
		t.Error("two signatures of one message are equal: not hedged")
	}
	if !public.Verify(msg, a, "packet") || !public.Verify(msg, b, "packet") {
		t.Error("a fresh signature does not verify")
	}
}

func TestContext(t *testing.T) {
	private, public := newSigner(t)
	msg := []byte("a message")
	longest, tooLong := strings.Repeat("c", 255), strings.Repeat("c", 256)

	sig := sign(t, private, msg, longest)
	if !public.Verify(msg, sig, longest) {
		t.Error("a context of 255 bytes does not verify")
	}
	if public.Verify(msg, sig, tooLong) {
		t.Error("a context of 256 bytes verifies")
	}
	if _, err := private.Sign(msg, tooLong); err == nil {
		t.Error("a context of 256 bytes is signed")
	}
	for _, other := range []string{"", "delivery-permit", longest[:254]} {
		if public.Verify(msg, sig, other) {
			t.Errorf("the signature verifies under context %q", other)
		}
	}
}

func TestSignatureLengths(t *testing.T) {
	private, public := newSigner(t)
	sig := sign(t, private, nil, "packet")
	if len(sig) != suite.SignatureBytes {
		t.Fatalf("signature has %d bytes", len(sig))
	}
	for n := range suite.SignatureBytes {
		if n%97 == 0 && public.Verify(nil, sig[:n], "packet") {
			t.Errorf("a signature of %d bytes verifies", n)
		}
	}
	if public.Verify(nil, append(bytes.Clone(sig), 0), "packet") || public.Verify(nil, nil, "packet") {
		t.Error("a longer or absent signature verifies")
	}
}

func TestVerifyKeyLengths(t *testing.T) {
	for _, n := range []int{0, 1, 1951, 1953, 4032} {
		if _, err := suite.ParseVerifyKey(make([]byte, n)); err == nil {
			t.Errorf("a public key of %d bytes is accepted", n)
		}
	}
}

func TestVerifyKeyBytes(t *testing.T) {
	for _, pk := range [][]byte{
		suite.NewSigningKey(suite.NewSeed()).PublicKey(),
		bytes.Repeat([]byte{0xff}, suite.PublicKeyBytes),
		suite.RandomBytes(suite.PublicKeyBytes),
	} {
		k, err := suite.ParseVerifyKey(pk)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(k.Bytes(), pk) {
			t.Error("the key does not give back its bytes")
		}
	}
}

func TestPublicKeyIsACopy(t *testing.T) {
	k := suite.NewSigningKey(suite.NewSeed())
	want := k.PublicKey()
	clear(k.PublicKey())
	if !bytes.Equal(k.PublicKey(), want) {
		t.Error("the caller can write to the key")
	}
}

func TestDestroyedSigningKey(t *testing.T) {
	k, _ := newSigner(t)
	pk := k.PublicKey()
	k.Destroy()
	k.Destroy()
	if _, err := k.Sign(nil, "packet"); err == nil {
		t.Error("a destroyed key signs")
	}
	if !bytes.Equal(k.PublicKey(), pk) {
		t.Error("the public key is gone")
	}
}

// FuzzVerify feeds the decoders of remote bytes: nothing panics, and nothing
// that the signer did not sign verifies.
func FuzzVerify(f *testing.F) {
	private, public := newSigner(f)
	msg := []byte("a message")
	sig := sign(f, private, msg, "packet")
	f.Add(private.PublicKey(), sig)
	f.Add([]byte(nil), []byte(nil))
	f.Add(bytes.Repeat([]byte{0xff}, suite.PublicKeyBytes), bytes.Repeat([]byte{0xff}, suite.SignatureBytes))
	f.Fuzz(func(t *testing.T, pk, s []byte) {
		if public.Verify(msg, s, "packet") && !bytes.Equal(s, sig) {
			t.Error("another signature verifies")
		}
		k, err := suite.ParseVerifyKey(pk)
		if (err == nil) != (len(pk) == suite.PublicKeyBytes) {
			t.Fatalf("public key of %d bytes: %v", len(pk), err)
		}
		if err == nil {
			k.Verify(msg, s, "packet")
		}
	})
}
