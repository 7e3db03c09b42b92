// Package safety turns the state of a key event log into words and digits that
// two people compare by voice. Equal words mean that both hold the same log: the
// same identity, up to the same last event.
//
// The derivation is this program's own and no part of the protocol. D is
// SHA-256(encodePayload("ace/safety/1", aceId, lastHashHex)), with encodePayload
// of 02#signatures, aceId in full and lastHashHex the 64 lowercase hex digits of
// the last event's hash. Bits 10i to 10i+9 of D, the most significant first, are
// the number of word i in words.txt, for i from 0 to 9; the fingerprint is D in
// hex.
//
// Ten words are 100 bits. Who wants to pass for somebody has to find a log with
// the words of a given one, which takes 2^100 trials; there is nothing to gain
// from two logs of one's own that share their words.
package safety

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// label separates these digests from all others.
const label = "ace/safety/1"

const (
	// Words is how many words a number has.
	Words = 10

	wordBits = 10
)

// wordList are 1024 English words of 4 to 6 letters, one a line, in order. The
// list was made for this program and is under its licence. No two words begin
// with the same four letters, and no letter changed, added or left out makes one
// of another. The list never changes: with another one people would see a change
// that did not happen. It is not that of any wallet, so that nobody takes the
// words for a secret.
//
//go:embed words.txt
var wordList string

// Number is what two people compare.
type Number struct {
	Words       []string // [Words] words
	Fingerprint string   // 64 lowercase hex digits
}

// Of returns the number of a log: its ACE ID and the hex hash of its last event.
func Of(aceID, lastHash string) Number {
	n := Number{Fingerprint: suite.Hex256(wire.EncodePayload(label, aceID, lastHash))}
	digest, err := hex.DecodeString(n.Fingerprint)
	if err != nil {
		panic("ace: internal error: digest: " + err.Error())
	}
	list := strings.Fields(wordList)
	for i := range Words {
		n.Words = append(n.Words, list[bits(digest, i*wordBits)])
	}
	return n
}

// bits returns the wordBits bits of b from the given bit on, the most
// significant first.
func bits(b []byte, from int) uint32 {
	window := binary.BigEndian.Uint32(b[from/8:])
	return window >> (32 - wordBits - from%8) & (1<<wordBits - 1)
}
