package wire

import (
	"cmp"
	"strings"
)

// IsStreamID reports whether s is a stream ID, two runs of 1 to 20 digits
// joined by a hyphen (02#identifiers).
func IsStreamID(s string) bool {
	a, b, ok := strings.Cut(s, "-")
	return ok && within(a, 1, 20) && all(a, isDigit) && within(b, 1, 20) && all(b, isDigit)
}

// CompareStreamIDs orders two stream IDs as integer pairs, whatever their
// leading zeros: -1, 0 or 1 (02#identifiers).
func CompareStreamIDs(a, b string) int {
	aMajor, aMinor, _ := strings.Cut(a, "-")
	bMajor, bMinor, _ := strings.Cut(b, "-")
	if c := compareDigits(aMajor, bMajor); c != 0 {
		return c
	}
	return compareDigits(aMinor, bMinor)
}

// compareDigits compares numbers of up to 20 digits, which overflow uint64.
func compareDigits(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
