package wire

import "encoding/binary"

// AppendField appends one field of encodePayload: its length in four bytes,
// big-endian, and its bytes (02#signatures).
func AppendField[F ~string | ~[]byte](dst []byte, field F) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(field)))
	return append(dst, field...)
}

// EncodePayload is encodePayload(f1, …, fn) for fields that are all strings
// (02#signatures). Without fields it is the empty byte string. For byte fields
// use [AppendField].
func EncodePayload(fields ...string) []byte {
	n := 0
	for _, f := range fields {
		n += 4 + len(f)
	}
	out := make([]byte, 0, n)
	for _, f := range fields {
		out = AppendField(out, f)
	}
	return out
}
