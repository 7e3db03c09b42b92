package wire

import (
	"encoding/base64"
	"errors"
	"slices"
)

// strict refuses trailing bits that encoding would not set.
var strict = base64.StdEncoding.Strict()

var errBase64 = errors.New("not canonical base64")

// EncodeBase64 returns the padded standard Base64 of b (02#base64).
func EncodeBase64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// AppendBase64 appends the padded standard Base64 of b to dst (02#base64).
func AppendBase64(dst, b []byte) []byte { return base64.StdEncoding.AppendEncode(dst, b) }

// DecodeBase64 decodes canonical Base64: padded, standard alphabet, no
// whitespace, and such that encoding the result gives s again (02#base64).
func DecodeBase64(s string) ([]byte, error) {
	return AppendDecodedBase64(make([]byte, 0, strict.DecodedLen(len(s))), []byte(s))
}

// AppendDecodedBase64 appends to dst what [DecodeBase64] decodes.
func AppendDecodedBase64(dst, text []byte) ([]byte, error) {
	dst = slices.Grow(dst, strict.DecodedLen(len(text)))
	n, err := strict.Decode(dst[len(dst):cap(dst)], text)
	// The strict decoder checks the trailing bits but skips line breaks: what
	// encodes to fewer characters than the text has held some.
	if err != nil || Base64Len(n) != len(text) {
		return nil, errBase64
	}
	return dst[:len(dst)+n], nil
}

// CheckBase64 returns the number of bytes that [DecodeBase64] would return, and
// fails where it fails. It allocates nothing.
func CheckBase64(text []byte) (int, error) {
	if len(text) == 0 {
		return 0, nil
	}
	if len(text)%base64Quantum != 0 {
		return 0, errBase64
	}
	whole, last := text[:len(text)-base64Quantum], text[len(text)-base64Quantum:]
	foreign := notOfAlphabet(whole)
	// Padding and trailing bits are in the last characters only.
	var decoded [3]byte
	n, err := strict.Decode(decoded[:], last)
	if foreign != 0 || err != nil || Base64Len(n) != base64Quantum {
		return 0, errBase64
	}
	return len(whole)/base64Quantum*3 + n, nil
}

// notOfAlphabet returns 0 if all of text is of the Base64 alphabet. It takes
// eight characters at a time, which is a third faster: for a relay this is the
// larger part of reading a packet.
func notOfAlphabet(text []byte) byte {
	var foreign byte
	for ; len(text) >= 8; text = text[8:] {
		c := (*[8]byte)(text)
		foreign |= notInBase64[c[0]] | notInBase64[c[1]] | notInBase64[c[2]] | notInBase64[c[3]] |
			notInBase64[c[4]] | notInBase64[c[5]] | notInBase64[c[6]] | notInBase64[c[7]]
	}
	for _, c := range text {
		foreign |= notInBase64[c]
	}
	return foreign
}

// base64Quantum is the number of characters that stand for three bytes.
const base64Quantum = 4

// notInBase64 is 1 at the bytes that are no characters of the alphabet.
var notInBase64 = func() (table [256]byte) {
	for c := range table {
		if b := byte(c); !isAlnum(b) && b != '+' && b != '/' {
			table[c] = 1
		}
	}
	return table
}()

// Base64Len returns the number of characters of the Base64 of n bytes.
func Base64Len(n int) int { return base64.StdEncoding.EncodedLen(n) }
