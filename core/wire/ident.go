package wire

import (
	"strings"
	"unicode/utf8"
)

// The grammars of 02#identifiers.

const aceIDPrefix = "ace:sha256:"

// IsACEID reports whether s is an ACE ID.
func IsACEID(s string) bool {
	digest, ok := strings.CutPrefix(s, aceIDPrefix)
	return ok && IsHexDigest(digest)
}

// ACEID returns the ACE ID of the given digest, 64 lowercase hex characters.
func ACEID(digest string) string { return aceIDPrefix + digest }

// IsHexDigest reports whether s is 64 lowercase hexadecimal characters.
func IsHexDigest(s string) bool { return len(s) == 64 && all(s, isLowerHex) }

// IsMessageID reports whether s is a lowercase UUID v4.
func IsMessageID(s string) bool {
	if len(s) != 36 || s[14] != '4' || !strings.ContainsRune("89ab", rune(s[19])) {
		return false
	}
	for i := range len(s) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (s[i] == '-') || !dash && !isLowerHex(s[i]) {
			return false
		}
	}
	return true
}

// IsNamespacedID reports whether s is a profile ID or a message type.
func IsNamespacedID(s string) bool {
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || len(s) > MaxTypeBytes || scheme == "" || rest == "" || !isLower(scheme[0]) {
		return false
	}
	return all(scheme, isSchemeByte) && all(rest, isURIByte)
}

// IsThreadID reports whether s is a thread ID: 1 to 256 code points, none of
// them a control character.
func IsThreadID(s string) bool {
	return s != "" && utf8.RuneCountInString(s) <= MaxThreadIDLength && !HasControl(s)
}

// HasControl reports whether s has a character in U+0000–U+001F or U+007F.
func HasControl(s string) bool {
	return !all(s, func(c byte) bool { return c >= 0x20 && c != 0x7f })
}

// IsHandle reports whether s is a handle: words of lower-case letters and
// digits joined by single hyphens, the first starting with a letter, 3 to 32
// characters in all.
func IsHandle(s string) bool {
	if len(s) < 3 || len(s) > 32 || !isLower(s[0]) {
		return false
	}
	for word := range strings.SplitSeq(s, "-") {
		if word == "" || !all(word, func(c byte) bool { return isLower(c) || isDigit(c) }) {
			return false
		}
	}
	return true
}

// IsCAIP10 reports whether s is a CAIP-10 account, namespace:reference:address.
func IsCAIP10(s string) bool {
	namespace, rest, ok := strings.Cut(s, ":")
	reference, address, ok2 := strings.Cut(rest, ":")
	return ok && ok2 && isCAIPNamespace(namespace) &&
		within(reference, 1, 32) && all(reference, isCAIPReferenceByte) &&
		within(address, 1, 128) && all(address, isCAIPAddressByte)
}

// isCAIPNamespace reports whether s is the namespace part of a CAIP-10 account.
func isCAIPNamespace(s string) bool {
	return within(s, 3, 8) && all(s, func(c byte) bool { return c == '-' || isLower(c) || isDigit(c) })
}

// IsCAIP19 reports whether s is a CAIP-19 asset ID, chain/namespace:reference,
// as commerce#settlement writes it.
func IsCAIP19(s string) bool {
	chain, asset, ok := strings.Cut(s, "/")
	chainNamespace, chainReference, ok2 := strings.Cut(chain, ":")
	assetNamespace, assetReference, ok3 := strings.Cut(asset, ":")
	return ok && ok2 && ok3 && isCAIPNamespace(chainNamespace) && isCAIPNamespace(assetNamespace) &&
		within(chainReference, 1, 32) && all(chainReference, isCAIPReferenceByte) &&
		within(assetReference, 1, 128) && all(assetReference, isCAIPAddressByte)
}

// IsOutcomeCode reports whether s is an error or outcome code.
func IsOutcomeCode(s string) bool {
	return within(s, 1, 64) && all(s, func(c byte) bool { return c == '_' || isLower(c) || isDigit(c) })
}

func within(s string, low, high int) bool { return len(s) >= low && len(s) <= high }

func all(s string, ok func(byte) bool) bool {
	for i := range len(s) {
		if !ok(s[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool    { return c >= '0' && c <= '9' }
func isLower(c byte) bool    { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool    { return c >= 'A' && c <= 'Z' }
func isAlnum(c byte) bool    { return isDigit(c) || isLower(c) || isUpper(c) }
func isLowerHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' }

func isSchemeByte(c byte) bool {
	return isLower(c) || isDigit(c) || c == '+' || c == '.' || c == '-'
}

// isURIByte is the character class shared by namespaced identifiers and the
// path of an HTTPS URL.
func isURIByte(c byte) bool {
	return isAlnum(c) || c != 0 && strings.IndexByte("._~:/?#[]@!$&'()*+,;=%-", c) >= 0
}

func isCAIPReferenceByte(c byte) bool { return c == '-' || c == '_' || isAlnum(c) }
func isCAIPAddressByte(c byte) bool   { return c == '-' || c == '.' || c == '%' || isAlnum(c) }
