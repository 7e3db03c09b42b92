package suite

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

const seedText = "[seed]"

var errSeedEncoded = errors.New("a seed must not be encoded: use Expose to store it")

// Seed is the 32-byte private key of either scheme: FIPS 204 § 3.6.3 for
// ML-DSA-65 (02#signatures), 03#x-wing for X-Wing. It prints as "[seed]",
// refuses to be encoded and cannot be compared with ==.
//
// Copies of a Seed share their bytes, and one Destroy clears them all.
//
// The zero Seed and a destroyed one hold no key. Using one where a key is
// needed is a bug of the caller and panics: the alternative is the key that
// derives from 32 zero bytes.
type Seed struct {
	secret hidden[seedSecret]
}

type seedSecret struct {
	live  bool
	bytes [SeedBytes]byte
}

// NewSeed returns a fresh random seed.
func NewSeed() *Seed {
	s := &seedSecret{live: true}
	rand.Read(s.bytes[:])
	return &Seed{secret: hide(s)}
}

// SeedFromBytes copies exactly 32 bytes into a seed. The caller still owns b
// and clears it.
func SeedFromBytes(b []byte) (*Seed, error) {
	if len(b) != SeedBytes {
		return nil, fmt.Errorf("seed has %d bytes, not %d", len(b), SeedBytes)
	}
	s := &seedSecret{live: true}
	copy(s.bytes[:], b)
	return &Seed{secret: hide(s)}, nil
}

// Expose returns a copy of the 32 bytes, to be sealed and stored. The caller
// clears it.
func (s *Seed) Expose() []byte {
	return append([]byte(nil), s.key()[:]...)
}

// Destroy clears the bytes. The seed holds no key from then on.
func (s *Seed) Destroy() {
	if s.secret == nil {
		return
	}
	*s.secret() = seedSecret{}
}

// Equal reports in constant time whether both hold the same key. A seed that
// holds none equals nothing.
func (s *Seed) Equal(o *Seed) bool {
	if !s.holds() || !o.holds() {
		return false
	}
	return subtle.ConstantTimeCompare(s.secret().bytes[:], o.secret().bytes[:]) == 1
}

func (s *Seed) holds() bool { return s != nil && s.secret != nil && s.secret().live }

func (s *Seed) key() *[SeedBytes]byte {
	if !s.holds() {
		panic("ace: internal error: use of an empty or destroyed seed")
	}
	return &s.secret().bytes
}

// String returns "[seed]".
func (s Seed) String() string { return seedText }

// GoString returns "[seed]".
func (s Seed) GoString() string { return seedText }

// Format prints "[seed]" for every verb.
func (s Seed) Format(f fmt.State, _ rune) { io.WriteString(f, seedText) }

// LogValue logs "[seed]".
func (s Seed) LogValue() slog.Value { return slog.StringValue(seedText) }

// MarshalJSON always fails: a seed is never part of a document.
func (s Seed) MarshalJSON() ([]byte, error) { return nil, errSeedEncoded }

// MarshalText always fails, like MarshalJSON.
func (s Seed) MarshalText() ([]byte, error) { return nil, errSeedEncoded }

// GobEncode always fails, like MarshalJSON.
func (s Seed) GobEncode() ([]byte, error) { return nil, errSeedEncoded }
