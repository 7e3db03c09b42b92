package wire

import (
	"math"
	"strconv"
)

// Canonical returns canonicalStateBytes(v), the one serialization used for
// hashing, signing and size limits (02#canonical-json).
func (v Value) Canonical() []byte { return v.AppendCanonical(nil) }

// AppendCanonical appends the canonical JSON of v to dst (02#canonical-json).
// Members are in code point order, which is the byte order of their UTF-8.
func (v Value) AppendCanonical(dst []byte) []byte {
	switch v.kind {
	case Bool:
		return strconv.AppendBool(dst, v.truth)
	case Number:
		return appendNumber(dst, v.num)
	case String:
		return appendString(dst, v.str)
	case Array:
		return appendArray(dst, v.items)
	case Object:
		return appendObject(dst, v.members)
	}
	return append(dst, "null"...)
}

func appendArray(dst []byte, items []Value) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = item.AppendCanonical(dst)
	}
	return append(dst, ']')
}

func appendObject(dst []byte, members []Member) []byte {
	dst = append(dst, '{')
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, m.Key)
		dst = append(dst, ':')
		dst = m.Value.AppendCanonical(dst)
	}
	return append(dst, '}')
}

// appendNumber writes ECMAScript's Number::toString of f, as RFC 8785 § 3.2.2.3
// asks: the shortest digits that read back as f, in positional notation for
// exponents from -7 to 20.
func appendNumber(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs == 0 {
		return append(dst, '0')
	}
	if abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two digits of the exponent, ECMAScript the fewest.
	if n := len(dst); n >= 4 && dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

const lowerHex = "0123456789abcdef"

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		start = i + 1
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return append(dst, '\\', 'u', '0', '0', lowerHex[c>>4], lowerHex[c&15])
}
