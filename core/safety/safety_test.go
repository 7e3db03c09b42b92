package safety_test

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ace-toolkit/ace/core/safety"
	"github.com/ace-toolkit/ace/core/wire"
)

var (
	id   = wire.ACEID(strings.Repeat("ab", 32))
	last = strings.Repeat("01", 32)
)

func list(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("words.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// The list is what the words' meaning rests on, so its digest is pinned.
func TestListIsFixed(t *testing.T) {
	text, err := os.ReadFile("words.txt")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); got != listDigest {
		t.Errorf("the word list has changed: %s", got)
	}
}

func TestWordsAreDistinct(t *testing.T) {
	words := list(t)
	if len(words) != 1024 || !slices.IsSorted(words) {
		t.Fatalf("%d words, sorted: %v", len(words), slices.IsSorted(words))
	}
	for i, a := range words {
		if len(a) < 4 || len(a) > 6 || strings.Trim(a, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q", a)
		}
		for _, b := range words[i+1:] {
			if a[:4] == b[:4] || near(a, b) {
				t.Errorf("%q and %q", a, b)
			}
		}
	}
}

// near reports whether one letter changed, added or left out makes b of a.
func near(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i == len(a) || a[i+1:] == b[i+1:]
	}
	return a[i:] == b[i+1:]
}

// TestDerivation derives the words a second way, from the digest as one number.
func TestDerivation(t *testing.T) {
	n := safety.Of(id, last)
	sum := sha256.Sum256([]byte(wire.EncodePayload("ace/safety/1", id, last)))
	if n.Fingerprint != hex.EncodeToString(sum[:]) {
		t.Errorf("fingerprint %s", n.Fingerprint)
	}
	first := new(big.Int).Rsh(new(big.Int).SetBytes(sum[:]), 256-100)
	words := list(t)
	var want []string
	for range safety.Words {
		var digit big.Int
		first.DivMod(first, big.NewInt(1024), &digit)
		want = append([]string{words[digit.Int64()]}, want...)
	}
	if !slices.Equal(n.Words, want) {
		t.Errorf("%v, want %v", n.Words, want)
	}
}

func TestEveryPartCounts(t *testing.T) {
	base := safety.Of(id, last)
	for name, other := range map[string]safety.Number{
		"another identity": safety.Of(wire.ACEID(strings.Repeat("ac", 32)), last),
		"another event":    safety.Of(id, strings.Repeat("02", 32)),
	} {
		if slices.Equal(base.Words, other.Words) || base.Fingerprint == other.Fingerprint {
			t.Errorf("%s has the same number", name)
		}
	}
}

const listDigest = "9aabcefce72c2d56d7978bbb700ff1930e84b2195ae34f84c808634649eb4617"
