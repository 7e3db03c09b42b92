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

// Base64Len returns the number of characters of the Base64 of n bytes.
func Base64Len(n int) int { return base64.StdEncoding.EncodedLen(n) }
