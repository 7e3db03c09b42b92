package suite_test

import (
	"regexp"
	"testing"

	"github.com/ace-toolkit/ace/core/suite"
)

func TestHex256(t *testing.T) {
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-4
	if got := suite.Hex256([]byte("abc")); got != abc {
		t.Errorf("got %s, want %s", got, abc)
	}
}

func TestRandomIdentifiers(t *testing.T) {
	messageID := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	nonce := regexp.MustCompile(`^[0-9a-f]{64}$`)
	seen := map[string]bool{}
	for range 200 {
		id, n, b := suite.NewMessageID(), suite.NewNonce(), string(suite.RandomBytes(32))
		if !messageID.MatchString(id) {
			t.Errorf("message ID %q", id)
		}
		if !nonce.MatchString(n) {
			t.Errorf("nonce %q", n)
		}
		if seen[id] || seen[n] || seen[b] {
			t.Fatal("a random value repeats")
		}
		seen[id], seen[n], seen[b] = true, true, true
	}
}

func TestRandomBytesLength(t *testing.T) {
	for _, n := range []int{0, 1, 12, 64, 5000} {
		if got := len(suite.RandomBytes(n)); got != n {
			t.Errorf("%d bytes, not %d", got, n)
		}
	}
}

// TestMessageIDBits fixes version and variant where the random bits are all
// ones.
func TestMessageIDBits(t *testing.T) {
	ones := make([]byte, 16)
	for i := range ones {
		ones[i] = 0xff
	}
	randomIs(t, ones)
	if got, want := suite.NewMessageID(), "ffffffff-ffff-4fff-bfff-ffffffffffff"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
