package suite_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
)

// TestPacketKeyFormula writes HKDF out: extract with an empty salt, expand by
// one block with the header as info.
func TestPacketKeyFormula(t *testing.T) {
	ss, header := suite.RandomBytes(suite.SharedSecretBytes), suite.RandomBytes(1400)
	prk := mac(make([]byte, sha256.Size), ss)
	want := mac(prk, append(bytes.Clone(header), 1))
	if got := suite.PacketKey(ss, header); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if got := suite.Subkey(ss, string(header)); !bytes.Equal(got, want) {
		t.Errorf("subkey is %x, want %x", got, want)
	}
}

func mac(key, msg []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(msg)
	return h.Sum(nil)
}

func TestSubkeysDiffer(t *testing.T) {
	key := suite.RandomBytes(32)
	a, b := suite.Subkey(key, "a"), suite.Subkey(key, "b")
	if bytes.Equal(a, b) || bytes.Equal(a, key) || len(a) != 32 {
		t.Error("labels do not separate keys")
	}
}

func TestSealOpen(t *testing.T) {
	key, aad := suite.RandomBytes(32), []byte("header")
	for _, n := range []int{0, 1, 16, 16 << 10} {
		plaintext := suite.RandomBytes(n)
		sealed, err := suite.Seal(key, plaintext, aad)
		if err != nil {
			t.Fatal(err)
		}
		if want := n + suite.GCMNonceBytes + suite.GCMTagBytes; len(sealed) != want {
			t.Errorf("%d bytes are sealed as %d, not %d", n, len(sealed), want)
		}
		got, err := suite.Open(key, sealed, aad)
		if err != nil || !bytes.Equal(got, plaintext) {
			t.Errorf("%d bytes do not open: %v", n, err)
		}
		again, err := suite.SealWithNonce(key, sealed[:suite.GCMNonceBytes], plaintext, aad)
		if err != nil || !bytes.Equal(again, sealed) {
			t.Errorf("the same nonce seals differently: %v", err)
		}
		other, err := suite.Seal(key, plaintext, aad)
		if err != nil || bytes.Equal(other[:suite.GCMNonceBytes], sealed[:suite.GCMNonceBytes]) {
			t.Errorf("the nonce repeats: %v", err)
		}
	}
}

// TestGCMVector is test case 16 of the GCM specification (McGrew and Viega):
// AES-256 with additional data.
func TestGCMVector(t *testing.T) {
	key := unhex(t, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
	nonce := unhex(t, "cafebabefacedbaddecaf888")
	aad := unhex(t, "feedfacedeadbeeffeedfacedeadbeefabaddad2")
	plaintext := unhex(t, "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"+
		"1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39")
	want := unhex(t, "cafebabefacedbaddecaf888"+
		"522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"+
		"8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"+
		"76fc6ece0f4e1768cddf8853bb2d551b")
	got, err := suite.SealWithNonce(key, nonce, plaintext, aad)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x (%v), want %x", got, err, want)
	}
}

func TestOpenRefuses(t *testing.T) {
	key, aad := suite.RandomBytes(32), []byte("header")
	sealed, err := suite.Seal(key, []byte("text"), aad)
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 0x80
		if _, err := suite.Open(key, bad, aad); err == nil {
			t.Errorf("opens with byte %d altered", i)
		}
		if _, err := suite.Open(key, sealed[:i], aad); err == nil {
			t.Errorf("opens when cut to %d bytes", i)
		}
	}
	if _, err := suite.Open(suite.RandomBytes(32), sealed, aad); err == nil {
		t.Error("opens under another key")
	}
	if _, err := suite.Open(key, sealed, nil); err == nil {
		t.Error("opens with other additional data")
	}
	if _, err := suite.Open(key, append(bytes.Clone(sealed), 0), aad); err == nil {
		t.Error("opens with a byte added")
	}
}

func TestSymmetricLengths(t *testing.T) {
	nonce := make([]byte, suite.GCMNonceBytes)
	for _, n := range []int{0, 16, 24, 31, 33} {
		key := make([]byte, n)
		if _, err := suite.Seal(key, nil, nil); err == nil {
			t.Errorf("seals with a key of %d bytes", n)
		}
		if _, err := suite.Open(key, make([]byte, 28), nil); err == nil {
			t.Errorf("opens with a key of %d bytes", n)
		}
	}
	for _, n := range []int{0, 11, 13, 16} {
		if _, err := suite.SealWithNonce(make([]byte, 32), make([]byte, n), nil, nil); err == nil {
			t.Errorf("seals with a nonce of %d bytes", n)
		}
	}
	if _, err := suite.SealWithNonce(make([]byte, 32), nonce, nil, nil); err != nil {
		t.Error(err)
	}
}
